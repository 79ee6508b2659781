"""The journal's table: puts, queries and scans. Raises longwatch errors.

`Table` is a protocol so that tests can put a failing table in front of the real one.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from longwatch.errors import LongwatchError, TableProblem, Throttled
from longwatch.storage.dynamodb.client import DynamoClient
from longwatch.storage.dynamodb.errors import KEYS, sdk_errors
from longwatch.storage.dynamodb.values import AttributeMap, AttributeValue
from longwatch.storage.urls import TableAddress

BATCH_WRITE_ITEMS = 25  # the most that one BatchWriteItem accepts
DELETE_ATTEMPTS = 8  # of the items that DynamoDB left unprocessed
FIRST_RETRY_SECONDS = 0.05  # doubled each time, beside the SDK's own retries


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRange:
    """The items of one partition between two sort keys, both included."""

    partition: AttributeValue
    low: AttributeValue
    high: AttributeValue
    backward: bool = False
    limit: int | None = None  # of items read for one page
    start: AttributeMap | None = None  # resume after this key


@dataclass(frozen=True, slots=True)
class ItemPage:
    """One page of items; `next` is the key to resume after, None at the end."""

    items: list[AttributeMap]
    next: AttributeMap | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PutCondition:
    """A condition on the item under the same key, if there is one."""

    expression: str
    names: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, AttributeValue] = field(default_factory=dict)


class Table(Protocol):
    """The operations of the journal on its table."""

    def put(self, item: AttributeMap, condition: PutCondition) -> AttributeMap | None:
        """Store the item if the condition holds and return None; else return the item under its key."""

    def overwrite(self, item: AttributeMap) -> None:
        """Store the item, replacing any other under its key."""

    def query(self, key_range: KeyRange) -> ItemPage:
        """The items of a range by a consistent read, up to 1 MB."""

    def delete(self, keys: Sequence[AttributeMap]) -> None:
        """Delete the items with these keys, in batches. Deleting an item again changes nothing."""

    def scan(self, *, names: Mapping[str, str], projection: str, start: AttributeMap | None) -> ItemPage:
        """A page of all items of the table, in no particular order."""

    def close(self) -> None:
        """Close the connections."""


class BotoTable(DynamoClient):
    """A `Table` through boto3's low-level client."""

    def __init__(self, address: TableAddress) -> None:
        super().__init__(address)
        self._partition, self._sort = (name for name, _ in KEYS[address.layout])

    def put(self, item: AttributeMap, condition: PutCondition) -> AttributeMap | None:
        from botocore.exceptions import ClientError

        optional: dict[str, Any] = {}
        if condition.names:
            optional["ExpressionAttributeNames"] = condition.names
        if condition.values:
            optional["ExpressionAttributeValues"] = condition.values
        client = self._client()
        try:
            client.put_item(
                TableName=self.address.table,
                Item=item,
                ConditionExpression=condition.expression,
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
                **optional,
            )
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") == "ConditionalCheckFailedException":
                old: Any = error.response.get("Item", {})
                return dict(old)
            raise self._problem(error) from error
        except sdk_errors() as error:
            raise self._problem(error) from error
        return None

    def overwrite(self, item: AttributeMap) -> None:
        client = self._client()
        try:
            client.put_item(TableName=self.address.table, Item=item)
        except sdk_errors() as error:
            raise self._problem(error) from error

    def query(self, key_range: KeyRange) -> ItemPage:
        request: dict[str, Any] = {
            "TableName": self.address.table,
            "KeyConditionExpression": "#partition = :partition AND #sort BETWEEN :low AND :high",
            "ExpressionAttributeNames": {"#partition": self._partition, "#sort": self._sort},
            "ExpressionAttributeValues": {
                ":partition": key_range.partition,
                ":low": key_range.low,
                ":high": key_range.high,
            },
            "ConsistentRead": True,
            "ScanIndexForward": not key_range.backward,
        }
        if key_range.limit is not None:
            request["Limit"] = key_range.limit
        if key_range.start is not None:
            request["ExclusiveStartKey"] = key_range.start
        return _item_page(self._query_page(request))

    def delete(self, keys: Sequence[AttributeMap]) -> None:
        client = self._client()
        table = self.address.table
        for begin in range(0, len(keys), BATCH_WRITE_ITEMS):
            left: Any = [{"DeleteRequest": {"Key": key}} for key in keys[begin : begin + BATCH_WRITE_ITEMS]]
            for attempt in range(DELETE_ATTEMPTS):
                if attempt:
                    time.sleep(FIRST_RETRY_SECONDS * 2 ** (attempt - 1))
                try:
                    response: Any = client.batch_write_item(RequestItems={table: left})
                except sdk_errors() as error:
                    raise self._problem(error) from error
                left = response.get("UnprocessedItems", {}).get(table, [])
                if not left:
                    break
            else:
                raise Throttled(f"Table {table!r} in {self.address.where} is throttling requests.")

    def scan(self, *, names: Mapping[str, str], projection: str, start: AttributeMap | None) -> ItemPage:
        optional: dict[str, Any] = {} if start is None else {"ExclusiveStartKey": start}
        client = self._client()
        try:
            response = client.scan(
                TableName=self.address.table,
                ProjectionExpression=projection,
                ExpressionAttributeNames=names,
                **optional,
            )
        except sdk_errors() as error:
            raise self._problem(error) from error
        return _item_page(response)

    def _problem(self, error: Exception) -> LongwatchError:
        problem = super()._problem(error)
        if isinstance(problem, TableProblem) and problem.kind == "refused":
            (partition, partition_type), (sort, sort_type) = KEYS[self.address.layout]
            return TableProblem(
                "refused",
                f"{problem} Layout {self.address.layout} needs a table with the keys {partition} "
                f"({partition_type}) and {sort} ({sort_type}). Check it with: longwatch doctor",
            )
        return problem


def _item_page(response: Any) -> ItemPage:
    return ItemPage(list(response["Items"]), response.get("LastEvaluatedKey"))
