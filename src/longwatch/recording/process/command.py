"""The command of a run: its name, its arguments without secrets, and the environment of its process."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from longwatch.recording.redaction import redact_text
from longwatch.recording.scope import ATTEMPT_VARIABLE, RUN_ID_VARIABLE, STATE_KEY, trace_id_of
from longwatch.recording.secret_names import REDACTED, SecretNames
from longwatch.settings import Settings, sqlite_url

_INTERPRETER = re.compile(r"(?:python|pypy|ruby|perl|php)[\d.]*|node|deno|bun|bash|sh|zsh|dash")


def command_name(command: Sequence[str]) -> str:
    """The name of the program, or of the script that it interprets: `flow.py` rather than `python`."""
    program = PurePath(command[0]).name or command[0]
    arguments = iter(command[1:])
    if not _INTERPRETER.fullmatch(program):
        return program
    for argument in arguments:
        if argument == "-m":
            return next(arguments, program)
        if not argument.startswith("-"):
            return PurePath(argument).name or program
        if argument != "-u":
            break  # the next argument may be the option's value, or code
    return program


def redact_command(command: Sequence[str], secrets: SecretNames) -> list[str]:
    """The command without values that are secrets by their option's name or by their shape."""
    shown: list[str] = []
    follows_secret_option = False
    for argument in command:
        if follows_secret_option and not argument.startswith("-"):
            shown.append(REDACTED)
            follows_secret_option = False
            continue
        shown.append(redact_text(argument, secrets))
        follows_secret_option = argument.startswith("-") and argument.lstrip("-") in secrets
    return shown


JOURNAL_VARIABLE = "LONGWATCH_JOURNAL"
TRACE_VARIABLE = "TRACEPARENT"
STATE_VARIABLE = "TRACESTATE"
MAX_STATE_VALUE = 256  # characters
SAMPLED = "01"


def child_environment(
    inherited: Mapping[str, str], *, run_id: str, attempt: str, journal_url: str, trace_id: str
) -> dict[str, str]:
    """The inherited environment, with what the process needs to record into the same run."""
    environment = {
        **inherited,
        RUN_ID_VARIABLE: run_id,
        ATTEMPT_VARIABLE: attempt,
        JOURNAL_VARIABLE: journal_url,
        TRACE_VARIABLE: traceparent(inherited.get(TRACE_VARIABLE), trace_id),
        STATE_VARIABLE: tracestate(inherited.get(STATE_VARIABLE), run_id),
        "TRACE_ID": trace_id,
        "WORKFLOW_ID": run_id,
        "AGENTIFY_WORKFLOW_ID": run_id,
    }
    parts = urlsplit(journal_url)
    if parts.scheme == "dynamodb":
        environment["AGENTIFY_TABLE_NAME"] = unquote(parts.netloc)
        region = dict(parse_qsl(parts.query)).get("region")
        if region:
            environment["AGENTIFY_TABLE_REGION"] = region
            environment.setdefault("AWS_REGION", region)
    # Python buffers output to a pipe by the block, and a live view would lag behind the work.
    environment.setdefault("PYTHONUNBUFFERED", "1")
    return environment


def absolute_journal_url(settings: Settings) -> str:
    """The journal's URL, made independent of the working directory and of longwatch's settings."""
    url = settings.journal
    parts = urlsplit(url, allow_fragments=False)
    if parts.scheme == "sqlite" and not parts.netloc:
        return sqlite_url(Path(unquote(parts.path.removeprefix("/"))).expanduser().absolute())
    if parts.scheme != "dynamodb":
        return url
    given = dict(parse_qsl(parts.query))
    options = {
        "region": given.get("region") or settings.region,
        "layout": given.get("layout") or settings.layout,
        "endpoint": given.get("endpoint") or settings.endpoint,
    }
    query = urlencode({name: value for name, value in options.items() if value})
    return f"dynamodb://{parts.netloc or quote(settings.table_name)}?{query}"


def traceparent(inherited: str | None, trace_id: str) -> str:
    """A W3C `traceparent` for the child: this trace, a new span, and the caller's sampling decision."""
    flags = SAMPLED
    if inherited is not None and trace_id_of(inherited) == trace_id:
        flags = inherited.strip().split("-")[3][:2]
    return f"00-{trace_id}-{secrets.token_hex(8)}-{flags}"


def tracestate(inherited: str | None, run_id: str) -> str:
    """A W3C `tracestate` for the child that names the run, for a server that receives its spans."""
    entries = [entry.strip() for entry in (inherited or "").split(",")]
    others = [entry for entry in entries if entry and entry.partition("=")[0] != STATE_KEY]
    value = quote(run_id, safe="")
    own = [f"{STATE_KEY}={value}"] if len(value) <= MAX_STATE_VALUE else []
    return ",".join([*own, *others])
