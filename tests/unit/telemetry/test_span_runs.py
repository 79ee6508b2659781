"""The memory that spans of traces without a run may take."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.journal.codec import from_line, to_line
from longwatch.recording.secret_names import SecretNames
from longwatch.telemetry.event_builder import EventBuilder
from longwatch.telemetry.span_events import DIALECTS
from longwatch.telemetry.span_runs import SpanRuns
from tests.unit.telemetry.spans import START_NS, span

AGENT = {"gen_ai.operation.name": "invoke_agent"}


def runs(*, max_held: int = 100_000, stored: frozenset[str] = frozenset()) -> SpanRuns:
    return SpanRuns(EventBuilder(secrets=SecretNames()), stored.__contains__, max_held=max_held)


def trace_id(number: int) -> str:
    return f"{number:032x}"


def test_the_oldest_traces_without_a_run_are_dropped_with_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    held = runs(max_held=20)

    with caplog.at_level(logging.WARNING):
        for number in range(1, 30):
            assert held.translate([span(trace_id=trace_id(number))]).events == []
    recent = held.translate([span("x", AGENT, trace_id=trace_id(29), span_id="aa" * 8, parent_id="bb" * 8)])
    oldest = held.translate([span("x", AGENT, trace_id=trace_id(1), span_id="aa" * 8, parent_id="bb" * 8)])

    types = [event.type for event in recent.events]
    assert types == ["agent_start", "agent_end", "workflow_start", "workflow_complete"]
    assert [event.type for event in oldest.events] == ["agent_start", "agent_end"]
    assert len(caplog.records) == 1


def test_a_span_that_ends_before_its_start_has_no_duration() -> None:
    found = runs().translate([span("invoke_agent Ada", AGENT, end_ns=1)])

    (end,) = [event for event in found.events if event.type == "agent_end"]
    assert (end.occurred_at, end.payload["duration_ms"]) == (START_NS // 1_000_000, 0)
    assert {event.occurred_at for event in found.events} == {START_NS // 1_000_000}


def test_an_unrecorded_span_inside_a_call_leaves_no_link() -> None:
    held = runs()

    found = held.translate(
        [
            span("x", AGENT),
            span(
                "GET", span_id="cc" * 8, parent_id="b7ad6b7169203331"
            ),  # below the agent, with no call inside
        ]
    )

    assert "call_link" not in [event.type for event in found.events]


def test_the_root_of_a_run_that_another_server_stored_ends_it() -> None:
    held = runs(stored=frozenset({f"trace-{trace_id(7)}"}))

    found = held.translate([span("POST /ask", trace_id=trace_id(7))])

    assert [event.type for event in found.events] == ["workflow_start", "workflow_complete", "call_link"]


ATTRIBUTES = sorted(
    {
        *(name for dialect in DIALECTS for names in dialect.fields.values() for name in names),
        *(name for dialect in DIALECTS for names in dialect.names.values() for name in names),
        *("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.tool.call.arguments", "input.value"),
        *(
            "gen_ai.tool.definitions",
            "gen_ai.prompt.0.role",
            "gen_ai.prompt.0.tool_calls.0.name",
            "gen_ai.prompt.x",
        ),
        *(
            "llm.input_messages.0.message.role",
            "llm.input_messages.0.message.contents.0.message_content.image",
        ),
        *("llm.tools.0.tool.json_schema", "llm.invocation_parameters", "retrieval.documents.0.document.id"),
    }
)
MESSAGES = [
    '[{"role": 1}]',
    '[{"role": "user", "parts": {"type": []}}]',
    '[{"content": [[1]]}]',
    "[[]]",
    "{",
    "[1]",
]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(MESSAGES),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["role", "type", "text"]), inner)
    ),
    max_leaves=4,
)
KINDS = [
    (name, value) for dialect in DIALECTS for name in dialect.kind_attributes for value in dialect.operations
]


@given(kind=st.sampled_from(KINDS), others=st.dictionaries(st.sampled_from(ATTRIBUTES), VALUES, max_size=6))
def test_whatever_its_attributes_hold_a_span_becomes_events_that_can_be_stored(
    kind: tuple[str, str], others: dict[str, object]
) -> None:
    found = runs().translate([span("a name", {kind[0]: kind[1], **others})])

    assert found.invalid == []
    for event in found.events:
        assert from_line(to_line(event)) == event
