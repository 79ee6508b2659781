"""Views whose JSON is written without an instance of them: the fields of both are the same."""

from __future__ import annotations

import json
from dataclasses import MISSING, fields

from longwatch.journal.codec import to_line
from longwatch.journal.views import CallView, EventView, call_fields
from longwatch.model.event import Event
from longwatch.model.run import fold


def test_the_fields_of_a_call_are_those_of_its_view() -> None:
    run = fold([Event(run_id="wf-1", event_id="e-1", type="tool_call", occurred_at=1, call_id="c-1")])
    assert run is not None

    [call] = run.ordered_calls()

    assert list(call_fields(call, run_has_ended=False)) == [field.name for field in fields(CallView)]


def test_the_line_of_an_event_has_the_fields_of_its_view() -> None:
    least = Event(run_id="wf-1", event_id="e-1", type="note", occurred_at=1)
    whole = Event(
        run_id="wf-1",
        event_id="e-1",
        type="note",
        occurred_at=1,
        agent_name="a",
        call_id="c",
        parent_call_id="b",
        producer="p",
        number=1,
        previous_digest="d",
        trace_id="t",
        ttl=1,
    )

    required = {field.name for field in fields(EventView) if field.default is MISSING}
    assert json.loads(to_line(whole)).keys() == {field.name for field in fields(EventView)}
    assert json.loads(to_line(least)).keys() == required
