"""The real exporters of OpenTelemetry in Python and Node against a real `longwatch serve`."""

from __future__ import annotations

import json
import logging
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import LogRecordExportResult, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, MetricExportResult
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from longwatch.journal.sqlite import SqliteJournal
from longwatch.model.run import Run, fold
from tests.integration.server.processes import ServeProcess, journal_option, serving
from tests.patience import PATIENCE_SECONDS
from tests.web.node import WEB, node

SCRIPT = Path(__file__).parent / "otlp_exporter.mjs"
TOKEN = "a-token-to-write-with"
AUTHORIZATION = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
def server(file: Path) -> Iterator[ServeProcess]:
    with serving(*journal_option(file), "--token", LONGWATCH_TOKEN=TOKEN) as running:
        yield running


def stored(file: Path, run_id: str) -> Run:
    with SqliteJournal(file) as journal:
        run = fold(journal.read(run_id, limit=1_000).events)
    assert run is not None
    return run


def calls(run: Run) -> list[tuple[str, str, str, str | None, str | None]]:
    names = {call_id: call.name for call_id, call in run.calls.items()}
    return sorted(
        (call.kind, call.name, call.status, names.get(call.parent_call_id or ""), call.agent_name)
        for call in run.calls.values()
    )


EXPECTED = [
    ("agent", "Ada", "completed", None, "Ada"),
    ("model", "large", "completed", "Ada", "Ada"),
    ("tool", "search", "failed", "Ada", "Ada"),
]


def trace_an_agent(provider: TracerProvider) -> str:
    """One trace, as `otlp_exporter.mjs` plays it; returns its id."""
    tracer = provider.get_tracer("tests")
    with (
        tracer.start_as_current_span("POST /ask") as root,
        tracer.start_as_current_span(
            "invoke_agent Ada", attributes={"gen_ai.operation.name": "invoke_agent"}
        ),
    ):
        with tracer.start_as_current_span("event loop cycle"):
            tool = tracer.start_span(
                "execute_tool search", attributes={"gen_ai.operation.name": "execute_tool"}
            )
            tool.record_exception(ValueError("no tides"))
            tool.end()
        tracer.start_span(
            "chat large",
            attributes={"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 12},
        ).end()
    return f"{root.get_span_context().trace_id:032x}"


@pytest.mark.parametrize("compression", [Compression.NoCompression, Compression.Gzip])
def test_the_python_exporter_records_a_run(
    server: ServeProcess, file: Path, compression: Compression
) -> None:
    exporter = OTLPSpanExporter(
        endpoint=f"{server.url}/v1/traces", headers=AUTHORIZATION, compression=compression
    )
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))

    trace_id = trace_an_agent(provider)
    assert provider.force_flush()
    provider.shutdown()

    run = stored(file, f"trace-{trace_id}")
    assert (run.summary.name, run.status) == ("POST /ask", "succeeded")
    assert calls(run) == EXPECTED


def test_spans_that_are_exported_one_by_one_and_twice_make_the_same_run(
    server: ServeProcess, file: Path
) -> None:
    memory = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    trace_id = trace_an_agent(provider)
    spans: tuple[ReadableSpan, ...] = memory.get_finished_spans()
    exporter = OTLPSpanExporter(endpoint=f"{server.url}/v1/traces", headers=AUTHORIZATION)

    results = [exporter.export([span]) for span in (*spans, *reversed(spans))]
    exporter.shutdown()  # type: ignore[no-untyped-call]
    provider.shutdown()

    assert set(results) == {SpanExportResult.SUCCESS}
    run = stored(file, f"trace-{trace_id}")
    assert calls(run) == EXPECTED
    assert run.counts == {
        "workflow_start": 1,
        "agent_start": 1,
        "tool_call": 2,
        "model_call": 2,
        "agent_end": 1,
        "workflow_complete": 1,
        "call_link": 2,
    }


