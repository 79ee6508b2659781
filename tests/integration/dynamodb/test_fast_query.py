"""Fast queries beside boto3: what they send, and what they leave to boto3."""

from __future__ import annotations

import hashlib
import hmac
import io
import json
import shutil
import socket
import ssl
import subprocess
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.compat import HTTPHeaders
from botocore.exceptions import ConnectionClosedError

from longwatch.errors import Unreachable
from longwatch.executions.stores.factory import open_executions
from longwatch.journal.dynamodb.table import BotoTable, KeyRange
from longwatch.journal.factory import open_journal
from longwatch.storage.dynamodb import fast_query
from longwatch.storage.urls import TableAddress
from longwatch.testing import FakeClock
from tests.integration.dynamodb.stand_in import Request, serving

ITEM = {"workflow_id": {"S": "wf-1"}, "timestamp": {"N": "7"}, "data": {"B": "AAE="}}
WANTED = KeyRange(partition={"S": "wf-1"}, low={"N": "1"}, high={"N": "9"}, limit=5, start=None)
REFUSED = {"__type": "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"}


@contextmanager
def table_at(url: str) -> Iterator[BotoTable]:
    table = BotoTable(TableAddress(table="events", region="eu-west-1", endpoint=url))
    try:
        yield table
    finally:
        table.close()


def usual(request: Request) -> tuple[int, object, dict[str, str]]:
    text = json.dumps({"Items": [ITEM], "Count": 1, "ScannedCount": 1}).encode()
    return 200, text, {"x-amz-crc32": str(zlib.crc32(text))}


def expected_signature(request: Request) -> str:
    """Version 4 of the signing process, from the bytes that arrived."""
    scope, names = (
        request.headers["authorization"].partition(f"{key}=")[2].partition(",")[0]
        for key in ("Credential", "SignedHeaders")
    )
    _, day, region, service, _ = scope.split("/")
    lines = [f"{name}:{request.headers[name].strip()}" for name in names.split(";")]
    canonical = "\n".join(["POST", "/", "", *lines, "", names, hashlib.sha256(request.body).hexdigest()])
    to_sign = "\n".join(
        [
            "AWS4-HMAC-SHA256",
            request.headers["x-amz-date"],
            scope.partition("/")[2],
            hashlib.sha256(canonical.encode()).hexdigest(),
        ]
    )
    key = b"AWS4testing"
    for part in (day, region, service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.new(key, to_sign.encode(), "sha256").hexdigest()


def test_fast_queries_use_one_connection() -> None:
    with serving(usual) as server, table_at(server.url) as table:
        responses = [table.query(WANTED) for _ in range(3)]

    assert [response.items for response in responses] == [[ITEM]] * 3
    assert server.ways() == "fff"
    assert len({each.connection for each in server.requests}) == 1


def test_a_fast_query_sends_what_boto3_sends_and_signs_it() -> None:
    def only_long(request: Request) -> tuple[int, object, dict[str, str]]:
        return (500, {}, {}) if request.is_fast else usual(request)

    with serving(only_long) as server, table_at(server.url) as table:
        table.query(WANTED)

    fast, boto3 = server.requests
    assert json.loads(fast.body) == json.loads(boto3.body)
    assert fast.headers["x-amz-target"] == boto3.headers["x-amz-target"]
    assert fast.headers["content-type"] == boto3.headers["content-type"]
    for each in server.requests:  # boto3's own as well, so that the test's way of signing is tested
        assert each.headers["authorization"].endswith(f"Signature={expected_signature(each)}")


def test_a_session_token_is_signed_and_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "for-an-hour")
    with serving(usual) as server, table_at(server.url) as table:
        table.query(WANTED)

    (request,) = server.requests
    assert request.headers["x-amz-security-token"] == "for-an-hour"
    assert "x-amz-security-token" in request.headers["authorization"]
    assert request.headers["authorization"].endswith(f"Signature={expected_signature(request)}")


