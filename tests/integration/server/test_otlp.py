"""OTLP/HTTP as the specification requires it: forms, compression, partial success, errors and access."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from google.protobuf.json_format import ParseDict
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from longwatch.errors import Unreachable
from longwatch.server.access.limits import ServerLimits
from longwatch.server.access.tokens import Access, Tokens
from tests.integration.server.stores import Served, Stores, served

PROTOBUF, JSON = "application/x-protobuf", "application/json"
TRACE, SPAN = "5b8efff798038103d269b633813fc60c", "eee19b7ec3c1b174"
AT_NS = 1_794_736_800_000_000_000


def text(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "value": {"stringValue": value}}


def span(**other: Any) -> dict[str, Any]:
    """A span as the JSON exporters write it."""
    return {
        "traceId": TRACE,
        "spanId": SPAN,
        "name": "invoke_agent Ada",
        "startTimeUnixNano": str(AT_NS),
        "endTimeUnixNano": str(AT_NS + 2_500_000_000),
        "attributes": [text("gen_ai.operation.name", "invoke_agent")],
        "status": {},
        **other,
    }


def request(*spans: dict[str, Any]) -> bytes:
    scope = {"scope": {"name": "tests"}, "spans": list(spans)}
    return json.dumps({"resourceSpans": [{"resource": {}, "scopeSpans": [scope]}]}).encode()


def as_protobuf(body: bytes) -> bytes:
    found = ExportTraceServiceRequest()
    for each in json.loads(body)["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        made = found.resource_spans.add().scope_spans.add().spans.add()
        made.trace_id, made.span_id = bytes.fromhex(each["traceId"]), bytes.fromhex(each["spanId"])
        made.name = each["name"]
        made.start_time_unix_nano = int(each["startTimeUnixNano"])
        made.end_time_unix_nano = int(each["endTimeUnixNano"])
        for pair in each["attributes"]:
            made.attributes.add(key=pair["key"]).value.string_value = pair["value"]["stringValue"]
    return bytes(found.SerializeToString())


async def post(server: Served, body: bytes, content_type: str = JSON, **headers: str) -> httpx2.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await server.http.post("/v1/traces", content=body, headers={"content-type": content_type, **named})


async def stored(server: Served) -> list[tuple[str, int]]:
    found = await server.http.get(f"/api/runs/trace-{TRACE}/events")
    return [(event["type"], event["occurred_at"]) for event in found.json().get("events", [])]


EVENTS = [
    ("workflow_start", AT_NS // 1_000_000),
    ("agent_start", AT_NS // 1_000_000),
    ("agent_end", AT_NS // 1_000_000 + 2_500),
    ("workflow_complete", AT_NS // 1_000_000 + 2_500),
]


@pytest.mark.parametrize("is_compressed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("content_type", [JSON, PROTOBUF, "application/json; charset=utf-8"])
async def test_a_batch_is_stored_and_acknowledged_in_the_form_of_the_request(
    server: Served, content_type: str, is_compressed: bool
) -> None:
    body = as_protobuf(request(span())) if content_type == PROTOBUF else request(span())
    headers = {"content_encoding": "gzip"} if is_compressed else {}

    answer = await post(server, gzip.compress(body) if is_compressed else body, content_type, **headers)

    assert (answer.status_code, answer.content) == (200, b"" if content_type == PROTOBUF else b"{}")
    assert answer.headers["content-type"] == content_type.partition(";")[0]
    assert await stored(server) == EVENTS


async def test_the_same_batch_again_stores_nothing_new_in_either_form(stores: Stores) -> None:
    async with served(stores) as server:
        await post(server, request(span()))
        before = await stored(server)
        again = await post(server, request(span()))
        otherwise = await post(server, as_protobuf(request(span())), PROTOBUF)
        after = [each for each in await stored(server) if each[0] != "late_batch"]

    assert (again.status_code, otherwise.status_code) == (200, 200)
    assert after == [each for each in before if each[0] != "late_batch"]


async def test_a_span_that_changed_is_reported_and_the_first_one_stays(server: Served) -> None:
    await post(server, request(span()))

    answer = await post(server, request(span(status={"code": 2, "message": "no"})))

    assert answer.status_code == 200
    partial = answer.json()["partialSuccess"]
    assert partial["rejectedSpans"] == "0"
    assert "other content" in partial["errorMessage"]
    assert await stored(server) == EVENTS


async def test_spans_of_a_deleted_run_are_dropped_and_the_others_are_stored(server: Served) -> None:
    await post(server, request(span()))
    await server.http.delete(f"/api/runs/trace-{TRACE}?force=true")
    other = "ab" * 16

    answer = await post(server, request(span(status={"code": 2}), span(traceId=other)))

    assert answer.status_code == 200
    partial = answer.json()["partialSuccess"]
    assert "belong to runs that were deleted" in partial["errorMessage"]
    assert (await server.http.get(f"/api/runs/trace-{TRACE}")).status_code == 410
    assert (await server.http.get(f"/api/runs/trace-{other}")).status_code == 200


async def test_invalid_spans_are_counted_and_the_others_are_stored(server: Served) -> None:
    spans = [span(), span(traceId=""), span(spanId="00" * 8), span(endTimeUnixNano="0")]

    in_json = await post(server, request(*spans))
    in_protobuf = await post(server, as_protobuf(request(*spans)), PROTOBUF)

    found = ExportTraceServiceResponse.FromString(in_protobuf.content).partial_success
    assert in_json.json()["partialSuccess"]["rejectedSpans"] == "3"
    assert (in_json.status_code, in_protobuf.status_code, found.rejected_spans) == (200, 200, 3)
    assert found.error_message == in_json.json()["partialSuccess"]["errorMessage"]
    assert "trace id" in found.error_message
    assert len(await stored(server)) == 4


@pytest.mark.parametrize(
    ("body", "content_type", "headers", "status", "message"),
    [
        (b"{", JSON, {}, 400, "not valid JSON"),
        (b"[]", JSON, {}, 400, "must be an object"),
        (b'{"resourceSpans": {}}', JSON, {}, 400, "must be an array"),
        (request(span(traceId="xyz")), JSON, {}, 400, "hex digits"),
        (request(span(startTimeUnixNano="soon")), JSON, {}, 400, "whole number"),
        (request(span(attributes=[{"key": 1}])), JSON, {}, 400, "must be text"),
        (b"\xff\xff\xff", PROTOBUF, {}, 400, "ExportTraceServiceRequest"),
        (b"not gzip", PROTOBUF, {"content-encoding": "gzip"}, 400, "not valid gzip"),
        (gzip.compress(b"{}", mtime=0)[:-4], JSON, {"content-encoding": "gzip"}, 400, "incomplete"),
        (gzip.compress(bytes(2_000), mtime=0), JSON, {"content-encoding": "gzip"}, 413, "larger than 1000"),
        (b"{}", JSON, {"content-encoding": "br"}, 415, "'br'"),
        (b"{}", "text/plain", {}, 415, "application/x-protobuf"),
        (b"x" * 3_000, PROTOBUF, {}, 413, "larger than 2500"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_malformed_request_gets_the_status_of_its_fault(
    sqlite_stores: Stores, body: bytes, content_type: str, headers: dict[str, str], status: int, message: str
) -> None:
    limits = ServerLimits(body_bytes=2_500, decompressed_bytes=1_000)
    async with served(sqlite_stores, limits=limits) as server:
        answer = await server.http.post(
            "/v1/traces", content=body, headers={"content-type": content_type, **headers}
        )

    assert answer.status_code == status
    if content_type == PROTOBUF:
        assert answer.headers["content-type"] == PROTOBUF
        assert message in Status.FromString(answer.content).message
    else:
        assert answer.headers["content-type"] == JSON
        assert message in answer.json()["message"]
        assert answer.json()["code"] in (3, 8)


async def test_writing_needs_a_token_with_the_write_scope(sqlite_stores: Stores) -> None:
    access = Access(Tokens(write="secret-to-write-with", read="secret-to-read-with"))
    async with served(sqlite_stores, access=access) as server:
        answers = [
            await post(server, as_protobuf(request(span())), PROTOBUF, **headers)
            for headers in (
                {},
                {"authorization": "Bearer secret-to-read-with"},
                {"authorization": "Bearer secret-to-write-with"},
            )
        ]

    assert [answer.status_code for answer in answers] == [401, 403, 200]
    assert "Token required" in Status.FromString(answers[0].content).message
    assert (Status.FromString(answers[0].content).code, Status.FromString(answers[1].content).code) == (16, 7)


async def test_a_sender_that_is_too_fast_gets_a_retry_time(sqlite_stores: Stores) -> None:
    limits = ServerLimits(writes_per_second=0.001, writes_at_once=1)
    async with served(sqlite_stores, limits=limits) as server:
        await post(server, request(span()))
        answer = await post(server, as_protobuf(request(span())), PROTOBUF)

    assert (answer.status_code, int(answer.headers["retry-after"]) > 900) == (429, True)
    assert Status.FromString(answer.content).code == 8


async def test_a_journal_that_is_away_is_worth_a_retry(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise Unreachable("the journal does not respond")

    monkeypatch.setattr(server.context.event_intake, "store", away)
    answer = await post(server, as_protobuf(request(span())), PROTOBUF)
    monkeypatch.undo()
    again = await post(server, as_protobuf(request(span())), PROTOBUF)

    assert (answer.status_code, again.status_code) == (503, 200)
    assert int(answer.headers["retry-after"]) > 0
    assert Status.FromString(answer.content).code == 14
    assert len(await stored(server)) == 4


async def test_without_the_extra_the_install_line_is_in_the_status(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "longwatch.telemetry.otlp_protobuf", raising=False)
    monkeypatch.delattr("longwatch.telemetry.otlp_protobuf", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.proto.collector.trace.v1.trace_service_pb2", None)

    answer = await post(server, b"", PROTOBUF)

    assert answer.status_code == 415
    message = Status.FromString(answer.content).message
    assert "pip install '.[otel]'" in message
    assert "http/json" in message


async def test_arguments_are_captured_as_the_settings_require_and_without_secrets(
    sqlite_stores: Stores, tmp_path: Path
) -> None:
    from longwatch.settings import Settings

    tool = span(
        attributes=[
            text("gen_ai.operation.name", "execute_tool"),
            text("gen_ai.tool.call.arguments", '{"query": "tides", "api_key": "hunter2"}'),
        ]
    )
    found = {}
    for capture, trace in (("full", "11" * 16), ("off", "22" * 16)):
        settings = Settings(journal="memory://", outbox=str(tmp_path / "outbox.db"), capture=capture)
        async with served(sqlite_stores, settings=settings) as server:
            await post(server, request({**tool, "traceId": trace}))
            events = (await server.http.get(f"/api/runs/trace-{trace}/events")).json()["events"]
            found[capture] = next(
                each["payload"].get("input") for each in events if each["type"] == "tool_call"
            )

    assert found == {"full": {"query": "tides", "api_key": "[redacted]"}, "off": None}


async def test_a_late_batch_is_announced_where_readers_would_miss_it(stores: Stores) -> None:
    async with served(stores) as server:
        late_ns = (server.context.clock.now_ms() - 3 * 3_600_000) * 1_000_000
        await post(server, request(span(startTimeUnixNano=late_ns, endTimeUnixNano=late_ns + 1_000_000)))
        types = [type_ for type_, _ in await stored(server)]
        announces = server.context.journal.announce_after_ms is not None

    assert ("late_batch" in types) is announces
    assert set(types) - {"late_batch"} == {type_ for type_, _ in EVENTS}


def log_request(*records: dict[str, Any]) -> bytes:
    return json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": list(records)}]}]}).encode()


def log_record(name: str, **other: Any) -> dict[str, Any]:
    return {
        "timeUnixNano": str(AT_NS),
        "body": {"stringValue": name},
        "attributes": [text("session.id", "s-1"), text("tool_name", "Bash")],
        **other,
    }


async def test_log_events_of_an_agent_are_recorded_and_other_records_are_ignored(server: Served) -> None:
    body = log_request(log_record("claude_code.tool_result"), log_record("a line of a log"))

    answer = await server.http.post("/v1/logs", content=body, headers={"content-type": JSON})

    assert (answer.status_code, answer.json()) == (200, {})
    events = (await server.http.get("/api/runs/claude-code-s-1/events")).json()["events"]
    assert [event["type"] for event in events] == ["tool_call"]


async def test_a_log_record_without_a_time_is_counted(server: Served) -> None:
    body = log_request(log_record("claude_code.tool_result", timeUnixNano="0"))

    answer = await server.http.post("/v1/logs", content=body, headers={"content-type": JSON})

    assert answer.json()["partialSuccess"]["rejectedLogRecords"] == "1"


@pytest.mark.parametrize(
    ("body", "content_type"), [(b"{", JSON), (b'{"resourceLogs": 1}', JSON), (b"\xff", PROTOBUF)]
)
async def test_malformed_logs_get_a_status(server: Served, body: bytes, content_type: str) -> None:
    answer = await server.http.post("/v1/logs", content=body, headers={"content-type": content_type})

    assert (answer.status_code, answer.headers["content-type"]) == (400, content_type)


POINTS = {"dataPoints": [{"asInt": "1", "timeUnixNano": str(AT_NS)}, {"asInt": "2"}]}
METRICS = {"resourceMetrics": [{"scopeMetrics": [{"metrics": [{"name": "n", "sum": POINTS}]}]}]}


@pytest.mark.parametrize("content_type", [JSON, PROTOBUF])
async def test_metrics_are_counted_as_rejected(server: Served, content_type: str) -> None:
    body = json.dumps(METRICS).encode()
    if content_type == PROTOBUF:
        body = ParseDict(METRICS, ExportMetricsServiceRequest()).SerializeToString()

    answer = await server.http.post("/v1/metrics", content=body, headers={"content-type": content_type})

    assert answer.status_code == 200
    if content_type == JSON:
        partial = answer.json()["partialSuccess"]
        rejected, message = partial["rejectedDataPoints"], partial["errorMessage"]
    else:
        found = ExportMetricsServiceResponse.FromString(answer.content).partial_success
        rejected, message = str(found.rejected_data_points), found.error_message
    assert rejected == "2"
    assert "OTEL_METRICS_EXPORTER=none" in message
    assert (await server.http.get("/api/runs")).json()["runs"] == []


async def test_an_export_without_data_points_succeeds(server: Served) -> None:
    answer = await server.http.post(
        "/v1/metrics", content=b'{"resourceMetrics": []}', headers={"content-type": JSON}
    )

    assert (answer.status_code, answer.json()) == (200, {})


@pytest.mark.parametrize(
    ("body", "content_type"), [(b"{", JSON), (b'{"resourceMetrics": 1}', JSON), (b"\xff", PROTOBUF)]
)
async def test_malformed_metrics_get_a_status(server: Served, body: bytes, content_type: str) -> None:
    answer = await server.http.post("/v1/metrics", content=body, headers={"content-type": content_type})

    assert (answer.status_code, answer.headers["content-type"]) == (400, content_type)


async def test_a_trace_becomes_a_run_by_the_details_of_an_inference(server: Served) -> None:
    ordinary = span(name="POST /ask", attributes=[])
    details = log_record(
        "",
        eventName="gen_ai.client.inference.operation.details",
        attributes=[text("gen_ai.operation.name", "chat")],
        traceId=TRACE,
        spanId="00f067aa0ba902b7",
    )
    await post(server, request(ordinary))
    before = await stored(server)

    await server.http.post("/v1/logs", content=log_request(details), headers={"content-type": JSON})

    assert before == []
    assert {type_ for type_, _ in await stored(server)} == {
        "workflow_start",
        "model_call",
        "workflow_complete",
    }
