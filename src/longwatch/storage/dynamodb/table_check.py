"""Checks that a table exists, is ready and has the right keys, when a command or the server starts.

The check needs the permission DescribeTable, and reports more with DescribeTimeToLive. Producers never check
their table: they only need PutItem.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.errors import InvalidJournalUrl, TableProblem
from longwatch.storage.aws import ClientOptions, core_session, make_client, new_session
from longwatch.storage.dynamodb.errors import (
    KEYS,
    TableShape,
    create_command,
    sdk_errors,
    translate_error,
)
from longwatch.storage.dynamodb.responses import check_responses
from longwatch.storage.urls import TableAddress

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
    ttl: str | None = None  # ENABLED, DISABLED, …; None: no permission, or not a journal
    clock_skew_seconds: float | None = None  # this machine's clock minus the service's, to half a second
    warnings: tuple[str, ...] = ()
    missing_indexes: tuple[str, ...] = ()  # of those that the store works without


def check_table(at: TableAddress, *, clock: Clock = SYSTEM_CLOCK) -> TableReport:
    """Describe the table of a journal, or raise a `TableProblem` that states the next step."""
    if at.layout not in KEYS:
        raise InvalidJournalUrl(f"Unknown layout {at.layout!r}. Use one of {', '.join(KEYS)}.")
    client = _connect(at)
    at = replace(at, region=client.meta.region_name)
    try:
        response = client.describe_table(TableName=at.table)
        received_at = clock.now_ms()
        described = response["Table"]
        status = _usable_status(described, at, create_command(at))
        _refuse_other_keys(described, at)
        ttl, ttl_attribute = _time_to_live(client, at)
    except sdk_errors() as error:
        raise _as_problem(error, at) from error
    finally:
        client.close()
    return replace(
        _report(described, at, status),
        ttl=ttl,
        clock_skew_seconds=_skew(response["ResponseMetadata"]["HTTPHeaders"], received_at),
        warnings=tuple(_warnings(status, ttl, ttl_attribute, at)),
    )


def check_shape(at: TableAddress, shape: TableShape) -> TableReport:
    """Describe the table of another store, or raise a `TableProblem` that states the next step."""
    deploy = shape.deploy_advice(at)
    client = _connect(at)
    at = replace(at, region=client.meta.region_name)
    try:
        described = client.describe_table(TableName=at.table)["Table"]
        status = _usable_status(described, at, deploy)
    except sdk_errors() as error:
        problem = _as_problem(error, at)
        raise (shape.add_advice(problem, at) if problem.kind == "not-found" else problem) from error
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
    optional = _missing_indexes(described, shape.optional)
    return replace(_report(described, at, status), missing_indexes=tuple(optional))


def _report(described: TableDescriptionTypeDef, at: TableAddress, status: str) -> TableReport:
    return TableReport(
        address=at,
        status=status,
        billing=described.get("BillingModeSummary", {}).get("BillingMode", "PROVISIONED"),
        item_count=described.get("ItemCount", 0),
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
    """The error as a problem: a user waits for the check, so an unavailable service is not retried."""
    problem = translate_error(error, at)
    return problem if isinstance(problem, TableProblem) else TableProblem("unreachable", str(problem))


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
    """The state of TTL and its attribute; the state is None without the permission to read it."""
    try:
        described = client.describe_time_to_live(TableName=at.table)["TimeToLiveDescription"]
    except sdk_errors() as error:
        if _as_problem(error, at).kind == "access-denied":
            return None, None
        raise
    return described.get("TimeToLiveStatus", "DISABLED"), described.get("AttributeName")


def _skew(headers: Mapping[str, str], received_at: int) -> float | None:
    try:
        service_time = parsedate_to_datetime(headers["date"])
    except (KeyError, ValueError):
        return None
    # The service reports whole seconds: on average half a second is cut off.
    return round(received_at / 1000 - (service_time.timestamp() + 0.5), 1)


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
