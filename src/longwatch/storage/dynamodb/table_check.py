"""Is the table there, ready, and of the right shape? Asked when a command or the server starts.

It needs the right to DescribeTable, and tells more with DescribeTimeToLive. Producers never ask: their
right is PutItem.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.errors import InvalidJournalUrl, TableProblem
from longwatch.storage.aws import ClientOptions, core_session, make_client, new_session
from longwatch.storage.dynamodb.errors import (
    KEYS,
    TableAddress,
    create_command,
    other_region,
    sdk_errors,
    translated,
)
from longwatch.storage.dynamodb.responses import check_responses

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient
    from types_boto3_dynamodb.type_defs import TableDescriptionTypeDef

OPTIONS = ClientOptions(connect_seconds=2, read_seconds=3, attempts=2)

TTL_ATTRIBUTE = "ttl"

# A table in one of these states takes no events. What to do about each:
_UNUSABLE = {
    "CREATING": "Wait a moment, then try again.",
    "DELETING": "The table is being deleted. Wait until it is deleted, then create it again: {create}",
    "ARCHIVING": (
        "DynamoDB is archiving the table because its KMS key is unavailable. Restore its backup "
        "under this name."
    ),
    "ARCHIVED": (
        "DynamoDB archived the table because its KMS key was unavailable. Restore its backup under this name."
    ),
    "INACCESSIBLE_ENCRYPTION_CREDENTIALS": "Grant DynamoDB access to the table's KMS key again.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReport:
    """A table that can be used, as DynamoDB describes it."""

    address: TableAddress
    status: str
    billing: str  # PAY_PER_REQUEST or PROVISIONED
    item_count: int  # DynamoDB counts anew about every six hours
    ttl: str | None  # ENABLED, DISABLED, …; None: no right to ask
    clock_skew_seconds: float | None  # our clock minus the service's, to half a second; None: not told
    warnings: tuple[str, ...] = ()
    missing_indexes: tuple[str, ...] = ()  # of those that the store works without


def check_table(
    table: str,
    *,
    region: str | None = None,
    layout: str = "workflow",
    endpoint: str | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> TableReport:
    """Describe the table, or raise a `TableProblem`: its kind says what is wrong, its text what to do."""
    if layout not in KEYS:
        raise InvalidJournalUrl(f"Unknown layout {layout!r}. Use one of {', '.join(KEYS)}.")
    at = TableAddress(table=table, region=region, layout=layout, endpoint=endpoint)
    client = _connect(at)
    at = TableAddress(table=table, region=client.meta.region_name, layout=layout, endpoint=endpoint)
    try:
        answer = client.describe_table(TableName=table)
        asked_at = clock.now_ms()
        described = answer["Table"]
        status = _usable_status(described, at, create_command(at))
        _refuse_other_keys(described, at)
        ttl, ttl_attribute = _time_to_live(client, at)
    except sdk_errors() as error:
        raise _as_problem(error, at) from error
    finally:
        client.close()
    return TableReport(
        address=at,
        status=status,
        billing=described.get("BillingModeSummary", {}).get("BillingMode", "PROVISIONED"),
        item_count=described.get("ItemCount", 0),
        ttl=ttl,
        clock_skew_seconds=_skew(answer["ResponseMetadata"]["HTTPHeaders"], asked_at),
        warnings=tuple(_warnings(status, ttl, ttl_attribute, at)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TableShape:
    """What another store than the journal needs of its table, and how such a table is made."""

    holds: str  # such as documents
    keys: tuple[tuple[str, str], ...]  # partition key and sort key, each with its type
    indexes: tuple[str, ...]
    template: str
    add_index: str  # the next step for a table that lacks one of them
    optional: tuple[str, ...] = ()  # indexes that an earlier release did not create


def check_shape(at: TableAddress, shape: TableShape) -> TableReport:
    """Describe the table of another store, or raise a `TableProblem` that says what to do."""
    deploy = f"Deploy {shape.template} with TableName={at.table}, or use another table."
    client = _connect(at)
    at = TableAddress(table=at.table, region=client.meta.region_name, endpoint=at.endpoint)
    try:
        described = client.describe_table(TableName=at.table)["Table"]
        status = _usable_status(described, at, deploy)
    except sdk_errors() as error:
        problem = _as_problem(error, at)
        if problem.kind == "not-found":
            told = (
                f"Table {at.table!r} for {shape.holds} was not found in {at.where}. {other_region(at)} "
                f"Otherwise: {deploy}"
            )
            problem = TableProblem("not-found", told)
        raise problem from error
    finally:
        client.close()
    found = _found_keys(described)
    if found != shape.keys:
        raise TableProblem(
            "wrong-keys",
            f"Table {at.table!r} in {at.where} has the keys {_keys(found)}, but {shape.holds} need "
            f"{_keys(shape.keys)}. {deploy}",
        )
    missing = _missing_indexes(described, shape.indexes)
    if missing:
        raise TableProblem(
            "wrong-keys",
            f"Table {at.table!r} in {at.where} has no index {' and '.join(missing)}, which {shape.holds} "
            f"need. {shape.add_index}",
        )
    return TableReport(
        address=at,
        status=status,
        billing=described.get("BillingModeSummary", {}).get("BillingMode", "PROVISIONED"),
        item_count=described.get("ItemCount", 0),
        ttl=None,
        clock_skew_seconds=None,
        missing_indexes=tuple(_missing_indexes(described, shape.optional)),
    )


def _missing_indexes(described: TableDescriptionTypeDef, wanted: Sequence[str]) -> list[str]:
    there = {
        each.get("IndexName")
        for each in (
            *described.get("LocalSecondaryIndexes", []),
            *described.get("GlobalSecondaryIndexes", []),
        )
    }
    return [name for name in wanted if name not in there]


def _connect(at: TableAddress) -> DynamoDBClient:
    core = core_session("A journal on DynamoDB")
    try:
        client: DynamoDBClient = make_client(
            new_session(core), "dynamodb", region=at.region, endpoint=at.endpoint, options=OPTIONS
        )
        return check_responses(client)
    except sdk_errors() as error:
        raise _as_problem(error, at) from error


def _as_problem(error: Exception, at: TableAddress) -> TableProblem:
    """Somebody waits for this answer: a service that does not answer is a problem, not a reason to wait."""
    ours = translated(error, at)
    return ours if isinstance(ours, TableProblem) else TableProblem("unreachable", str(ours))


def _usable_status(described: TableDescriptionTypeDef, at: TableAddress, create: str) -> str:
    status: str = described.get("TableStatus", "ACTIVE")
    advice = _UNUSABLE.get(status)
    if advice is not None:
        advice = advice.format(create=create)
        raise TableProblem("not-active", f"Table {at.table!r} in {at.where} is {status}. {advice}")
    return status


def _found_keys(described: TableDescriptionTypeDef) -> tuple[tuple[str, str], ...]:
    types = {
        each["AttributeName"]: each["AttributeType"] for each in described.get("AttributeDefinitions", [])
    }
    order = sorted(described.get("KeySchema", []), key=lambda key: key["KeyType"])  # HASH before RANGE
    return tuple((key["AttributeName"], types.get(key["AttributeName"], "?")) for key in order)


def _refuse_other_keys(described: TableDescriptionTypeDef, at: TableAddress) -> None:
    found = _found_keys(described)
    if found == KEYS[at.layout]:
        return
    other = next((layout for layout, keys in KEYS.items() if keys == found), None)
    advice = (
        f"It is a table of layout {other}. Use dynamodb://{at.table}?layout={other}."
        if other
        else (
            "The keys of a table cannot be changed. Choose another name and create the table: "
            f"{create_command(at)}"
        )
    )
    raise TableProblem(
        "wrong-keys",
        f"Table {at.table!r} in {at.where} has the keys {_keys(found)}, but layout {at.layout} needs "
        f"{_keys(KEYS[at.layout])}. {advice}",
    )


def _keys(keys: tuple[tuple[str, str], ...]) -> str:
    return " and ".join(f"{name} ({type_})" for name, type_ in keys)


def _time_to_live(client: DynamoDBClient, at: TableAddress) -> tuple[str | None, str | None]:
    """Its state and its attribute; the state is None where asking is not allowed."""
    try:
        described = client.describe_time_to_live(TableName=at.table)["TimeToLiveDescription"]
    except sdk_errors() as error:
        if _as_problem(error, at).kind == "access-denied":
            return None, None
        raise
    return described.get("TimeToLiveStatus", "DISABLED"), described.get("AttributeName")


def _skew(headers: Mapping[str, str], asked_at: int) -> float | None:
    try:
        service_time = parsedate_to_datetime(headers["date"])
    except (KeyError, ValueError):
        return None
    # The service names whole seconds: on average half a second of its time is cut off.
    return round(asked_at / 1000 - (service_time.timestamp() + 0.5), 1)


def _warnings(status: str, ttl: str | None, ttl_attribute: str | None, at: TableAddress) -> list[str]:
    found = []
    if status != "ACTIVE":
        found.append(f"Table {at.table!r} is {status}; it remains usable.")
    if ttl in ("DISABLED", "DISABLING") and at.layout == "workflow":
        found.append(
            f"Table {at.table!r} never deletes expired events: TTL is disabled. Deploy the template "
            f"again: {create_command(at)}"
        )
    if ttl in ("ENABLED", "ENABLING") and ttl_attribute != TTL_ATTRIBUTE:
        found.append(
            f"Table {at.table!r} expires items by {ttl_attribute!r}, but longwatch writes {TTL_ATTRIBUTE!r}."
        )
    return found
