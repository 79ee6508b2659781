"""The application as a whole: compression, pages, metrics, and errors that nobody foresaw."""

from __future__ import annotations

import logging

import httpx2
import pytest
from starlette.types import Receive, Scope, Send

from longwatch.server.errors import CatchAll
from tests.integration.server.stores import Served, new_turn


async def test_large_answers_are_compressed_and_keep_their_tags(server: Served) -> None:
    events = [{"type": "note", "payload": {"text": "again and again"}} for _ in range(50)]
    await server.http.post("/api/runs/wf-1/events", json={"events": events})
    url = "/api/runs/wf-1/events"

    plain = await server.http.get(url, headers={"Accept-Encoding": "identity"})
    small = await server.http.get(url, headers={"Accept-Encoding": "gzip"})
    same = await server.http.get(
        url, headers={"Accept-Encoding": "gzip", "If-None-Match": plain.headers["etag"]}
    )

    assert small.headers["content-encoding"] == "gzip"
    assert int(small.headers["content-length"]) * 5 < len(plain.content)
    assert small.json() == plain.json()
    assert small.headers["etag"] == plain.headers["etag"]
    assert "Accept-Encoding" in small.headers["vary"]
    assert same.status_code == 304


async def test_every_view_of_the_page_is_the_page(server: Served) -> None:
    for path in ("/", "/runs", "/runs/a%2Fb", "/projects", "/projects/p1/sessions/s1"):
        answer = await server.http.get(path)

        assert (path, answer.status_code) == (path, 200)
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"
    tag = (await server.http.get("/")).headers["etag"]
    assert (await server.http.get("/", headers={"If-None-Match": tag})).status_code == 304
    assert (await server.http.head("/")).content == b""


async def test_every_answer_tells_browsers_not_to_guess(server: Served) -> None:
    turn = await new_turn(server.http)

    for path in ("/", "/api/runs", "/api/none", f"{turn}/status", turn, "/openapi.json"):
        answer = await server.http.get(path)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"


async def test_the_report_of_a_run_is_one_file_to_be_saved(server: Served) -> None:
    payload = {"name": "</script><script>alert(1)</script>"}
    event = {"type": "workflow_start", "payload": payload}
    await server.http.post("/api/runs/wf-1/events", json={"events": [event]})

    answer = await server.http.get("/api/runs/wf-1/report")

    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-disposition"].startswith('attachment; filename="wf-1.html"')
    assert "<script>alert(1)" not in answer.text


async def test_a_head_of_a_status_has_no_body(server: Served) -> None:
    turn = await new_turn(server.http)

    answer = await server.http.head(f"{turn}/status")

    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["etag"]


async def test_prometheus_reads_how_much_goes_on(server: Served) -> None:
    pytest.importorskip("prometheus_client")
    await server.http.get("/api/runs")
    await server.http.get("/api/runs", headers={"Host": "evil.example"})

    answer = await server.http.get("/metrics")

    assert "longwatch_requests_total 3.0" in answer.text
    assert "longwatch_refused_total 1.0" in answer.text
    assert "longwatch_streams 0.0" in answer.text


async def test_a_mistake_of_the_server_is_logged_and_told_without_its_details(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        raise ValueError("secret detail")

    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app=CatchAll(broken)), base_url="http://test"
    ) as http:
        with caplog.at_level(logging.ERROR, "longwatch.server"):
            answer = await http.get("/x")

    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal_error")
    assert "secret detail" not in answer.text
    assert "secret detail" in caplog.text
