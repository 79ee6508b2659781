"""The one door to DynamoDB: puts, queries and scans of one table, its errors in our words.

`Table` is the seam: a leaner client can take the place of boto3, and tests put a failing one in front of it.
Queries, of which followers need two a second for each run, have a shorter way already.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from longwatch.errors import LongwatchError, TableProblem
from longwatch.storage.dynamodb.client import DynamoClient
from longwatch.storage.dynamodb.errors import KEYS, sdk_errors
from longwatch.storage.dynamodb.values import AttributeMap, AttributeValue
from longwatch.storage.urls import TableAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRange:
    """Some items of one partition, from one sort key to another, both included."""

    partition: AttributeValue
    low: AttributeValue
    high: AttributeValue
    backward: bool = False
    limit: int | None = None  # most items to look at in one answer
    start: AttributeMap | None = None  # go on after this key


@dataclass(frozen=True, slots=True)
class ItemPage:
    """One page of items; `next` is where the next one begins, None at the end."""

    items: list[AttributeMap]
    next: AttributeMap | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PutCondition:
    """What must hold of the item that is in the place, if there is one."""

    expression: str
    names: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, AttributeValue] = field(default_factory=dict)


class Table(Protocol):
    """What the journal asks of its table."""

    def put(self, item: AttributeMap, condition: PutCondition) -> AttributeMap | None:
        """Store the item if the condition holds: None. If not: the item that is in its place."""

    def overwrite(self, item: AttributeMap) -> None:
        """Store the item, whatever is in its place."""

    def query(self, wanted: KeyRange) -> ItemPage:
        """The items of a range as they are now, up to 1 MB of them."""

    def scan(self, *, names: Mapping[str, str], projection: str, start: AttributeMap | None) -> ItemPage:
        """Some items of the whole table, in no order that means anything."""

    def close(self) -> None:
        """Let go of the connections."""


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

    def query(self, wanted: KeyRange) -> ItemPage:
        request: dict[str, Any] = {
            "TableName": self.address.table,
            "KeyConditionExpression": "#partition = :partition AND #sort BETWEEN :low AND :high",
            "ExpressionAttributeNames": {"#partition": self._partition, "#sort": self._sort},
            "ExpressionAttributeValues": {
                ":partition": wanted.partition,
                ":low": wanted.low,
                ":high": wanted.high,
            },
            "ConsistentRead": True,
            "ScanIndexForward": not wanted.backward,
        }
        if wanted.limit is not None:
            request["Limit"] = wanted.limit
        if wanted.start is not None:
            request["ExclusiveStartKey"] = wanted.start
        return _answer(self._query_page(request))

    def scan(self, *, names: Mapping[str, str], projection: str, start: AttributeMap | None) -> ItemPage:
        optional: dict[str, Any] = {} if start is None else {"ExclusiveStartKey": start}
        client = self._client()
        try:
            answer = client.scan(
                TableName=self.address.table,
                ProjectionExpression=projection,
                ExpressionAttributeNames=names,
                **optional,
            )
        except sdk_errors() as error:
            raise self._problem(error) from error
        return _answer(answer)

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


def _answer(answer: Any) -> ItemPage:
    return ItemPage(list(answer["Items"]), answer.get("LastEvaluatedKey"))
