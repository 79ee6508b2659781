"""Notifications in the table of a journal, in partitions that begin with a reserved prefix.

The partition is `longwatch#notify#` and the family of the key: its part before the first `#`. The sort key is
the key; where sort keys are numbers, a digest of it.

Notifiers need the permissions GetItem, PutItem, DeleteItem and Query.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any

from longwatch.errors import Throttled
from longwatch.journal.dynamodb.layout import MARKER, layout_named
from longwatch.model.event import RESERVED_PREFIX
from longwatch.notifications.stores.base import Record, RecordChange
from longwatch.storage.dynamodb.client import DynamoClient
from longwatch.storage.dynamodb.values import AttributeMap, AttributeValue
from longwatch.storage.urls import TableAddress

PARTITION = f"{RESERVED_PREFIX}notify#"
KEY, VALUE, VERSION = "notification_key", "notification", "notification_version"
DIGEST_DIGITS = 30  # hexadecimal: a number of at most 37 digits
# Of a transaction: another one changed the items first.
_LOST = frozenset({"ConditionalCheckFailed", "TransactionConflict"})
_THROTTLED = frozenset({"ThrottlingError", "ProvisionedThroughputExceeded", "RequestLimitExceeded"})


class DynamoNotificationStore(DynamoClient):
    """A `NotificationStore` in the table of a journal, of either layout."""

    def __init__(self, address: TableAddress) -> None:
        super().__init__(address)
        layout = layout_named(address.layout)
        self._partition, self._sort = layout.key_names
        self._marker = layout.index_names.marker
        self._is_number = address.layout == "workflow"

    def get(self, key: str) -> Record | None:
        with self._translation() as client:
            response: Any = client.get_item(
                TableName=self.address.table, Key=self._key(key), ConsistentRead=True
            )
        item = response.get("Item")
        return _record(item) if item else None

    def list(self, prefix: str, *, limit: int, after: str = "", newest: bool = False) -> Sequence[Record]:
        found = [each for each in map(_record, self._items(prefix)) if each.key.startswith(prefix)]
        wanted = [each for each in found if each.key > after]
        return sorted(wanted, key=lambda each: each.key, reverse=newest)[:limit]

    def _items(self, prefix: str) -> Iterator[AttributeMap]:
        """The items of the family, or of this prefix where the sort key is text."""
        names, values = {"#partition": self._partition}, {":partition": _family(prefix)}
        condition = "#partition = :partition"
        if not self._is_number:
            names["#sort"], values[":prefix"] = self._sort, {"S": prefix}
            condition += " AND begins_with(#sort, :prefix)"
        start: dict[str, Any] = {}
        while True:
            with self._translation() as client:
                response: Any = client.query(
                    TableName=self.address.table,
                    KeyConditionExpression=condition,
                    ExpressionAttributeNames=names,
                    ExpressionAttributeValues=values,
                    ConsistentRead=True,
                    **start,
                )
            yield from response["Items"]
            if not response.get("LastEvaluatedKey"):
                return
            start = {"ExclusiveStartKey": response["LastEvaluatedKey"]}

    def commit(self, changes: Sequence[RecordChange]) -> bool:
        from botocore.exceptions import ClientError

        # A single change is a transaction too: its token makes a repeated request of the SDK the same one.
        items: Any = [self._part(each) for each in changes]
        with self._translation() as client:
            try:
                client.transact_write_items(TransactItems=items)
            except ClientError as error:
                response: Any = error.response
                code = response.get("Error", {}).get("Code")
                if code == "TransactionInProgressException":
                    return False
                if code != "TransactionCanceledException":
                    raise
                reasons = {str(each.get("Code")) for each in response.get("CancellationReasons", [])}
                if reasons & _THROTTLED:
                    at = self.address
                    raise Throttled(f"Table {at.table!r} in {at.where} is throttling requests.") from error
                if not reasons & _LOST:
                    raise
                return False
        return True

    def _part(self, change: RecordChange) -> dict[str, Any]:
        condition: dict[str, Any] = {
            "TableName": self.address.table,
            "ConditionExpression": "attribute_not_exists(#known)",
            "ExpressionAttributeNames": {"#known": VERSION},
        }
        if change.version:
            condition["ConditionExpression"] = "#known = :version"
            condition["ExpressionAttributeValues"] = {":version": {"N": str(change.version)}}
        key = self._key(change.key)
        if change.value is None:
            return {"Delete": {"Key": key, **condition}}
        item: AttributeMap = {
            **key,
            self._marker: MARKER,
            KEY: {"S": change.key},
            VALUE: {"S": json.dumps(change.value)},
            VERSION: {"N": str(change.version + 1)},
        }
        if (expires_at := change.value.get("expires_at")) is not None:
            item["ttl"] = {"N": str(int(expires_at) // 1000)}
        return {"Put": {"Item": item, **condition}}

    def _key(self, key: str) -> AttributeMap:
        return {self._partition: _family(key), self._sort: self._sort_value(key)}

    def _sort_value(self, key: str) -> AttributeValue:
        if not self._is_number:
            return {"S": key}
        return {"N": str(int(sha256(key.encode()).hexdigest()[:DIGEST_DIGITS], 16))}


def _family(key: str) -> AttributeValue:
    return {"S": PARTITION + key.partition("#")[0]}


def _record(item: AttributeMap) -> Record:
    return Record(item[KEY]["S"], json.loads(item[VALUE]["S"]), int(item[VERSION]["N"]))
