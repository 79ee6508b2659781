"""Which responses can be DynamoDB's."""

from __future__ import annotations

import pytest

from longwatch.storage.dynamodb.responses import excerpt, is_dynamodb

PUT = ("Attributes", "ConsumedCapacity", "ItemCollectionMetrics")
QUERY = ("Items", "Count", "ScannedCount", "LastEvaluatedKey", "ConsumedCapacity")
REFUSAL = b'{"__type":"com.amazonaws.dynamodb.v20120810#ThrottlingException","message":"slow down"}'


@pytest.mark.parametrize(
    ("operation", "members", "status", "body", "is_theirs"),
    [
        ("PutItem", PUT, 200, b"{}", True),
        ("PutItem", PUT, 200, b'{"ConsumedCapacity":{}}', True),
        ("PutItem", PUT, 200, b'{"ConsumedCapacity":{},"Later":1}', True),  # members that are added later
        ("PutItem", PUT, 200, b'{"status":"ok"}', False),
        ("PutItem", PUT, 200, b"", False),
        ("PutItem", PUT, 200, b"<html>sign in</html>", False),
        ("PutItem", PUT, 200, b"[]", False),
        ("PutItem", PUT, 200, b"null", False),
        ("PutItem", PUT, 200, b"[" * 100_000, False),
        ("PutItem", PUT, 200, b"\xff\xfe", False),
        ("Query", QUERY, 200, b'{"Items":[],"Count":0}', True),
        ("Query", QUERY, 200, b'{"Items":[],"Cou', False),
        ("Query", QUERY, 200, b"{}", False),
        ("Query", QUERY, 200, b'{"Items":null}', False),
        ("Query", QUERY, 200, b'{"Count":0}', False),
        ("Scan", QUERY, 200, b"{}", False),
        ("DescribeTable", ("Table",), 200, b"{}", False),
        ("DescribeTable", ("Table",), 200, b'{"Table":{}}', True),
        ("DescribeTimeToLive", (), 200, b"{}", False),
        ("Query", QUERY, 400, REFUSAL, True),
        ("Query", QUERY, 400, b"<html>bad request</html>", False),
        ("Query", QUERY, 403, b'{"message":"Forbidden"}', False),
        ("Query", QUERY, 404, b"", False),
        ("Query", QUERY, 301, b"", False),
        ("Query", QUERY, 302, b"{}", False),
        ("Query", QUERY, 204, b"", False),
        ("Query", QUERY, 502, b"<html>bad gateway</html>", True),  # an outage already
    ],
)
def test_a_response_is_recognised_by_its_body(
    operation: str, members: tuple[str, ...], status: int, body: bytes, is_theirs: bool
) -> None:
    assert is_dynamodb(operation, members, status=status, headers={}, body=body) is is_theirs


def test_a_refusal_may_be_named_in_a_header() -> None:
    headers = {"x-amzn-errortype": "MissingAuthenticationTokenException"}

    assert is_dynamodb("Query", QUERY, status=403, headers=headers, body=b'{"message":"no"}')


def test_an_excerpt_is_the_beginning_of_a_body_in_one_line() -> None:
    assert excerpt(b"<html>\n <body>") == "'<html> <body>'"
    assert excerpt(b"x" * 100) == repr("x" * 60 + "…")
    assert excerpt(b"") == "''"
