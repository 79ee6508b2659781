"""What is too large, too slow, too often or not what it should be is refused, in one shape."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import pytest

from longwatch.server.access.limits import ServerLimits
from longwatch.server.app import create_app
from longwatch.server.context import open_context
from tests.integration.server.processes import ServeProcess, journal_option, raw_response, serving
from tests.integration.server.stores import LINES, Served, Stores, is_polled, new_turn, served, until
from tests.patience import PATIENCE_SECONDS

APPEND = "/api/runs/wf-1/events"
JSON = {"content-type": "application/json"}


def code_of(response: httpx2.Response) -> str:
    assert response.headers["content-type"] == "application/json"
    code: str = response.json()["error"]["code"]
    assert response.json()["error"]["message"]
    return code


@pytest.mark.parametrize(
    ("content", "headers", "status", "code"),
    [
        (b"not json", JSON, 400, "not_json"),
        (b"", JSON, 400, "not_json"),
        (b"\xff\xfe", JSON, 400, "not_utf8"),
        (b'{"events":[{"type":"x","payload":{"a":NaN}}]}', JSON, 400, "not_json"),
        (b"[" * 100_000, JSON, 422, "invalid_event"),
        (b"[]", JSON, 422, "invalid_request"),
        (b'{"events":[],"more":1}', JSON, 422, "invalid_request"),
        (b'{"events":[7]}', JSON, 422, "invalid_event"),
        (b'{"events":[{"type":"x","payload":{"a":1e999}}]}', JSON, 422, "invalid_event"),
        (b'{"events":[{"type":"x","occurred_at":true}]}', JSON, 422, "invalid_event"),
        (b'{"events":[{"type":"x","event_id":"a"}]}', JSON, 422, "invalid_event"),
        (b'{"events":[{"type":"\\ud800"}]}', JSON, 422, "invalid_event"),
        (b'{"type":"x"}\nnonsense\n', LINES, 400, "not_json"),
        (b"a=b", {"content-type": "application/x-www-form-urlencoded"}, 415, "unsupported_media_type"),
        (b"{}", {}, 415, "unsupported_media_type"),
    ],
)
async def test_a_malformed_append_is_refused_by_its_fault(
    server: Served, content: bytes, headers: dict[str, str], status: int, code: str
) -> None:
    response = await server.http.post(APPEND, content=content, headers=headers)

    assert (response.status_code, code_of(response)) == (status, code)
    assert (await server.http.get("/api/runs")).json()["runs"] == []


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/api/nothing", 404, "not_found"),
        ("PATCH", "/api/runs", 405, "method_not_allowed"),
        ("POST", "/api/projects/p1/sessions/s1/turns/turn-1/status", 405, "method_not_allowed"),
        ("GET", "/api/runs?limit=0", 422, "invalid_request"),
        ("GET", "/api/runs?limit=201", 422, "invalid_request"),
        ("GET", "/api/runs?limit=1_0", 422, "invalid_request"),
        ("GET", "/api/runs?status=gone", 422, "invalid_request"),
        ("GET", "/api/runs?after=nonsense", 400, "invalid_cursor"),
        ("GET", "/api/runs/wf-1/events?limit=5001", 422, "invalid_request"),
        ("GET", "/api/runs/wf-1/events?wait=31", 422, "invalid_request"),
        ("GET", "/api/runs/wf-1/events?after=nonsense", 400, "invalid_cursor"),
        ("GET", "/api/runs/%FF", 422, "invalid_request"),
        ("GET", "/api/projects/p1/sessions/s1/turns/turn-1/status?wait=x", 422, "invalid_request"),
        ("GET", "/api/projects/..%2Fx/sessions/s1", 404, "not_found"),
        ("GET", "/api/projects/-x/sessions/s1", 400, "invalid_input"),
        ("GET", "/api/projects/p1/sessions/s1/turns/wf-1", 400, "invalid_input"),
        ("GET", "/viewer/../server/access.py", 404, "not_found"),
        ("GET", "/viewer/..%2f..%2faccess.py", 404, "not_found"),
        ("GET", "/viewer/%2e%2e/pages.py", 404, "not_found"),
    ],
)
async def test_an_invalid_query_is_refused_with_the_reason(
    server: Served, method: str, path: str, status: int, code: str
) -> None:
    await new_turn(server.http)

    response = await server.http.request(method, path)

    assert (response.status_code, code_of(response)) == (status, code)


async def test_a_body_over_the_limit_is_refused_with_and_without_a_length(sqlite_stores: Stores) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b"x" * 100

    async with served(sqlite_stores, limits=ServerLimits(body_bytes=1000)) as server:
        with_length = await server.http.post(APPEND, content=b"x" * 1001, headers=JSON)
        without_length = await server.http.post(APPEND, content=pieces(), headers=JSON)
        small = await server.http.post(APPEND, json={"events": []})

    assert [(response.status_code, code_of(response)) for response in (with_length, without_length)] == [
        (413, "content_too_large")
    ] * 2
    assert small.status_code == 200


async def test_more_events_than_one_append_may_have_are_refused(sqlite_stores: Stores) -> None:
    async with served(sqlite_stores, limits=ServerLimits(batch_events=3)) as server:
        response = await server.http.post(APPEND, json={"events": [{"type": "note"}] * 4})

        assert (response.status_code, code_of(response)) == (413, "too_many_events")


async def test_a_payload_that_no_table_could_hold_is_refused(server: Served) -> None:
    event = {"type": "note", "payload": {"text": "x" * 360_000}}

    response = await server.http.post(APPEND, json={"events": [event]})

    assert (response.status_code, code_of(response)) == (422, "invalid_event")


async def test_a_body_that_does_not_arrive_in_time_is_given_up(sqlite_stores: Stores) -> None:
    async def stalled() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    async with served(sqlite_stores, limits=ServerLimits(body_seconds=0.05)) as server:
        response = await server.http.post(APPEND, content=stalled(), headers=JSON)

        assert (response.status_code, code_of(response)) == (408, "request_timeout")


async def test_many_headers_and_long_urls_are_refused(server: Served) -> None:
    many = await server.http.get("/api/runs", headers={f"x-{number}": "1" for number in range(200)})
    large = await server.http.get("/api/runs", headers={"x-large": "a" * 40_000})
    long = await server.http.get("/api/runs?text=" + "a" * 20_000)

    assert {(response.status_code, code_of(response)) for response in (many, large)} == {
        (431, "request_header_fields_too_large")
    }
    assert (long.status_code, code_of(long)) == (414, "uri_too_long")


async def test_too_many_writes_are_refused_with_a_retry_time_and_reads_are_not_counted(
    sqlite_stores: Stores,
) -> None:
    async with served(sqlite_stores, limits=ServerLimits(writes_per_second=0.1, writes_at_once=2)) as server:
        writes = [await server.http.post("/api/projects", json={}) for _ in range(3)]
        reads = [await server.http.get("/api/projects") for _ in range(5)]

    assert [response.status_code for response in writes] == [201, 201, 429]
    assert code_of(writes[2]) == "too_many_requests"
    assert 0 < int(writes[2].headers["retry-after"]) <= 10
    assert {response.status_code for response in reads} == {200}


async def test_a_limited_number_of_polls_is_held_and_a_freed_slot_is_used_again(
    sqlite_stores: Stores,
) -> None:
    async with served(sqlite_stores, limits=ServerLimits(streams=1, wait_seconds=1.0)) as server:
        turn = await new_turn(server.http)
        tag = (await server.http.get(f"{turn}/status")).headers["etag"]
        held = {"url": f"{turn}/status?wait=5", "headers": {"If-None-Match": tag}}

        first = asyncio.create_task(server.http.get(**held))  # type: ignore[arg-type]
        await until(lambda: is_polled(server.context, turn))
        refused = await server.http.get(**held)  # type: ignore[arg-type]
        plain = await server.http.get(f"{turn}/status")
        ended = await first
        again = await server.http.get(**held)  # type: ignore[arg-type]

    assert (refused.status_code, code_of(refused)) == (503, "too_many_streams")
    assert [response.status_code for response in (plain, ended, again)] == [200, 304, 304]


async def test_a_response_that_takes_too_long_is_given_up(sqlite_stores: Stores) -> None:
    async with served(sqlite_stores, limits=ServerLimits(answer_seconds=1.0, wait_seconds=5.0)) as server:
        turn = await new_turn(server.http)
        tag = (await server.http.get(f"{turn}/status")).headers["etag"]

        response = await server.http.get(f"{turn}/status?wait=5", headers={"If-None-Match": tag})

        assert (response.status_code, code_of(response)) == (503, "too_slow")


async def test_a_caller_that_leaves_frees_its_slot(sqlite_stores: Stores) -> None:
    with sqlite_stores.opened() as (journal, documents):
        async with open_context(journal, documents, limits=ServerLimits(streams=1)) as context:
            app = create_app(context)
            transport = httpx2.ASGITransport(app=app)
            async with httpx2.AsyncClient(
                transport=transport, base_url="http://127.0.0.1", timeout=PATIENCE_SECONDS
            ) as http:
                turn = await new_turn(http)
                tag = (await http.get(f"{turn}/status")).headers["etag"]
                scope = {
                    "type": "http",
                    "method": "GET",
                    "path": f"{turn}/status",
                    "raw_path": f"{turn}/status".encode(),
                    "query_string": b"wait=30",
                    "headers": [(b"host", b"127.0.0.1"), (b"if-none-match", tag.encode())],
                    "client": ("127.0.0.1", 1),
                }
                left, sent = asyncio.Event(), []

                async def receive() -> dict[str, str]:
                    await left.wait()
                    return {"type": "http.disconnect"}

                async def send(message: object) -> None:
                    sent.append(message)

                poll = asyncio.ensure_future(app(scope, receive, send))
                await until(lambda: is_polled(context, turn))
                left.set()
                await asyncio.wait_for(poll, PATIENCE_SECONDS)
                after = await http.get(f"{turn}/status?wait=0", headers={"If-None-Match": tag})

    assert sent == []
    assert after.status_code == 304


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeProcess]:
    file: Path = tmp_path_factory.mktemp("limits") / "server.db"
    with serving(*journal_option(file)) as running:
        yield running


GET = b"GET /api/runs HTTP/1.1\r\nHost: 127.0.0.1\r\n"


@pytest.mark.parametrize(
    ("request_bytes", "then", "status", "code"),
    [
        (b"nonsense\r\n\r\n", b"", 400, "bad_request"),
        (b"\x16\x03\x01\x02\x00\x01", b"", 400, "bad_request"),
        (GET + b"Content-Length: -1\r\n\r\n", b"", 400, "bad_request"),
        (GET + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", b"", 400, "bad_request"),
        (
            GET,
            b"".join(b"x-%d: 1\r\n" % number for number in range(500)),
            431,
            "request_header_fields_too_large",
        ),
        (GET, b"x-large: " + b"a" * 200_000, 431, "request_header_fields_too_large"),
        (GET + b"x" * 200_000, b"", 431, "request_header_fields_too_large"),
        (b"GET /" + b"a" * 40_000, b"", 414, "uri_too_long"),
    ],
)
def test_an_invalid_request_is_refused_before_it_fills_the_memory(
    process: ServeProcess, request_bytes: bytes, then: bytes, status: int, code: str
) -> None:
    response = raw_response(process.port, request_bytes, then=then)

    head, _, body = response.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status), response[:200]
    assert json.loads(body)["error"]["code"] == code


def test_the_server_still_responds_after_all_that(process: ServeProcess) -> None:
    with httpx2.Client(base_url=process.url, timeout=PATIENCE_SECONDS) as http:
        assert http.get("/api/health").status_code == 200


def test_a_client_that_sends_its_whole_body_first_reads_why_it_was_refused(tmp_path: Path) -> None:
    with serving("--journal", f"sqlite:///{tmp_path / 'large.db'}") as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        connection.request("POST", "/api/projects", b"x" * (20 * 1024 * 1024))
        status = connection.getresponse().status
        connection.close()

    assert status == 413
