"""The application as a whole: compression, pages, metrics, and unexpected errors."""

from __future__ import annotations

import logging

import httpx2
import pytest
from starlette.types import Receive, Scope, Send

from longwatch.server.errors import CatchAll
from tests.integration.server.stores import Served, new_turn


async def test_large_responses_are_compressed_and_keep_their_tags(server: Served) -> None:
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
        response = await server.http.get(path)

        assert (path, response.status_code) == (path, 200)
        assert response.headers["content-type"] == "text/html; charset=utf-8"
        assert "default-src 'none'" in response.headers["content-security-policy"]
        assert response.headers["cross-origin-opener-policy"] == "same-origin"
    tag = (await server.http.get("/")).headers["etag"]
    assert (await server.http.get("/", headers={"If-None-Match": tag})).status_code == 304
    assert (await server.http.head("/")).content == b""


async def test_every_response_forbids_browsers_to_guess_its_type(server: Served) -> None:
    turn = await new_turn(server.http)

    for path in ("/", "/api/runs", "/api/none", f"{turn}/status", turn, "/openapi.json"):
        response = await server.http.get(path)
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["referrer-policy"] == "no-referrer"


async def test_the_report_of_a_run_is_one_file_to_be_saved(server: Served) -> None:
    payload = {"name": "</script><script>alert(1)</script>"}
    event = {"type": "workflow_start", "payload": payload}
    await server.http.post("/api/runs/wf-1/events", json={"events": [event]})

    response = await server.http.get("/api/runs/wf-1/report")

    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert response.headers["content-disposition"].startswith('attachment; filename="wf-1.html"')
    assert "<script>alert(1)" not in response.text


async def test_a_head_of_a_status_has_no_body(server: Served) -> None:
    turn = await new_turn(server.http)

    response = await server.http.head(f"{turn}/status")

    assert (response.status_code, response.content) == (200, b"")
    assert response.headers["etag"]


async def test_prometheus_reads_the_current_load(server: Served) -> None:
    pytest.importorskip("prometheus_client")
    await server.http.get("/api/runs")
    await server.http.get("/api/runs", headers={"Host": "evil.example"})

    response = await server.http.get("/metrics")

    assert "longwatch_requests_total 3.0" in response.text
    assert "longwatch_refused_total 1.0" in response.text
    assert "longwatch_streams 0.0" in response.text


async def test_an_internal_error_is_logged_and_reported_without_its_details(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        raise ValueError("secret detail")

    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app=CatchAll(broken)), base_url="http://test"
    ) as http:
        with caplog.at_level(logging.ERROR, "longwatch.server"):
            response = await http.get("/x")

    assert (response.status_code, response.json()["error"]["code"]) == (500, "internal_error")
    assert "secret detail" not in response.text
    assert "secret detail" in caplog.text
