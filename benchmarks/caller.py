"""What one decorated call (two events) costs the code that makes it, beside OpenTelemetry and Langfuse."""

from __future__ import annotations

import functools
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import Goal, Result, interleaved, microseconds_each, percentile
from langfuse import Langfuse, observe
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

import longwatch

CALLS = 12_000
PACED_CALLS_PER_SECOND = 1_000


class NoOpExporter(SpanExporter):
    """Takes spans and forgets them: only the caller's side is measured."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Nothing to release."""


def forecast(city: str, days: int) -> str:
    """The work: next to nothing, so that what is measured is the decorator."""
    return city


def bare(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that does nothing."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return call


def measure(*, quick: bool) -> list[Result]:
    """The table of callers."""
    rounds = 3 if quick else 7
    with tempfile.TemporaryDirectory() as folder:
        recorder = longwatch.configure(f"sqlite:///{Path(folder) / 'bench.db'}")
        calls: dict[str, Callable[[], object]] = {
            "bare decorator (functools.wraps)": functools.partial(bare(forecast), "Oslo", 3),
            "longwatch.tool, SQLite FULL": functools.partial(longwatch.tool(forecast), "Oslo", 3),
            "OpenTelemetry SDK, batch + no-op exporter": _otel(),
            "langfuse @observe, no-op exporter": _langfuse(),
        }
        outside = microseconds_each(calls["longwatch.tool, SQLite FULL"], CALLS)

        def sustained(call: Callable[[], object]) -> float:
            cost = microseconds_each(call, CALLS)
            recorder.flush(60)
            return cost

        with longwatch.run("bench"):
            wall = interleaved(
                {name: functools.partial(sustained, call) for name, call in calls.items()}, rounds=rounds
            )
            paced = {name: _paced(call, seconds=1 if quick else 3) for name, call in calls.items()}
        stats = recorder.stats()
        recorder.close(60)
    ours, otel, langfuse = (wall[name] for name in list(calls)[1:])
    rows = [
        (name, wall[name], wall[name] / otel, percentile(paced[name], 0.5), percentile(paced[name], 0.99))
        for name in calls
    ]
    return [
        Result(
            "One decorated call (two events), caller's side",
            ("case", "sustained µs/call", "× OTel batch", "paced 1,000/s p50 µs", "p99 µs"),
            rows,
            [
                Goal("longwatch / OpenTelemetry batch span", ours / otel, 0.5),
                Goal("longwatch / langfuse @observe", ours / langfuse, 0.1),
            ],
            [
                f"longwatch.tool outside a run: {outside:.2f} µs. "
                f"Events recorded {stats.recorded:,}, dropped {stats.dropped:,}.\n"
            ],
        )
    ]


def _otel() -> Callable[[], object]:
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(NoOpExporter()))
    tracer = provider.get_tracer("bench")

    def call() -> str:
        with tracer.start_as_current_span("forecast") as span:
            span.set_attribute("input.city", "Oslo")
            span.set_attribute("input.days", 3)
            result = forecast("Oslo", 3)
            span.set_attribute("output", result)
            return result

    return call


def _langfuse() -> Callable[[], object]:
    Langfuse(
        public_key="pk-bench",
        secret_key="bench",
        base_url="http://127.0.0.1:9",
        span_exporter=NoOpExporter(),
        tracer_provider=TracerProvider(),
    )
    return functools.partial(observe(forecast), "Oslo", 3)


def _paced(call: Callable[[], object], *, seconds: float) -> list[float]:
    """Each call's own time in µs while calls come at a steady rate."""
    taken: list[float] = []
    step = 1 / PACED_CALLS_PER_SECOND
    due = time.perf_counter()
    end = due + seconds
    while due < end:
        while (wait := due - time.perf_counter()) > 0:
            time.sleep(wait)
        started = time.perf_counter()
        call()
        taken.append((time.perf_counter() - started) * 1e6)
        due += step
    return taken
