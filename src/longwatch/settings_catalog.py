"""The list of settings: key in the file, environment variable, default, parser and description."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

DEFAULT_TABLE = "agentify-workflow-events"
MAX_PAYLOAD_BYTES = 350 * 1024  # leaves 50 KB of DynamoDB's 400 KB for keys and attributes
CAPTURE_POLICIES = ("off", "summary", "full")
ALL_SDKS, NO_SDKS = "all", "none"  # in `recording.attach`
LAYOUTS = ("workflow", "session")
DEFAULT_OTHER_STATUSES = (
    "CANCELLING",
    "PAUSED",
    "TIMEOUT",
    "COMPLETED_WITH_WARNINGS",
)


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting."""

    key: str  # dotted, as in longwatch.toml
    attribute: str
    variable: str
    default: object
    read: Callable[[object], object]
    about: str
    example: object = None  # for `longwatch init`, where there is no default to show


def _parse_text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("must be text")
    return value


def _one_of(*choices: str) -> Callable[[object], str]:
    def read(value: object) -> str:
        if value not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}")
        return str(value)

    return read


def _parse_boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    words = {
        "1": True,
        "true": True,
        "yes": True,
        "on": True,
        "0": False,
        "false": False,
        "no": False,
        "off": False,
    }
    if isinstance(value, str) and value.lower() in words:
        return words[value.lower()]
    raise ValueError("must be true or false")


def _whole(lowest: int, highest: int) -> Callable[[object], int]:
    def read(value: object) -> int:
        try:
            number = int(value) if isinstance(value, str) else value
        except ValueError:
            number = None
        if not isinstance(number, int) or isinstance(number, bool) or not lowest <= number <= highest:
            raise ValueError(f"must be an integer from {lowest} to {highest}")
        return number

    return read


def _amount(highest: float, expected: str) -> Callable[[object], float]:
    def read(value: object) -> float:
        try:
            number = (
                float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else -1.0
            )
        except ValueError:
            number = -1.0
        if not 0 <= number <= highest:
            raise ValueError(f"must be {expected}")
        return number

    return read