def test_the_next_page_begins_where_the_last_one_ended() -> None:
    key: dict[str, dict[str, Any]] = {"workflow_id": {"S": "wf-1"}, "timestamp": {"N": "7"}}

    def two_pages(request: Request) -> tuple[int, object, dict[str, str]]:
        is_second = "ExclusiveStartKey" in json.loads(request.body)
        return 200, {"Items": [ITEM], **({} if is_second else {"LastEvaluatedKey": key})}, {}

    with serving(two_pages) as server, table_at(server.url) as table:
        first = table.query(WANTED)
        second = table.query(
            KeyRange(partition=WANTED.partition, low=WANTED.low, high=WANTED.high, start=first.next)
        )

    assert first.next == key
    assert second.next is None
    assert json.loads(server.requests[1].body)["ExclusiveStartKey"] == key


@pytest.mark.parametrize(
    ("status", "reply", "headers"),
    [
        (400, REFUSED, {}),
        (503, {}, {}),
        (200, b'{"Items": [', {}),
        (200, {"Items": "no list"}, {}),
        (200, ["no map"], {}),
        (200, {"Items": [ITEM]}, {"x-amz-crc32": "1"}),
        (302, {}, {"Location": "http://127.0.0.1:9/"}),
    ],
    ids=["throttled", "unavailable", "cut-off", "no-items", "no-map", "wrong-checksum", "elsewhere"],
)
def test_an_unusual_response_is_left_to_boto3(status: int, reply: object, headers: dict[str, str]) -> None:
    def respond(request: Request) -> tuple[int, object, dict[str, str]]:
        return (status, reply, headers) if request.is_fast else usual(request)

    with serving(respond) as server, table_at(server.url) as table:
        assert table.query(WANTED).items[0]["timestamp"] == {"N": "7"}

    assert server.ways() == "fb"


def test_a_connection_that_was_closed_by_the_server_is_replaced() -> None:
    with serving(usual) as server, table_at(server.url) as table:
        server.hangs_up = True
        for _ in range(4):
            assert table.query(WANTED).items
        server.hangs_up = False
        assert table.query(WANTED).items

    assert server.ways() == "fffff"
    assert len({each.connection for each in server.requests}) == 5


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """Decides when a pause ends."""
    clock = FakeClock()
    monkeypatch.setattr(fast_query, "SYSTEM_CLOCK", clock)
    return clock


def test_a_fast_query_that_only_fails_pauses_longer_each_time(clock: FakeClock) -> None:
    def only_long(request: Request) -> tuple[int, object, dict[str, str]]:
        return (403, {}, {}) if request.is_fast else usual(request)

    with serving(only_long) as server, table_at(server.url) as table:
        for _ in range(8):
            table.query(WANTED)
            table.query(WANTED)
            clock.advance(1.0)

    # At 0, 1, 3 and 7 seconds: after one, two and four of rest.
    assert server.ways() == "fbb" + "fbb" + "bb" + "fbb" + "bb" * 3 + "fbb"


def test_one_success_resets_all_failures(clock: FakeClock) -> None:
    def not_now(request: Request) -> tuple[int, object, dict[str, str]]:
        return (500, {}, {}) if request.is_fast and next(turns) else usual(request)

    turns = iter([True, True, False, True, False])
    with serving(not_now) as server, table_at(server.url) as table:
        for seconds in (1.0, 2.0, 0.0, 1.0, 0.0):
            table.query(WANTED)
            clock.advance(seconds)

    assert server.ways() == "fbfb" + "f" + "fb" + "f"


def test_a_connection_that_has_waited_for_long_is_not_used(clock: FakeClock) -> None:
    with serving(usual) as server, table_at(server.url) as table:
        for seconds in (19.0, 21.0, 0.0):
            table.query(WANTED)
            clock.advance(seconds)

    assert server.ways() == "fff"
    first, second, third = (each.connection for each in server.requests)
    assert first == second != third


