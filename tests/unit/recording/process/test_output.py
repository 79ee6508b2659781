"""The content of a line of a workflow process's standard output."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.journal.codec import to_line
from longwatch.model.event import Event, ToolCall
from longwatch.recording.process.output import (
    ForeignEvent,
    LineContent,
    Output,
    OutputLine,
    OwnEvent,
    ParseError,
    parse_line,
)

AT = 1_794_736_800_000


def parsed(**fields: object) -> LineContent:
    return parse_line(OutputLine(json.dumps(fields)))


def foreign(**fields: object) -> ForeignEvent:
    event = parsed(**{"workflow_id": "wf-1", "timestamp": AT, **fields})
    assert isinstance(event, ForeignEvent)
    return event


@pytest.mark.parametrize(
    "text",
    [
        "Starting up",
        "",
        "[1, 2]",
        "{}",
        '{"level": "info", "message": "no event"}',
        '{"event_type": "x", "workflow_id": "wf-1"}',
        '{"event_type": "x", "workflow_id": "wf-1", "timestamp": "yesterday"}',
        '{"event_type": "x", "workflow_id": "wf-1", "timestamp": true}',
        '{"event_type": "x", "workflow_id": 7, "timestamp": 1}',
        '{"event_type": "x", "workflow_id": "", "timestamp": 1}',
        '{"event_type": 3, "workflow_id": "wf-1", "timestamp": 1}',
    ],
)
def test_a_line_that_is_not_an_event_is_output(text: str) -> None:
    assert parse_line(OutputLine(text)) == Output(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"event_type": "x", "workflow', "not JSON"),
        ('{"not": json}', "not JSON"),
        ('{"a":' * 100_000, "not JSON"),
        ('{"event_type": "x", "workflow_id": "wf-1", "timestamp": -1}', "timestamp -1"),
        ('{"event_type": "x", "workflow_id": "wf-1", "timestamp": 1e300}', "occurred_at"),
        ('{"event_type": "x", "workflow_id": "wf-1", "timestamp": NaN}', "timestamp nan"),
        ('{"event_type": "x", "workflow_id": "longwatch#runs", "timestamp": 1}', "reserved"),
    ],
)
def test_a_broken_event_keeps_its_text_and_has_a_reason(text: str, why: str) -> None:
    result = parse_line(OutputLine(text))

    assert isinstance(result, ParseError)
    assert result.text == text
    assert why in result.error


@pytest.mark.parametrize("text", ["{'query': 'why'}", "{", "{}", "{ 1, 2 }", "{not json}", "{" * 1000])
def test_a_printed_dict_or_set_of_python_is_output(text: str) -> None:
    assert parse_line(OutputLine(text)) == Output(text)


def test_an_event_that_was_cut_is_a_parse_error_and_not_half_an_event() -> None:
    result = parse_line(OutputLine('{"event_type": "x"', left_out=9))

    assert result == ParseError(
        '{"event_type": "x"…[cut, 9 more bytes]', "the line exceeds the limit by 9 bytes"
    )


def test_fields_with_an_attribute_of_their_own_leave_the_payload() -> None:
    event = parse_line(
        OutputLine(
            f'  {{"event_type": "agent_start", "workflow_id": "wf-1", "timestamp": {AT}.7, "role": "writer", '
            '"agent_name": "Ada", "trace_id": "ab", "parent_call_id": "p", "turn_number": 1}  '
        )
    )

    assert event == ForeignEvent(
        run_id="wf-1",
        type="agent_start",
        occurred_at=AT,
        agent_name="Ada",
        parent_call_id="p",
        trace_id="ab",
        payload={"role": "writer", "turn_number": 1},
    )


def test_a_time_in_seconds_is_read_as_what_it_is() -> None:
    assert foreign(type="note", timestamp=AT / 1000).occurred_at == AT


def test_both_spellings_of_the_type_are_read_and_the_longer_one_counts() -> None:
    assert foreign(type="note").type == "note"
    assert foreign(event_type="node_start", type="agent").type == "node_start"
    assert foreign(event_type="node_start", type="agent").payload == {"type": "agent"}


def test_an_error_is_written_in_one_spelling() -> None:
    assert foreign(type="node_stop", error="boom").payload == {"error_message": "boom"}
    assert foreign(type="x", error="b", error_message="a").payload == {"error": "b", "error_message": "a"}
    assert foreign(type="x", error={"code": 1}).payload == {"error": {"code": 1}}


def test_the_event_id_of_a_tool_call_names_the_call() -> None:
    call = foreign(event_type="tool_call", event_id="c-1", operation="search", status="started")
    note = foreign(event_type="note", event_id="n-1")

    assert (call.call_id, call.payload) == ("c-1", {"operation": "search", "status": "started"})
    assert (note.call_id, note.payload) == (None, {"event_id": "n-1"})


def test_a_nested_payload_is_read_as_the_payload() -> None:
    event = foreign(event_type="tool_call", payload={"operation": "search", "event_id": "c-1"}, extra=1)

    assert event.call_id == "c-1"
    assert event.payload == {"operation": "search", "extra": 1}


def test_half_a_surrogate_pair_becomes_something_that_can_be_stored() -> None:
    inner = '{"\\uDC00": ["\\ud800"]}'

    event = parse_line(
        OutputLine(f'{{"type": "x", "workflow_id": "wf-\\ud800", "timestamp": {AT}, "a": {inner}}}')
    )

    assert isinstance(event, ForeignEvent)
    assert (event.run_id, event.payload) == ("wf-?", {"a": {"?": ["?"]}})


def test_a_line_that_longwatch_wrote_passes_unchanged() -> None:
    event = Event(
        run_id="wf-1",
        event_id="e-1",
        type="tool_call",
        occurred_at=AT,
        payload={"operation": "search", "seen": {"a", "b"}},
        call_id="c-1",
        producer="p",
        number=7,
        previous_digest="d",
        ttl=99,
    )

    result = parse_line(OutputLine(to_line(event)))

    assert result == OwnEvent(event)


def test_a_damaged_line_of_longwatch_is_a_parse_error() -> None:
    event = Event(run_id="wf-1", event_id="e-1", type="x", occurred_at=AT, producer="p", number=1)

    result = parse_line(OutputLine(to_line(event).replace('"number":1', '"number":"one"')))

    assert isinstance(result, ParseError)
    assert "number" in result.error


def test_a_printed_tool_call_reads_as_the_producer_intended() -> None:
    """Failure 6 of the domain: real producer output through the real consumer."""
    line = (
        '{"event_type":"tool_call","workflow_id":"wf-1","timestamp":1794736800000,"agent_name":"Ada",'
        '"event_id":"c-1","system":"s3","operation":"get","status":"error","error":"no such key",'
        '"duration_ms":12}'
    )
    event = parse_line(OutputLine(line))
    assert isinstance(event, ForeignEvent)

    call = ToolCall.of(
        Event(
            run_id=event.run_id,
            event_id="-",
            type=event.type,
            occurred_at=event.occurred_at,
            agent_name=event.agent_name,
            call_id=event.call_id,
            payload=event.payload,
        )
    )

    assert call == ToolCall("c-1", "Ada", "s3", "get", "failed", error_message="no such key", duration_ms=12)


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    assert isinstance(parse_line(OutputLine(text)), Output | ParseError)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(
    st.dictionaries(
        st.sampled_from(["event_type", "type", "workflow_id", "timestamp", "payload", "x"]), json_values
    )
)
def test_any_object_can_be_read(fields: dict[str, object]) -> None:
    result = parsed(**fields)

    if isinstance(result, ForeignEvent):
        assert result.run_id == fields["workflow_id"]