def _parse_names(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(name.strip() for name in value.split(",") if name.strip())
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return tuple(value)
    raise ValueError("must be a list of names")


SETTINGS: tuple[Setting, ...] = (
    Setting(
        "journal",
        "journal",
        "LONGWATCH_JOURNAL",
        None,
        _parse_text,
        "Journal URL: sqlite:///file.db, dynamodb://table?region=…, memory://",
        example="sqlite:///longwatch.db",
    ),
    Setting(
        "documents",
        "documents",
        "LONGWATCH_DOCUMENTS",
        None,
        _parse_text,
        "Document store URL, in the same form as the journal's (default: beside the journal)",
        example="sqlite:///longwatch.db",
    ),
    Setting(
        "infrastructure.dynamodb.table_name",
        "table_name",
        "LONGWATCH_TABLE_NAME",
        DEFAULT_TABLE,
        _parse_text,
        "Default table for a dynamodb:// URL without a table name",
    ),
    Setting(
        "infrastructure.dynamodb.region",
        "region",
        "LONGWATCH_REGION",
        None,
        _parse_text,
        "AWS region of the table (default: as the AWS SDK resolves it)",
        example="eu-central-1",
    ),
    Setting(
        "infrastructure.dynamodb.endpoint",
        "endpoint",
        "LONGWATCH_ENDPOINT",
        None,
        _parse_text,
        "DynamoDB endpoint URL, such as that of a local emulator",
        example="http://127.0.0.1:8000",
    ),
    Setting(
        "infrastructure.dynamodb.layout",
        "layout",
        "LONGWATCH_LAYOUT",
        "workflow",
        _one_of(*LAYOUTS),
        "Layout of the events in the table: workflow or session",
    ),
    Setting(
        "infrastructure.dynamodb.fast_query",
        "fast_query",
        "LONGWATCH_FAST_QUERY",
        True,
        _parse_boolean,
        "false: every query goes through boto3, so that tools that trace boto3 calls see it",
    ),
    Setting(
        "recording.enabled",
        "enabled",
        "LONGWATCH_ENABLED",
        True,
        _parse_boolean,
        "false: decorated functions run as usual and nothing is recorded",
    ),
    Setting(
        "recording.capture",
        "capture",
        "LONGWATCH_CAPTURE",
        "summary",
        _one_of(*CAPTURE_POLICIES),
        "How arguments and results are captured: off, summary (shortened) or full",
    ),
    Setting(
        "recording.attach",
        "attach",
        "LONGWATCH_ATTACH",
        (ALL_SDKS,),
        _parse_names,
        "SDKs that `longwatch run`, `longwatch turn` and `attach()` record: their names, all or none",
    ),
    Setting(
        "recording.max_payload_bytes",
        "max_payload_bytes",
        "LONGWATCH_MAX_PAYLOAD_BYTES",
        MAX_PAYLOAD_BYTES,
        _whole(1024, MAX_PAYLOAD_BYTES),
        "Larger payloads are shortened to this size; their structure is preserved",
    ),
    Setting(
        "recording.redact_keys",
        "redact_keys",
        "LONGWATCH_REDACT_KEYS",
        (),
        _parse_names,
        "Additional field names whose values are never stored",
    ),
    Setting(
        "recording.ttl_hours",
        "ttl_hours",
        "LONGWATCH_TTL_HOURS",
        None,
        _amount(1_000_000, "a number of hours, 0 for never"),
        "Events expire after this many hours; 0 disables expiry (default: 24 in layout workflow, "
        "otherwise 0)",
        example=24,
    ),
    Setting(
        "recording.queue_events",
        "queue_events",
        "LONGWATCH_QUEUE_EVENTS",
        50_000,
        _whole(100, 10_000_000),
        "Maximum number of events queued in memory",
    ),
    Setting(
        "recording.exit_timeout_seconds",
        "exit_timeout_seconds",
        "LONGWATCH_EXIT_TIMEOUT_SECONDS",
        5.0,
        _amount(3_600, "a number of seconds from 0 to 3600"),
        "How long an exiting process waits for the journal before it moves unsent events to the outbox",
    ),
    Setting(
        "recording.outbox",
        "outbox",
        "LONGWATCH_OUTBOX",
        None,
        _parse_text,
        "File for events that could not be delivered (default: outbox.db in the data directory)",
        example="outbox.db",
    ),
    Setting(
        "recording.carry_context",
        "carry_context",
        "LONGWATCH_CARRY_CONTEXT",
        True,
        _parse_boolean,
        "Threads and thread pools started inside a run record to that run",
    ),
    Setting(
        "recording.heartbeat_seconds",
        "heartbeat_seconds",
        "LONGWATCH_HEARTBEAT_SECONDS",
        None,
        _amount(86_400, "a number of seconds up to 86400, 0 for never"),
        "Heartbeat interval of a process with open runs; 0 disables heartbeats (default: 15, DynamoDB 60)",
        example=15,
    ),
    Setting(
        "executions.learned_cadence",
        "learned_cadence",
        "LONGWATCH_LEARNED_CADENCE",
        False,
        _parse_boolean,
        "Poll executions when past durations suggest a change, instead of every 45/15/30 s",
    ),
    Setting(
        "executions.other_statuses",
        "other_statuses",
        "LONGWATCH_OTHER_STATUSES",
        DEFAULT_OTHER_STATUSES,
        _parse_names,
        "Statuses of other writers to query where a table has no PollStateIndex or a record was replaced",
    ),
    Setting(
        "server.host",
        "server_host",
        "LONGWATCH_SERVER_HOST",
        "127.0.0.1",
        _parse_text,
        "Address that `longwatch serve` binds to; any non-loopback address requires a token",
    ),
    Setting(
        "server.port",
        "server_port",
        "LONGWATCH_SERVER_PORT",
        8321,
        _whole(0, 65_535),
        "Port that `longwatch serve` listens on; 0 selects a free port",
    ),
    Setting(
        "server.allow_hosts",
        "server_allow_hosts",
        "LONGWATCH_SERVER_ALLOW_HOSTS",
        (),
        _parse_names,
        "Additional host names of the server, such as that of a reverse proxy",
    ),
    Setting(
        "server.allow_origins",
        "server_allow_origins",
        "LONGWATCH_SERVER_ALLOW_ORIGINS",
        (),
        _parse_names,
        "Origins of other pages that may call the server (CORS), such as http://localhost:5173",
    ),
    Setting(
        "server.trusted_proxies",
        "server_trusted_proxies",
        "LONGWATCH_SERVER_TRUSTED_PROXIES",
        (),
        _parse_names,
        "Addresses or networks of proxies whose X-Forwarded-For and X-Forwarded-Proto are trusted",
    ),
    Setting(
        "server.search_index",
        "server_search_index",
        "LONGWATCH_SERVER_SEARCH_INDEX",
        True,
        _parse_boolean,
        "`longwatch serve` fills the search index of a SQLite journal, a file about as large as the events",
    ),
    Setting(
        "server.mcp_write",
        "server_mcp_write",
        "LONGWATCH_SERVER_MCP_WRITE",
        False,
        _parse_boolean,
        "true: at /mcp of `longwatch serve`, agents with the write scope may record notes",
    ),
    Setting(
        "notifications.page_url",
        "page_url",
        "LONGWATCH_PAGE_URL",
        None,
        _parse_text,
        "Address of the page that links in notifications lead to",
        example="http://127.0.0.1:8321/",
    ),
    Setting(
        "notifications.allow_addresses",
        "notification_addresses",
        "LONGWATCH_NOTIFICATION_ADDRESSES",
        (),
        _parse_names,
        "Addresses or networks that notifications may go to although they are not public: 169.254.10.0/24",
    ),
)