def test_a_fast_query_uses_the_endpoint_of_boto3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCOUNT_ID", "123456789012")
    table = BotoTable(TableAddress(table="events", region="eu-west-1"))
    goes_to: list[str] = []

    def refuse(request: AWSPreparedRequest, **_: object) -> None:
        goes_to.append(request.url)
        raise ConnectionClosedError(endpoint_url=request.url)

    client = table._client()
    fast = table._fast_query(client)
    client.meta.events.register("before-send.dynamodb.Query", refuse)
    with pytest.raises(ConnectionClosedError):
        client.query(TableName="events", KeyConditionExpression="a = :a")

    assert fast is not None
    assert {fast._url} == set(goes_to) == {"https://123456789012.ddb.eu-west-1.amazonaws.com/"}
    table.close()


def test_a_hook_that_replaces_aws_is_called() -> None:
    class Raw(io.BytesIO):
        def stream(self, **_: object) -> Iterator[bytes]:
            yield self.read()

    def pretend(request: AWSPreparedRequest, **_: object) -> Any:
        return AWSResponse(request.url, 200, HTTPHeaders(), Raw(b'{"Items": [], "Count": 0}'))

    with serving(usual) as server, table_at(server.url) as table:
        table._client().meta.events.register("before-send.dynamodb", pretend)
        assert table.query(WANTED).items == []

    assert server.requests == []


def test_credentials_that_no_header_can_hold_are_reported_by_boto3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "two\nlines")
    with serving(usual) as server, table_at(server.url) as table, pytest.raises(Unreachable):
        table.query(WANTED)


def test_a_proxy_leaves_everything_to_boto3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "")
    with serving(usual) as server:
        with table_at(server.url) as table, pytest.raises(Unreachable):
            table.query(WANTED)
        assert server.requests == []
        monkeypatch.setenv("no_proxy", "localhost")
        with table_at(server.url) as table:
            table.query(WANTED)
    assert server.ways() == "f"


def test_a_setting_sends_every_query_through_boto3(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(request: Request) -> tuple[int, object, dict[str, str]]:
        return 200, {"Items": [], "Count": 0, "ScannedCount": 0}, {}

    def ways() -> set[str]:
        with serving(nothing) as server:
            address = f"dynamodb://events?region=eu-west-1&endpoint={server.url}"
            with open_journal(address) as journal, closing(open_executions(address)) as executions:
                journal.read("wf-1")
                assert list(executions.open_executions()) == []
            return set(server.ways())

    assert "f" in ways()
    monkeypatch.setenv("LONGWATCH_FAST_QUERY", "false")
    assert ways() == {"b"}


def test_a_table_can_be_used_again_after_closing() -> None:
    with serving(usual) as server, table_at(server.url) as table:
        table.query(WANTED)
        table.close()
        table.query(WANTED)

    assert server.ways() == "ff"
    assert len({each.connection for each in server.requests}) == 2


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and a certificate for localhost, both in one file."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make a certificate with: apt install openssl")
    folder = tmp_path_factory.mktemp("tls")
    made = folder / "localhost.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    command += ["-keyout", str(folder / "key"), "-out", str(folder / "cert")]
    subprocess.run(command, check=True, capture_output=True)
    made.write_text((folder / "key").read_text() + (folder / "cert").read_text())
    return made


def server_side(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


@pytest.mark.parametrize("variable", ["AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"])
def test_https_trusts_what_boto3_trusts(
    variable: str, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(usual, tls=server_side(certificate)) as server:
        with table_at(server.url) as table, pytest.raises(Unreachable):
            table.query(WANTED)
        assert server.requests == []

        monkeypatch.setenv(variable, str(certificate))
        with table_at(server.url) as table:
            for _ in range(2):
                assert table.query(WANTED).items == [ITEM]

    assert server.ways() == "ff"
    assert len({each.connection for each in server.requests}) == 1


def test_missing_certificates_are_reported_by_boto3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path / "none.pem"))
    with table_at("https://localhost:9") as table, pytest.raises(Unreachable):
        table.query(WANTED)


def test_a_refused_connection_is_reported_by_boto3() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # and does not listen
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        with table_at(url) as table, pytest.raises(Unreachable, match="127"):
            table.query(WANTED)
