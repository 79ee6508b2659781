"""Executions in a DynamoDB table with the keys `ExecutionId` and `PlanId`, and the `StatusIndex`.

The sparse `PollStateIndex` finds what pollers still have to do under a status of another writer. Its entries
change only when an execution is first polled and when it is closed. A table without
this index works: the statuses in `other_statuses` are queried instead, the newest records of each. These are
queried with the index too, for records that another program replaced, and once a minute by pollers.

Readers need the permissions GetItem and Query (of the table and of the indexes), pollers also UpdateItem, and
`longwatch executions add` PutItem.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.errors import AlreadyThere, LongwatchError, TableProblem, VersionConflict
from longwatch.executions.model import Execution
from longwatch.executions.responses import is_recheck_due
from longwatch.executions.sources.dates import sdk_date_ms
from longwatch.executions.stores.base import (
    DEFAULT_LIST_LIMIT,
    PLANS_READ,
    ListPosition,
    has_run_of_id,
    list_position,
    pick_plan,
    require_unique,
)
from longwatch.executions.stores.packing import pack, unpack
from longwatch.executions.stores.records import (
    ENDED,
    GUARDED,
    KEY,
    OPEN,
    POLL_STATE,
    POLLING,
    RECHECK,
    STATUS_WORDS,
    WORD_BY_STATUS,
    Record,
    changed_attributes,
    is_unreported,
    parse_record,
    to_record,
)
from longwatch.model.summary import Status
from longwatch.settings_catalog import DEFAULT_OTHER_STATUSES
from longwatch.storage.dynamodb.client import DynamoClient
from longwatch.storage.dynamodb.errors import TableShape
from longwatch.storage.dynamodb.values import AttributeMap, from_attribute, to_attribute
from longwatch.storage.urls import TableAddress

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

TEMPLATE = "infrastructure/executions.yaml"
INDEX = "StatusIndex"
POLL_INDEX = "PollStateIndex"
SHAPE = TableShape(
    holds="executions",
    keys=(("ExecutionId", "S"), ("PlanId", "S")),
    indexes=(INDEX,),
    template=TEMPLATE,
    add_index="Add it as docs/how-to/add-the-index.md describes, or use another table.",
    optional=(POLL_INDEX,),
)
NEWEST_BY_STATUS = 100  # records read for each status where the table has no PollStateIndex
NO_INDEX = ("refused", "access-denied")  # AWS checks the permission for an index before its existence
MAX_ID_BYTES, MAX_PLAN_BYTES = 2_048, 1_024  # of a partition key and a sort key
LOST = "ConditionalCheckFailedException"

log = logging.getLogger(__name__)


class DynamoExecutionStore(DynamoClient):
    """An `ExecutionStore` through boto3's low-level client."""

    shape = SHAPE

    def __init__(
        self,
        address: TableAddress,
        *,
        other_statuses: Sequence[str] = DEFAULT_OTHER_STATUSES,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__(address)
        self._other_statuses = other_statuses
        self._clock = clock
        self._is_warned = False
        self._dated: tuple[int, float] | None = None  # date of the last response, and when it was received

    def connect(self) -> DynamoDBClient:
        client = super().connect()
        client.meta.events.register("after-call.dynamodb", self._note_date)
        return client

    def _note_date(self, parsed: Mapping[str, Any], **_: object) -> None:
        date = sdk_date_ms(parsed)
        if date is not None:
            self._dated = date, self._clock.monotonic()

    def server_time_ms(self) -> int | None:
        if self._dated is None:
            return None
        date, received = self._dated
        return date + round((self._clock.monotonic() - received) * 1000)

    def add(self, execution: Execution) -> Execution:
        record = pack(to_record(replace(execution, version=1, stored=None)))
        request: dict[str, Any] = {
            "TableName": self.address.table,
            "Item": _item(record),
            "ConditionExpression": f"attribute_not_exists({KEY[0]})",
        }
        stored = self._conditional("put_item", request)
        if (
            stored is not None and stored != record
        ):  # else the first attempt succeeded and its response was lost
            raise AlreadyThere(
                f"Execution {execution.execution_id!r} of plan {execution.plan_id!r} already exists"
            )
        return _execution(record)

    def get(self, execution_id: str, plan_id: str | None = None) -> Execution | None:
        if not (
            _is_key(execution_id, MAX_ID_BYTES) and (plan_id is None or _is_key(plan_id, MAX_PLAN_BYTES))
        ):
            return None
        if plan_id is not None:
            key = _item({"ExecutionId": execution_id, "PlanId": plan_id})
            with self._translation() as client:
                response: Any = client.get_item(TableName=self.address.table, Key=key, ConsistentRead=True)
            found = _execution(_record(response["Item"])) if response.get("Item") else None
            if found is None or not has_run_of_id(found):
                return found
            return pick_plan(self._find_by_id(execution_id), plan_id)
        return require_unique(self._find_by_id(execution_id))

    def _find_by_id(self, execution_id: str) -> list[Execution]:
        """The executions of this id in all plans."""
        request: dict[str, Any] = {
            "TableName": self.address.table,
            "KeyConditionExpression": "ExecutionId = :id",
            "ExpressionAttributeValues": {":id": {"S": execution_id}},
            "ConsistentRead": True,
            "Limit": PLANS_READ,
        }
        return [_execution(_record(item)) for item in self._query_page(request)["Items"]]

    def update(self, execution: Execution) -> Execution:
        read = dict(execution.stored or {})
        after = replace(execution, version=execution.version + 1, stored=unpack(read) if read else None)
        record = pack(to_record(after))
        stored = self._conditional("update_item", self._update(execution, read, record))
        if stored is None:
            return _execution(record)
        ours = {
            **changed_attributes(read, record),
            **dict.fromkeys(read.keys() - record.keys()),
            "LeaseHolder": record.get(
                "LeaseHolder"
            ),  # which poller wrote: another may have made the same change
        }
        if all(stored.get(name) == value for name, value in ours.items()):
            return _execution(stored)  # the first attempt succeeded, and its response was lost
        raise VersionConflict(execution.execution_id, execution.version)

    def _update(self, execution: Execution, read: Record, record: Record) -> dict[str, Any]:
        names: dict[str, str] = {}
        values: AttributeMap = {}

        def name_of(attribute: str) -> str:
            names[f"#{attribute}"] = attribute
            return f"#{attribute}"

        def value_of(prefix: str, attribute: str, value: object) -> str:
            values[f":{prefix}{attribute}"] = to_attribute(value)
            return f":{prefix}{attribute}"

        sets = [
            f"{name_of(each)} = {value_of('new', each, value)}"
            for each, value in changed_attributes(read, record).items()
        ]
        removes = [name_of(each) for each in sorted(read.keys() - record.keys())]
        holds = [
            f"{name_of(each)} = {value_of('old', each, read[each])}"
            if each in read
            else f"attribute_not_exists({name_of(each)})"
            for each in GUARDED
        ]
        return {
            "TableName": self.address.table,
            "Key": _item({"ExecutionId": execution.execution_id, "PlanId": execution.plan_id}),
            "UpdateExpression": f"SET {', '.join(sets)}"
            + (f" REMOVE {', '.join(removes)}" if removes else ""),
            "ConditionExpression": " AND ".join(["attribute_exists(ExecutionId)", *holds]),
            "ExpressionAttributeNames": names,
            "ExpressionAttributeValues": values,
        }

    def open_executions(self) -> Iterator[Execution]:
        found = {list_position(each): each for each in self._with_status(POLLING)}
        for each in self._under_other_statuses(OPEN):
            if not each.closed:
                found.setdefault(list_position(each), each)
        yield from sorted(found.values(), key=list_position)

    def unsettled(self, now_ms: int) -> Iterator[Execution]:
        ends = [status for status in STATUS_WORDS if status != POLLING]
        yield from (each for each in self._with_poll_state(OPEN, instead=ends) if is_unreported(each))
        statuses = [*ends, *self._other_statuses]
        for each in self._with_poll_state(RECHECK, instead=statuses, due_ms=now_ms):
            if is_recheck_due(each, now_ms):
                yield each
        yield from self._without_poll_state()

    def find(
        self,
        *,
        status: Status | None = None,
        limit: int = DEFAULT_LIST_LIMIT,
        after: ListPosition | None = None,
    ) -> Sequence[Execution]:
        statuses = (
            STATUS_WORDS if status is None else [WORD_BY_STATUS[status]] if status in WORD_BY_STATUS else []
        )
        until_ms = after[0] if after else None
        lists = [self._with_status(status, newest=limit, until_ms=until_ms) for status in statuses]
        lists += [self._under_other_statuses(state, until_ms=until_ms) for state in (OPEN, RECHECK, ENDED)]
        lists.append(self._without_poll_state(until_ms=until_ms))
        found: dict[ListPosition, Execution] = {}
        for each in lists:
            wanted = (one for one in each if status is None or one.status is status)
            found |= {list_position(one): one for one in _newest(wanted, limit, after)}
        return sorted(found.values(), key=list_position, reverse=True)[:limit]

    def _with_status(
        self, status: str, *, newest: int | None = None, until_ms: int | None = None
    ) -> Iterator[Execution]:
        request: dict[str, Any] = {
            "TableName": self.address.table,
            "IndexName": INDEX,
            "KeyConditionExpression": "#status = :status",
            "ExpressionAttributeNames": {"#status": "Status"},
            "ExpressionAttributeValues": {":status": {"S": status}},
            "ScanIndexForward": newest is None,
            **({} if newest is None else {"Limit": newest}),
        }
        if until_ms is not None:
            request["KeyConditionExpression"] += " AND StartTime <= :until"
            request["ExpressionAttributeValues"][":until"] = {"N": str(Decimal(until_ms) / 1000)}
        for item in self._all_pages(request):
            found = _parse_or_skip(_record(item))
            if found is not None:
                yield found

    def _under_other_statuses(self, state: str, *, until_ms: int | None = None) -> Iterator[Execution]:
        """Executions in this poll state under a status of another writer, newest first."""
        for each in self._with_poll_state(state, instead=self._other_statuses, until_ms=until_ms):
            if str((each.stored or {}).get("Status")) not in STATUS_WORDS:
                yield each

    def _without_poll_state(self, *, until_ms: int | None = None) -> Iterator[Execution]:
        """The newest open executions without an index entry: another program replaced the record.

        The next poll sets the poll state again.
        """
        for status in self._other_statuses:
            newest = self._with_status(status, newest=NEWEST_BY_STATUS, until_ms=until_ms)
            for each in islice(newest, NEWEST_BY_STATUS):
                if not each.closed and POLL_STATE not in (each.stored or {}):
                    yield each

    def _with_poll_state(
        self, state: str, *, instead: Sequence[str], until_ms: int | None = None, due_ms: int | None = None
    ) -> Iterator[Execution]:
        """Executions in this poll state that are not POLLING, newest first; with `due_ms`, those due by then.

        Without the index: the newest records under each of the statuses `instead`.
        """
        keys = self._keys_in(state, until_ms, due_ms)
        try:
            first = next(keys, None)
        except TableProblem as problem:
            if problem.kind not in NO_INDEX:
                raise
            self._warn_once(problem)
            for status in instead:
                newest = self._with_status(status, newest=NEWEST_BY_STATUS, until_ms=until_ms)
                yield from islice(newest, NEWEST_BY_STATUS)
            return
        for key in chain([first] if first else [], keys):
            with self._translation() as client:
                response: Any = client.get_item(TableName=self.address.table, Key=key, ConsistentRead=True)
            found = _parse_or_skip(_record(response["Item"])) if response.get("Item") else None
            if found is not None:
                yield found

    def _keys_in(self, state: str, until_ms: int | None, due_ms: int | None) -> Iterator[AttributeMap]:
        request: dict[str, Any] = {
            "TableName": self.address.table,
            "IndexName": POLL_INDEX,
            "KeyConditionExpression": f"{POLL_STATE} = :state",
            "FilterExpression": "#status <> :polling",
            "ExpressionAttributeNames": {"#status": "Status"},
            "ExpressionAttributeValues": {":state": {"S": state}, ":polling": {"S": POLLING}},
            "ScanIndexForward": False,
        }
        if until_ms is not None:
            request["KeyConditionExpression"] += " AND StartTime <= :until"
            request["ExpressionAttributeValues"][":until"] = {"N": str(Decimal(until_ms) / 1000)}
        if due_ms is not None:
            request["FilterExpression"] += " AND RecheckTime <= :due"
            request["ExpressionAttributeValues"][":due"] = {"N": str(Decimal(due_ms) / 1000)}
        for item in self._all_pages(request):
            yield {name: item[name] for name in KEY}

    def _all_pages(self, request: dict[str, Any]) -> Iterator[AttributeMap]:
        while True:
            response = self._query_page(request)
            yield from response["Items"]
            if not response.get("LastEvaluatedKey"):
                return
            request["ExclusiveStartKey"] = response["LastEvaluatedKey"]

    def _warn_once(self, problem: TableProblem) -> None:
        if not self._is_warned:
            self._is_warned = True
            log.warning(
                "Table %r has no index %s%s. "
                "Executions under statuses of other writers are found only for %s",
                self.address.table,
                POLL_INDEX,
                "" if problem.kind == "refused" else f", or may not query it: {problem}",
                ", ".join(self._other_statuses) or "none",
            )

    def _conditional(self, call: str, request: dict[str, Any]) -> Record | None:
        """Write and return None; if the condition fails, return the stored record."""
        from botocore.exceptions import ClientError

        with self._translation() as client:
            try:
                getattr(client, call)(**request, ReturnValuesOnConditionCheckFailure="ALL_OLD")
            except ClientError as error:
                if error.response.get("Error", {}).get("Code") != LOST:
                    raise
                stored: Any = error.response.get("Item", {})
                return _record(stored)
        return None


def _newest(found: Iterator[Execution], limit: int, after: ListPosition | None) -> list[Execution]:
    """Up to `limit`, and all that began at the moment of the last: an index does not order those."""
    newest: list[Execution] = []
    for each in found:
        if len(newest) >= limit and each.started_at != newest[-1].started_at:
            break
        if after is None or list_position(each) < after:
            newest.append(each)
    return newest


def _parse_or_skip(record: Record) -> Execution | None:
    """The execution; None for an invalid record of another writer, which must not hide the others."""
    try:
        return _execution(record)
    except (ArithmeticError, AttributeError, LookupError, LongwatchError, TypeError, ValueError) as error:
        log.warning("the record of execution %s can not be understood: %r", record.get("ExecutionId"), error)
        return None


def _is_key(value: str, most_bytes: int) -> bool:
    """Whether a table can hold this key: DynamoDB rejects reads of any other."""
    return 0 < len(value.encode(errors="surrogatepass")) <= most_bytes


def _execution(record: Record) -> Execution:
    """The execution of a record in the table."""
    whole = unpack(record)
    # Updates are conditional on the stages as stored.
    stored = whole if whole is record else {**whole, "Waves": record.get("Waves")}
    return replace(parse_record(whole), stored=stored)


def _item(record: Record) -> AttributeMap:
    return {name: to_attribute(value) for name, value in record.items()}


def _record(item: AttributeMap) -> Record:
    return {name: from_attribute(value) for name, value in item.items()}
