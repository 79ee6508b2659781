"""The table of documents: consistent reads, transactions and batches. Raises longwatch errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from longwatch.errors import Throttled
from longwatch.storage.dynamodb.client import DynamoClient
from longwatch.storage.dynamodb.errors import TableShape
from longwatch.storage.dynamodb.values import AttributeMap

TEMPLATE = "infrastructure/documents-table.yaml"
PARTITION, SORT = "pk", "sk"
CHANGES = "changes"  # the index of a project's files by the project's version
CHANGED = "project_version"
SHAPE = TableShape(
    holds="documents",
    keys=((PARTITION, "S"), (SORT, "S")),
    indexes=(CHANGES,),
    template=TEMPLATE,
    add_index=f"Use a table that {TEMPLATE} creates.",
)

BATCH_GET_ITEMS = 100  # items of one BatchGetItem
BATCH_WRITE_ITEMS = 25  # items of one BatchWriteItem
BATCH_ATTEMPTS = 8

LOST = "ConditionalCheckFailed"
CONFLICT = "TransactionConflict"
_THROTTLING = frozenset({"ThrottlingError", "ProvisionedThroughputExceeded", "RequestLimitExceeded"})


@dataclass(frozen=True, slots=True)
class Put:
    """A part of a transaction: store the item if the condition holds for the item under its key."""

    item: AttributeMap
    condition: str | None = None
    values: AttributeMap | None = None


class DocumentTable(DynamoClient):
    """A table of documents through boto3's low-level client."""

    shape = SHAPE

    def get(self, partition: str, sort: str) -> AttributeMap | None:
        """The item as it is now."""
        with self._translation() as client:
            response = client.get_item(
                TableName=self.address.table, Key=key_of(partition, sort), ConsistentRead=True
            )
        found: Any = response.get("Item")
        return found or None

    def get_many(self, partition: str, sorts: Sequence[str]) -> list[AttributeMap]:
        """The items that exist of these keys, in any order."""
        found: list[AttributeMap] = []
        for begin in range(0, len(sorts), BATCH_GET_ITEMS):
            wanted: Any = [key_of(partition, sort) for sort in sorts[begin : begin + BATCH_GET_ITEMS]]
            for _ in range(BATCH_ATTEMPTS):
                with self._translation() as client:
                    response: Any = client.batch_get_item(
                        RequestItems={self.address.table: {"Keys": wanted, "ConsistentRead": True}}
                    )
                found += response["Responses"].get(self.address.table, [])
                wanted = response.get("UnprocessedKeys", {}).get(self.address.table, {}).get("Keys", [])
                if not wanted:
                    break
            else:
                raise self._throttled()
        return found

    def beginning_with(self, partition: str, prefix: str) -> Iterator[AttributeMap]:
        """The items of a partition whose sort key has this prefix, in order."""
        if not prefix:
            return self._query("pk = :pk", {":pk": {"S": partition}})
        return self._query(
            "pk = :pk AND begins_with(sk, :prefix)", {":pk": {"S": partition}, ":prefix": {"S": prefix}}
        )

    def between(
        self, partition: str, low: str, high: str, *, keys_only: bool = False
    ) -> Iterator[AttributeMap]:
        """The items of a partition from one sort key to another, in order."""
        values = {":pk": {"S": partition}, ":low": {"S": low}, ":high": {"S": high}}
        options = {"ProjectionExpression": f"{PARTITION}, {SORT}"} if keys_only else {}
        return self._query("pk = :pk AND sk BETWEEN :low AND :high", values, **options)

    def changed_after(self, partition: str, version: int) -> Iterator[AttributeMap]:
        """The items of a partition that changed after a version of the project."""
        values = {":pk": {"S": partition}, ":version": {"N": str(version)}}
        return self._query(f"pk = :pk AND {CHANGED} > :version", values, IndexName=CHANGES)

    def _query(self, condition: str, values: AttributeMap, **options: Any) -> Iterator[AttributeMap]:
        while True:
            with self._translation() as client:
                response: Any = client.query(
                    TableName=self.address.table,
                    KeyConditionExpression=condition,
                    ExpressionAttributeValues=values,
                    ConsistentRead=True,
                    **options,
                )
            yield from response["Items"]
            if not response.get("LastEvaluatedKey"):
                return
            options["ExclusiveStartKey"] = response["LastEvaluatedKey"]

    def put(self, item: AttributeMap) -> None:
        """Store the item, replacing any other under its key."""
        with self._translation() as client:
            client.put_item(TableName=self.address.table, Item=item)

    def transact(self, *parts: Put) -> list[str]:
        """Store all parts and return an empty list, or none: then `LOST`, `CONFLICT` or "None" for each."""
        from botocore.exceptions import ClientError

        with self._translation() as client:
            try:
                client.transact_write_items(TransactItems=[{"Put": self._put_of(part)} for part in parts])
            except ClientError as error:
                response: Any = error.response
                code = response.get("Error", {}).get("Code")
                if code == "TransactionInProgressException":
                    return [CONFLICT for _ in parts]
                if code != "TransactionCanceledException":
                    raise
                reasons = [str(each.get("Code", "None")) for each in response.get("CancellationReasons", [])]
                self._refuse_others(reasons, error)
                return reasons
        return []

    def _put_of(self, part: Put) -> Any:
        request: dict[str, Any] = {"TableName": self.address.table, "Item": part.item}
        if part.condition is not None:
            request["ConditionExpression"] = part.condition
        if part.values:
            request["ExpressionAttributeValues"] = part.values
        return request

    def _refuse_others(self, reasons: Sequence[str], error: Exception) -> None:
        others = set(reasons) - {LOST, CONFLICT, "None"}
        if others & _THROTTLING:
            raise self._throttled() from error
        if others or not reasons:
            raise error

    def delete(self, keys: Sequence[AttributeMap]) -> None:
        """Delete these items."""
        for begin in range(0, len(keys), BATCH_WRITE_ITEMS):
            left: Any = [{"DeleteRequest": {"Key": key}} for key in keys[begin : begin + BATCH_WRITE_ITEMS]]
            for _ in range(BATCH_ATTEMPTS):
                with self._translation() as client:
                    response: Any = client.batch_write_item(RequestItems={self.address.table: left})
                left = response.get("UnprocessedItems", {}).get(self.address.table, [])
                if not left:
                    break
            else:
                raise self._throttled()

    def _throttled(self) -> Throttled:
        at = self.address
        return Throttled(f"Table {at.table!r} in {at.where} is throttling requests.")


def key_of(partition: str, sort: str) -> AttributeMap:
    return {PARTITION: {"S": partition}, SORT: {"S": sort}}
