"""Rejects responses that a proxy, a load balancer or a sign-in page sends in place of DynamoDB.

botocore parses every body with status 200 as well as it can: a page of HTML becomes a response without items,
and a put that never reached a table becomes a success. So a body is checked before botocore parses it, and a
response that is not from DynamoDB counts as an outage.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from botocore.model import OperationModel
    from types_boto3_dynamodb import DynamoDBClient

# Members that DynamoDB always sends. A response to any other operation may be an empty object.
REQUIRED = {
    "Query": "Items",
    "Scan": "Items",
    "DescribeTable": "Table",
    "DescribeTimeToLive": "TimeToLiveDescription",
}
ERROR_MEMBERS = ("__type", "code", "Code")
ERROR_HEADER = "x-amzn-errortype"
SHOWN_BYTES = 60


def check_responses(client: DynamoDBClient) -> DynamoDBClient:
    """Make this client reject responses that are not from DynamoDB. botocore retries 5xx by itself."""
    client.meta.events.register("before-parse.dynamodb", _reject)
    return client


def _reject(operation_model: OperationModel, response_dict: Mapping[str, Any], **_: object) -> None:
    from botocore.parsers import ResponseParserError

    shape = operation_model.output_shape
    status, body = response_dict["status_code"], bytes(response_dict["body"] or b"")
    if not is_dynamodb(
        operation_model.name,
        () if shape is None else shape.members,
        status=status,
        headers=response_dict["headers"],
        body=body,
    ):
        raise ResponseParserError(f"HTTP {status}, {len(body)} bytes: {excerpt(body)}")


def is_dynamodb(
    operation: str, members: Collection[str], *, status: int, headers: Mapping[str, str], body: bytes
) -> bool:
    """Whether DynamoDB can have sent this; `members` are those of the operation's output."""
    if status >= 500:
        return True  # an outage in any case
    if status >= 400 and ERROR_HEADER in headers:
        return True
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return False
    if not isinstance(value, dict):
        return False
    if status != 200:
        return any(isinstance(value.get(name), str) for name in ERROR_MEMBERS)
    required = REQUIRED.get(operation)
    if required is not None:
        return isinstance(value.get(required), list if required == "Items" else dict)
    return not value or any(name in members for name in value)


def excerpt(body: bytes) -> str:
    """The beginning of a body on one line."""
    text = " ".join(body[:SHOWN_BYTES].decode(errors="replace").split())
    return repr(text + ("…" if len(body) > SHOWN_BYTES else ""))
