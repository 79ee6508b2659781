"""Spans per CPU-second: OTLP into `longwatch serve`, beside the span processor inside the traced program.

Both record the same traces into SQLite. The cost of the processor is that of the whole program less the same
program without it; the cost of the server is everything that its process does, HTTP included.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from benchmarks.harness import Goal, Result
from benchmarks.serving.processes import Running, longwatch
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from longwatch.integrations.otel import LongwatchSpanProcessor
from longwatch.recording.recorder import Recorder
from longwatch.settings import load_settings

BATCH = 512  # spans in one request: the default of the SDKs' batch processor
TEXT = "some text that a person wrote " * 5
AGENT = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "Ada", "gen_ai.conversation.id": "c-1"}
TOOL = {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "search",
    "gen_ai.tool.call.id": "t-1",
    "gen_ai.tool.call.arguments": '{"query": "tides", "limit": 10}',
    "gen_ai.tool.call.result": f'[{{"text": "{TEXT}"}}]',
}
CHAT = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "large",
    "gen_ai.response.model": "large-2",
    "gen_ai.request.temperature": 0.5,
    "gen_ai.response.finish_reasons": ["stop"],
    "gen_ai.usage.input_tokens": 120,
    "gen_ai.usage.output_tokens": 34,
    "gen_ai.input.messages": f'[{{"role": "user", "parts": [{{"type": "text", "content": "{TEXT}"}}]}}]',
    "gen_ai.output.messages": f'[{{"role": "assistant", "parts": [{{"content": "{TEXT}"}}]}}]',
}
SPANS_IN_TRACE = 11


def measure(*, quick: bool) -> list[Result]:
    """The table of both ways in."""
    traces, rounds = (300, 3) if quick else (1_000, 5)
    bare: list[float] = []
    program: list[float] = []
    server: list[float] = []
    with tempfile.TemporaryDirectory(dir=os.environ.get("LONGWATCH_BENCH_DIR")) as name:
        folder = Path(name)
        with longwatch(folder / "server.db") as running:
            _send(running, _batches(50))  # loads the decoder
            for _ in range(rounds):
                bare.append(_program(None, traces))
                program.append(_program(folder, traces))
                server.append(_send(running, _batches(traces)))
    spans = traces * SPANS_IN_TRACE
    sdk, whole, ingested = (statistics.median(each) for each in (bare, program, server))
    processor = statistics.median(with_ - without for with_, without in zip(program, bare, strict=True))
    rows = [
        (name, seconds / spans * 1e6, spans / seconds)
        for name, seconds in (
            ("the SDK alone, nothing recorded", sdk),
            ("a program with the span processor", whole),
            ("the span processor in it", processor),
            ("longwatch serve, OTLP in protobuf", ingested),
        )
    ]
    return [
        Result(
            f"Spans per CPU-second into SQLite, {spans:,} spans in batches of {BATCH}",
            ("case", "µs of CPU a span", "spans per CPU-second"),
            rows,
            [
                Goal(
                    "OTLP / the span processor, spans per CPU-second",
                    processor / ingested,
                    0.7,
                    at_most=False,
                )
            ],
        )
    ]


def _trace(tracer: Any) -> None:
    """A trace of an agent with four model calls and four tools, and two ordinary spans."""
    with (
        tracer.start_as_current_span("POST /ask", attributes={"http.route": "/ask"}),
        tracer.start_as_current_span("invoke_agent Ada", attributes=AGENT),
    ):
        for _ in range(4):
            with tracer.start_as_current_span("chat large", attributes=CHAT):
                pass
            with tracer.start_as_current_span("execute_tool search", attributes=TOOL):
                pass
        with tracer.start_as_current_span("GET", attributes={"http.method": "GET"}):
            pass


def _program(folder: Path | None, traces: int) -> float:
    """The CPU seconds of a program that is traced, and recorded if there is a folder for it."""
    provider = TracerProvider(shutdown_on_exit=False)
    recorder: Recorder | None = None
    if folder is not None:
        url = f"sqlite:///{folder / f'{uuid4()}.db'}"
        recorder = Recorder(url, settings=load_settings(environment={"LONGWATCH_DATA": str(folder)}))
        provider.add_span_processor(LongwatchSpanProcessor(recorder))
    else:
        provider.add_span_processor(SimpleSpanProcessor(InMemorySpanExporter()))
    tracer = provider.get_tracer("benchmark")
    started = time.process_time()
    for number in range(traces):
        _trace(tracer)
        if recorder is not None and number % 100 == 99:
            recorder.flush(120)  # the queue has room for every event, so none is dropped
    provider.shutdown()
    if recorder is not None:
        recorder.close(120)
        stats = recorder.stats()
        if stats.dropped or stats.stored < traces * 18:
            raise RuntimeError(f"not everything was stored: {stats}")
    return time.process_time() - started


def _batches(traces: int) -> list[bytes]:
    """The same traces as the bodies of requests."""
    memory = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    tracer = provider.get_tracer("benchmark")
    for _ in range(traces):
        _trace(tracer)
    spans = memory.get_finished_spans()
    provider.shutdown()
    return [_encode(spans[first : first + BATCH]) for first in range(0, len(spans), BATCH)]


def _encode(spans: Sequence[ReadableSpan]) -> bytes:
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    for span in spans:
        context: Any = span.get_span_context()
        made = scope.spans.add(
            trace_id=context.trace_id.to_bytes(16, "big"),
            span_id=context.span_id.to_bytes(8, "big"),
            parent_span_id=span.parent.span_id.to_bytes(8, "big") if span.parent else b"",
            name=span.name,
            start_time_unix_nano=span.start_time or 0,
            end_time_unix_nano=span.end_time or 0,
        )
        for key, value in (span.attributes or {}).items():
            _set(made.attributes.add(key=key).value, value)
    return bytes(request.SerializeToString())


def _set(field: Any, value: object) -> None:
    if isinstance(value, str):
        field.string_value = value
    elif isinstance(value, int):
        field.int_value = value
    elif isinstance(value, float):
        field.double_value = value
    else:
        for each in value:  # type: ignore[attr-defined]
            _set(field.array_value.values.add(), each)


def _send(server: Running, batches: Sequence[bytes]) -> float:
    """The CPU seconds that the server takes for these requests."""
    before = server.cpu_seconds()
    for body in batches:
        request = urllib.request.Request(
            f"http://127.0.0.1:{server.port}/v1/traces",
            data=body,
            headers={"Content-Type": "application/x-protobuf"},
        )
        with urllib.request.urlopen(request, timeout=60) as response:
            if response.read():
                raise RuntimeError("the server left spans out")
    return server.cpu_seconds() - before