def test_an_exporter_without_a_token_is_refused(server: ServeProcess) -> None:
    memory = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    trace_an_agent(provider)
    provider.shutdown()
    exporter = OTLPSpanExporter(endpoint=f"{server.url}/v1/traces")

    assert exporter.export(memory.get_finished_spans()) is SpanExportResult.FAILURE
    exporter.shutdown()  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("name", ["exporter-trace-otlp-http", "exporter-trace-otlp-proto"])
def test_the_node_exporters_record_a_run(server: ServeProcess, file: Path, name: str) -> None:
    if not (WEB / "node_modules" / "@opentelemetry" / name / "package.json").exists():
        pytest.skip(f"@opentelemetry/{name} is not installed; run `make web`, which needs npm")
    environment = {
        **os.environ,
        "OTEL_EXPORTER_OTLP_ENDPOINT": server.url,
        "OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer%20{TOKEN}",
    }

    sent = subprocess.run(
        [node(), str(SCRIPT), name, str(WEB / "package.json")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )

    assert sent.returncode == 0, sent.stderr
    answer: dict[str, Any] = json.loads(sent.stdout)
    assert answer["failures"] == []
    run = stored(file, f"trace-{answer['traceId']}")
    assert (run.summary.name, run.status) == ("POST /ask", "succeeded")
    assert calls(run) == EXPECTED
    assert next(call.end.error for call in run.tool_calls if call.end) == "Error: no tides"


def test_the_python_log_exporter_records_a_session(server: ServeProcess, file: Path) -> None:
    exporter = OTLPLogExporter(endpoint=f"{server.url}/v1/logs", headers=AUTHORIZATION)
    results: list[LogRecordExportResult] = []

    class Watched(SimpleLogRecordProcessor):
        def on_emit(self, log_record: Any) -> None:
            results.append(exporter.export([log_record]))

    provider = LoggerProvider(shutdown_on_exit=False)
    provider.add_log_record_processor(Watched(exporter))
    logger = provider.get_logger("tests")
    session: dict[str, Any] = {"session.id": "s-1", "event.sequence": 0}
    logger.emit(
        body="claude_code.api_request",
        attributes={
            **session,
            "event.name": "api_request",
            "model": "m",
            "input_tokens": 3,
            "duration_ms": 5,
        },
    )
    logger.emit(body="a line of a log", context=trace.set_span_in_context(trace.INVALID_SPAN))
    provider.shutdown()

    assert results == [LogRecordExportResult.SUCCESS] * 2
    run = stored(file, "claude-code-s-1")
    assert run.summary.name == "Claude Code"
    assert calls(run) == [("model", "m", "completed", None, "Claude Code")]


def test_the_python_metric_exporter_reports_no_error(
    server: ServeProcess, caplog: pytest.LogCaptureFixture
) -> None:
    exporter = OTLPMetricExporter(endpoint=f"{server.url}/v1/metrics", headers=AUTHORIZATION)
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    provider.get_meter("tests").create_counter("tides").add(3)
    metrics = reader.get_metrics_data()
    provider.shutdown()
    assert metrics is not None

    with caplog.at_level(logging.WARNING):
        result = exporter.export(metrics)
    exporter.shutdown()

    assert result is MetricExportResult.SUCCESS
    assert caplog.messages == []


def test_the_spans_of_one_call_that_two_instrumentations_trace_count_once(
    server: ServeProcess, file: Path
) -> None:
    exporter = OTLPSpanExporter(endpoint=f"{server.url}/v1/traces", headers=AUTHORIZATION)
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("tests")
    call: dict[str, Any] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.response.id": "resp-1",
        "gen_ai.usage.input_tokens": 30,
        "gen_ai.usage.output_tokens": 5,
    }
    with tracer.start_as_current_span("chat gpt", attributes=call) as outer:
        trace_id = f"{outer.get_span_context().trace_id:032x}"
        with tracer.start_as_current_span("chat", attributes=call):
            pass
    provider.shutdown()

    run = stored(file, f"trace-{trace_id}")
    with SqliteJournal(file) as journal:
        [listed] = journal.find_runs().runs
    usage = listed.totals.usage
    assert (usage.model_calls, usage.total_tokens) == (1, 35)
    assert len(run.calls) == 1
