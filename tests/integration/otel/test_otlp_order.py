"""Spans over OTLP, in any order and in any batches, make the run that the span processor makes of them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from longwatch.integrations.otel import span_data
from longwatch.journal.memory import MemoryJournal
from longwatch.model.run import Run, fold
from longwatch.recording.secret_names import SecretNames
from longwatch.server.event_intake import EventIntake
from longwatch.telemetry.event_builder import EventBuilder
from longwatch.telemetry.span import SpanData
from longwatch.telemetry.span_runs import SpanRuns
from tests.integration.otel.bench import AGENT, CHAT, TOOL, Bench

WORKFLOW = {"gen_ai.operation.name": "invoke_workflow", "gen_ai.workflow.name": "nightly"}
PLAN = {"gen_ai.operation.name": "plan"}
CHAIN = {"openinference.span.kind": "CHAIN"}
ORDINARY: dict[str, Any] = {"http.route": "/x"}
KINDS: list[dict[str, Any]] = [AGENT, TOOL, CHAT, WORKFLOW, PLAN, CHAIN, ORDINARY, ORDINARY, ORDINARY]
START_NS = 1_794_736_800_000_000_000


class OtlpBench:
    """What a server records of spans, without HTTP."""

    def __init__(self) -> None:
        self.journal = MemoryJournal()
        self.intake = EventIntake(self.journal, SecretNames())
        self.restart()

    def restart(self) -> None:
        builder = EventBuilder(secrets=SecretNames())
        self.runs = SpanRuns(builder, lambda run_id: self.journal.find_run(run_id) is not None)

    def take(self, spans: Sequence[SpanData]) -> None:
        translated = self.runs.translate(spans)
        assert translated.invalid == []
        self.intake.store(translated.events, 0)

    def run(self, run_id: str) -> Run | None:
        return fold(self.journal.read(run_id, limit=10_000).events)


class Trace:
    """A trace as a tree of spans: the kind of each, the number of its parent, and whether it failed."""

    def __init__(self, spans: Sequence[tuple[dict[str, Any], int, bool]]) -> None:
        with TemporaryDirectory() as folder:
            bench, memory = Bench(Path(folder)), InMemorySpanExporter()
            bench.provider.add_span_processor(SimpleSpanProcessor(memory))
            self._play(bench, spans)
            bench.processor.force_flush()
            runs = bench.journal.find_runs().runs
            self.run = fold(bench.journal.read(runs[0].run_id, limit=10_000).events) if runs else None
            self.spans = [span_data(span, span.attributes or {}) for span in memory.get_finished_spans()]
            bench.close()

    def _play(self, bench: Bench, spans: Sequence[tuple[dict[str, Any], int, bool]]) -> None:
        opened: list[Any] = []
        for number, (attributes, parent, _) in enumerate(spans):
            context = trace.set_span_in_context(opened[parent % number]) if number else Context()
            at = START_NS + number * 1_000_000
            opened.append(
                bench.tracer.start_span(f"span {number}", context, attributes=attributes, start_time=at)
            )
        for number, ((_, _, failed), span) in reversed(list(enumerate(zip(spans, opened, strict=True)))):
            if failed:
                span.set_status(StatusCode.ERROR, "no")
            span.end(end_time=START_NS + 1_000_000_000 - number * 1_000_000)


def tree(run: Run | None) -> Any:
    if run is None:
        return None
    calls = {
        call_id: (
            call.kind,
            call.name,
            call.parent_call_id,
            call.agent_name,
            call.status,
            call.started_at,
            call.duration_ms,
        )
        for call_id, call in run.calls.items()
    }
    summary = run.summary
    return (
        summary.name,
        summary.status,
        summary.started_at,
        summary.ended_at,
        summary.error,
        summary.agents,
        calls,
    )


traces = st.lists(
    st.tuples(st.sampled_from(KINDS), st.integers(0, 20), st.sampled_from([False, False, False, True])),
    min_size=1,
    max_size=9,
)


def batches_of(spans: Sequence[SpanData], chance: random.Random) -> Iterator[Sequence[SpanData]]:
    shuffled = chance.sample(spans, len(spans))
    while shuffled:
        size = chance.randint(1, len(shuffled))
        yield shuffled[:size]
        shuffled = shuffled[size:]


@settings(deadline=None, max_examples=40)
@given(drawn=traces, chance=st.randoms(use_true_random=False))
def test_any_order_and_any_batches_make_the_run_of_the_span_processor(
    drawn: list[tuple[dict[str, Any], int, bool]], chance: random.Random
) -> None:
    played, bench = Trace(drawn), OtlpBench()

    for batch in batches_of(played.spans, chance):
        bench.take(batch)
        if chance.random() < 0.2:  # a sender that got no response sends a batch again
            bench.take(batch)

    assert tree(bench.run(f"trace-{played.spans[0].trace_id}")) == tree(played.run)


@settings(deadline=None, max_examples=40)
@given(drawn=traces, chance=st.randoms(use_true_random=False))
def test_a_repeated_export_stores_nothing_new(
    drawn: list[tuple[dict[str, Any], int, bool]], chance: random.Random
) -> None:
    played, bench = Trace(drawn), OtlpBench()
    bench.take(played.spans)
    run_id = f"trace-{played.spans[0].trace_id}"
    before = bench.journal.read(run_id, limit=10_000).events

    for batch in batches_of(played.spans, chance):
        bench.take(batch)
    after = bench.journal.read(run_id, limit=10_000).events
    bench.restart()
    bench.take(played.spans)

    assert after == before
    assert tree(bench.run(run_id)) == tree(played.run)


def test_a_server_that_restarts_still_finds_the_calls_around_a_late_span() -> None:
    played = Trace([(AGENT, 0, False), (ORDINARY, 0, False), (TOOL, 1, False)])
    agent, ordinary, tool = sorted(played.spans, key=lambda span: span.start_ns)
    bench = OtlpBench()

    for span in (tool, ordinary, agent):
        bench.restart()
        bench.take([span])

    assert tree(bench.run(f"trace-{agent.trace_id}")) == tree(played.run)


def test_a_trace_without_an_agent_leaves_nothing_behind() -> None:
    played = Trace([(ORDINARY, 0, False), (ORDINARY, 0, False)])
    bench = OtlpBench()

    bench.take(played.spans)

    assert bench.journal.find_runs().runs == []


def test_a_run_is_open_until_its_root_arrives() -> None:
    played = Trace([(ORDINARY, 0, False), (AGENT, 0, False)])
    root, agent = sorted(played.spans, key=lambda span: span.start_ns)
    bench = OtlpBench()
    run_id = f"trace-{agent.trace_id}"

    bench.take([agent])
    before = bench.run(run_id)
    bench.take([root])
    after = bench.run(run_id)

    assert before is not None
    assert before.status == "running"
    assert after is not None
    assert (after.status, after.summary.name) == ("succeeded", "span 0")


def test_a_link_that_could_not_be_stored_is_stored_with_the_repeated_batch() -> None:
    played = Trace([(AGENT, 0, False), (ORDINARY, 0, False), (TOOL, 1, False)])
    agent, ordinary, tool = sorted(played.spans, key=lambda span: span.start_ns)
    bench = OtlpBench()
    bench.take([agent])
    bench.take([ordinary])

    lost = bench.runs.translate([tool])
    bench.runs.restore(lost.events)
    bench.take([tool])

    assert "call_link" in [event.type for event in lost.events]
    assert tree(bench.run(f"trace-{agent.trace_id}")) == tree(played.run)


@pytest.mark.parametrize("name", ["resource", "trace state"])
def test_a_span_joins_the_run_that_its_resource_or_its_trace_state_names(name: str) -> None:
    played = Trace([(AGENT, 0, False)])
    where = (
        {"resource": {"longwatch.run_id": "wf/ä"}}
        if name == "resource"
        else {"trace_state": "x=1,longwatch=wf%2F%C3%A4"}
    )
    bench = OtlpBench()

    bench.take([span._replace(**where) for span in played.spans])

    run = bench.run("wf/ä")
    assert run is not None
    assert run.counts == {"agent_start": 1, "agent_end": 1}


def test_the_ending_of_the_whole_trace_beats_that_of_one_process() -> None:
    played = Trace([(ORDINARY, 0, False), (AGENT, 0, True)])
    root, agent = sorted(played.spans, key=lambda span: span.start_ns)
    bench = OtlpBench()
    run_id = f"trace-{agent.trace_id}"

    bench.take([agent._replace(is_parent_remote=True)])
    alone = bench.run(run_id)
    bench.take([root])
    whole = bench.run(run_id)

    assert alone is not None
    assert (alone.status, alone.summary.name) == ("failed", "Ada")
    assert whole is not None
    assert (whole.status, whole.summary.name) == ("succeeded", "span 0")
    assert whole.summary.ended_at == root.ended_at


def test_events_of_one_millisecond_keep_the_order_of_their_nanoseconds() -> None:
    played = Trace([(AGENT, 0, False), (TOOL, 0, False)])
    agent, tool = sorted(played.spans, key=lambda span: span.start_ns)
    bench = OtlpBench()

    bench.take([tool._replace(start_ns=START_NS + 2), agent._replace(start_ns=START_NS + 1)])

    types = [event.type for event in bench.journal.read(f"trace-{agent.trace_id}").events]
    assert types[:3] == ["workflow_start", "agent_start", "tool_call"]
