"""One event on both channels is recorded once; no event is lost."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.model.event import Event
from longwatch.recording.process.deduplication import Deduplicator, identity_of
from longwatch.recording.process.output import ForeignEvent

AT = 1_794_736_800_000


def line(type: str = "note", at: int = AT, **fields: object) -> ForeignEvent:
    return ForeignEvent(run_id="wf-1", type=type, occurred_at=at, payload=fields)


def stored(type: str = "note", at: int = AT, **fields: object) -> Event:
    return Event(run_id="wf-1", event_id="key", type=type, occurred_at=at, payload=fields)


def test_a_line_that_the_journal_does_not_show_is_recorded_after_its_wait() -> None:
    deduplicator = Deduplicator(hold_seconds=1.0)
    deduplicator.add_printed(line(), now=10.0)

    early, due, late = deduplicator.take_due(10.9), deduplicator.next_due, deduplicator.take_due(11.0)

    assert (early, due, late) == ([], 11.0, [line()])
    assert deduplicator.next_due is None


def test_a_line_that_the_journal_shows_while_it_waits_is_dropped() -> None:
    deduplicator = Deduplicator()
    deduplicator.add_printed(line(), now=0.0)

    deduplicator.add_journaled(stored())

    assert deduplicator.take_all() == []


def test_a_line_that_the_journal_showed_before_is_dropped() -> None:
    deduplicator = Deduplicator()
    deduplicator.add_journaled(stored())

    deduplicator.add_printed(line(), now=0.0)

    assert deduplicator.next_due is None
    assert deduplicator.take_all() == []


def test_two_equal_lines_need_two_events_in_the_journal() -> None:
    deduplicator = Deduplicator()
    deduplicator.add_printed(line(data="a"), now=0.0)
    deduplicator.add_printed(line(data="a"), now=0.0)

    deduplicator.add_journaled(stored(data="a"))

    assert deduplicator.take_all() == [line(data="a")]


def test_an_event_that_comes_too_late_does_not_swallow_the_next_line() -> None:
    deduplicator = Deduplicator(hold_seconds=1.0)
    deduplicator.add_printed(line(), now=0.0)
    recorded = deduplicator.take_due(1.0)
    deduplicator.add_journaled(stored())  # too late: it is there twice now, and there is nothing to be done

    deduplicator.add_printed(line(), now=2.0)

    assert recorded == [line()]
    assert deduplicator.take_all() == [line()]


def test_lines_leave_in_the_order_they_came() -> None:
    deduplicator = Deduplicator()
    lines = [line(at=AT + 2), line(at=AT), line(at=AT + 1)]
    for each in lines:
        deduplicator.add_printed(each, now=0.0)

    deduplicator.add_journaled(stored(at=AT))

    assert deduplicator.take_all() == [lines[0], lines[2]]


def test_too_many_waiting_lines_are_due_at_once() -> None:
    deduplicator = Deduplicator(max_held=2)
    lines = [line(at=AT + index) for index in range(3)]
    for each in lines:
        deduplicator.add_printed(each, now=0.0)

    assert deduplicator.next_due == float("-inf")
    assert deduplicator.take_due(0.0) == lines[:1]
    assert deduplicator.next_due == 1.0


def test_only_runs_with_waiting_lines_are_read() -> None:
    deduplicator = Deduplicator()
    deduplicator.add_printed(line(), now=0.0)
    deduplicator.add_printed(ForeignEvent("wf-2", "note", AT, {}), now=0.0)

    deduplicator.add_journaled(stored())

    assert deduplicator.runs() == {"wf-2"}


@pytest.mark.parametrize(
    ("printed", "journaled", "same"),
    [
        (line(), stored(), True),
        (line(), stored(at=AT + 1), False),
        (line(), stored("other"), False),
        (line(text="a"), stored(text="b"), True),
        (ForeignEvent("wf-1", "tool_call", AT, {}, call_id="c"), stored("tool_call", event_id="c"), True),
        (ForeignEvent("wf-1", "tool_call", AT, {}, call_id="c"), stored("tool_call", event_id="d"), False),
        (ForeignEvent("wf-1", "x", AT, {}, agent_name="Ada"), stored("x", agent_name="Ada"), True),
        (ForeignEvent("wf-1", "x", AT, {}, agent_name="Ada"), stored("x", agent_name="Bob"), False),
        (line("x", event_id="e"), replace(stored("x"), call_id="e"), True),
        (line("node_start", node_id="n"), stored("node_start", node_id="n"), True),
        (line("node_start", node_id="n"), stored("node_start", node_id="m"), False),
        (ForeignEvent("wf-2", "note", AT, {}), stored(), False),
    ],
)
def test_a_printed_and_a_journaled_event_are_compared(
    printed: ForeignEvent, journaled: Event, same: bool
) -> None:
    assert (identity_of(printed) == identity_of(journaled)) is same


steps = st.lists(st.tuples(st.sampled_from(["printed", "journaled"]), st.integers(0, 3)), max_size=60)


@given(steps)
def test_if_the_journal_responds_in_time_every_event_is_recorded_exactly_once(
    deliveries: list[tuple[str, int]],
) -> None:
    deduplicator = Deduplicator()
    for channel, offset in deliveries:
        if channel == "printed":
            deduplicator.add_printed(line(at=AT + offset), now=0.0)
        else:
            deduplicator.add_journaled(stored(at=AT + offset))

    recorded = Counter(event.occurred_at - AT for event in deduplicator.take_all())

    printed = Counter(offset for channel, offset in deliveries if channel == "printed")
    journaled = Counter(offset for channel, offset in deliveries if channel == "journaled")
    assert recorded == printed - journaled


@given(
    st.lists(st.tuples(st.sampled_from(["printed", "journaled", "released"]), st.integers(0, 3)), max_size=80)
)
def test_however_late_the_journal_responds_no_line_is_lost_or_recorded_twice(
    deliveries: list[tuple[str, int]],
) -> None:
    deduplicator, recorded, now = Deduplicator(hold_seconds=1.0, max_held=5), Counter[int](), 0.0
    printed, journaled = Counter[int](), Counter[int]()
    for channel, offset in deliveries:
        now += 0.4
        if channel == "printed":
            deduplicator.add_printed(line(at=AT + offset), now=now)
            printed[offset] += 1
        elif channel == "journaled":
            deduplicator.add_journaled(stored(at=AT + offset))
            journaled[offset] += 1
        else:
            recorded += Counter(event.occurred_at - AT for event in deduplicator.take_due(now))

    recorded += Counter(event.occurred_at - AT for event in deduplicator.take_all())

    for offset in printed:
        assert recorded[offset] + journaled[offset] >= printed[offset]
        assert recorded[offset] <= printed[offset]
