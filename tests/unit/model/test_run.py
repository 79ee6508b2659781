"""A run is the fold of its events, whatever way they arrive; conditions stand beside it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.journal.views import call_fields
from longwatch.model.event import Event
from longwatch.model.numbering import NumberSet
from longwatch.model.run import SILENT_AFTER_MS, ProducerNumbers, Run, Status, conditions, fold
from tests.strategies import batches, runs


def event(type: str, at: int, *, number: int | None = None, producer: str = "p", **payload: object) -> Event:
    return Event(
        run_id="wf-1",
        event_id=f"{type}-{at}-{number}",
        type=type,
        occurred_at=at,
        payload=payload,
        producer=None if number is None else producer,
        number=number,
    )


def run_of(*events: Event) -> Run:
    run = fold(events)
    assert run is not None
    return run


@given(st.data(), runs())
def test_any_order_of_arrival_in_any_batches_gives_the_same_run(
    data: st.DataObject, events: list[Event]
) -> None:
    run: Run | None = None
    for batch in data.draw(batches(events)):
        run = fold(batch, onto=run)

    assert run == fold(events)
    assert run is not None
    assert run.ordered_calls() == run_of(*events).ordered_calls()


@given(runs())
def test_a_fold_leaves_what_it_is_folded_onto_as_it_was(events: list[Event]) -> None:
    before = run_of(*events)
    later = Event(run_id=before.run_id, event_id="later", type="tool_call", occurred_at=2000, payload={})

    after = fold([later], onto=before)

    assert before == fold(events)
    assert after is not None
    assert after.summary.events == before.summary.events + 1


@given(runs())
def test_every_event_is_counted_once_by_its_type(events: list[Event]) -> None:
    run = run_of(*events)

    assert sum(run.counts.values()) == run.summary.events == len(events)
    assert run.counts == {kind: [e.type for e in events].count(kind) for kind in {e.type for e in events}}


def test_nothing_folds_to_nothing() -> None:
    run = run_of(event("note", 10))

    assert fold([]) is None
    assert fold([], onto=run) is run


def test_events_of_two_runs_are_not_folded_into_one() -> None:
    other = Event(run_id="wf-2", event_id="e", type="note", occurred_at=10)

    with pytest.raises(ValueError, match="several runs"):
        fold([event("note", 10), other])
    with pytest.raises(ValueError, match="several runs"):
        fold([other], onto=run_of(event("note", 10)))


def test_a_run_has_its_calls_in_the_order_they_began() -> None:
    run = run_of(
        event("tool_call", 20, number=3, operation="search"),
        event("agent_start", 10, number=2, agent_name="writer"),
        event("workflow_start", 10, number=1),
        event("agent_start", 20, number=4, agent_name="critic"),
    )

    assert [call.name for call in run.ordered_calls()] == ["writer", "search", "critic"]
    assert [call.name for call in run.tool_calls] == ["search"]
    assert [call.name for call in run.agent_spans] == ["writer", "critic"]


def test_a_run_that_was_ended_twice_has_one_end_time() -> None:
    first = run_of(event("workflow_start", 10), event("workflow_complete", 30))

    again = fold([event("workflow_complete", 40)], onto=first)

    assert again is not None
    assert (again.status, again.summary.ended_at) == (Status.SUCCEEDED, 30)


@pytest.mark.parametrize(
    ("seen", "count", "missing"),
    [
        ([1, 2, 3], None, ()),
        ([1, 2, 3], 3, ()),
        ([1, 2, 3], 5, ((4, 5),)),
        ([2, 5], None, ((1, 1), (3, 4))),
        ([1, 5], 3, ((2, 4),)),
        ([], 2, ((1, 2),)),
        ([], None, ()),
    ],
)
def test_a_tally_names_what_is_missing(
    seen: list[int], count: int | None, missing: tuple[tuple[int, int], ...]
) -> None:
    assert ProducerNumbers(NumberSet.of(seen), count).missing() == missing


def test_the_count_a_producer_states_at_its_end_is_remembered() -> None:
    run = run_of(event("note", 10, number=1), event("producer_closed", 30, number=4, count=4))

    assert run.producers == {"p": ProducerNumbers(NumberSet(((1, 1), (4, 4))), 4)}
    assert run.producers["p"].missing() == ((2, 3),)


def test_of_two_counts_the_higher_holds_however_they_arrive() -> None:
    low, high = (
        event("producer_closed", 10, number=1, count=5),
        event("producer_closed", 20, number=2, count=9),
    )

    for run in (
        fold([low, high]),
        fold([high, low]),
        fold([high], onto=fold([low])),
        fold([low], onto=fold([high])),
    ):
        assert run is not None
        assert run.producers["p"].count == 9


def test_each_producer_is_tallied_by_itself() -> None:
    run = run_of(event("note", 10, number=1), event("note", 10, number=2, producer="q"), event("note", 11))

    assert {name: tally.seen.ranges for name, tally in run.producers.items()} == {
        "p": ((1, 1),),
        "q": ((2, 2),),
    }


@pytest.mark.parametrize(
    ("quiet_ms", "is_silent"),
    [(0, False), (SILENT_AFTER_MS, False), (SILENT_AFTER_MS + 1, True), (-5000, False)],
)
def test_a_run_is_silent_after_more_than_a_minute_without_events(quiet_ms: int, is_silent: bool) -> None:
    run = run_of(event("workflow_start", 500), event("note", 1000))

    found = conditions(run, now_ms=1000 + quiet_ms)

    assert [condition.name for condition in found] == (["silent"] if is_silent else [])


def test_a_silent_run_states_how_long_and_stays_open() -> None:
    run = run_of(event("note", 1000))

    (condition,) = conditions(run, now_ms=91_000, silent_after_ms=10_000)

    assert condition.message == "no event for 90 s; the run is still open"
    assert run.status is Status.RUNNING


def test_a_run_that_ended_is_never_silent() -> None:
    run = run_of(event("workflow_complete", 1000))

    assert conditions(run, now_ms=10**9) == []


def test_missing_events_are_named_also_after_the_end() -> None:
    run = run_of(
        event("note", 1000, number=2, producer="q"),
        event("workflow_complete", 1000, number=3),
        event("producer_closed", 1000, number=44, count=45),
    )

    assert [condition.message for condition in conditions(run, now_ms=1000)] == [
        "missing 1–2 of producer p",
        "missing 4–43 of producer p",
        "missing 45 of producer p",
        "missing 1 of producer q",
    ]


def test_missing_lines_of_an_agent_are_named_until_they_are_fed() -> None:
    run = run_of(*(event("block", 1000, line_number=at, after_line=after) for at, after in [(9, 6), (4, 3)]))
    whole = fold(
        [event("block", 1001, line_number=at, after_line=at - 1) for at in (1, 2, 3, 5, 6)], onto=run
    )

    assert [condition.message for condition in conditions(run, now_ms=1000)] == [
        "missing lines 1–3 of the agent's output",
        "missing lines 5–6 of the agent's output",
    ]
    assert whole is not None
    assert conditions(whole, now_ms=1000) == []


def test_a_late_event_ends_the_condition_of_missing_it() -> None:
    run = run_of(event("note", 1000, number=1), event("note", 1002, number=3))

    whole = fold([event("note", 1001, number=2)], onto=run)

    assert [condition.name for condition in conditions(run, now_ms=1002)] == ["missing"]
    assert whole is not None
    assert conditions(whole, now_ms=1002) == []


A, B = "aaaaaaaa", "bbbbbbbb"
TWO_ATTEMPTS = [
    event("workflow_start", 1_000, number=1, producer="p", attempt=A),
    event("tool_call", 2_000, number=2, producer="p", operation="search", status="started"),
    event("workflow_start", 5_000, number=1, producer="q", attempt=B),
    event("tool_call", 6_000, number=2, producer="q", operation="write", status="started"),
    event("tool_call", 7_000, number=3, producer="p", operation="read", status="started"),
]


def test_each_attempt_has_the_calls_of_its_own_producers() -> None:
    run = run_of(*TWO_ATTEMPTS)

    assert [call.name for call in run.ordered_calls()] == ["write"]
    assert [call.name for call in run.at_attempt(1).ordered_calls()] == ["search", "read"]


def test_a_producer_that_names_two_attempts_works_on_the_last_it_named() -> None:
    run = run_of(
        event("workflow_start", 1_000, number=1, attempt=A),
        event("tool_call", 2_000, number=2, operation="search", status="started"),
        event("workflow_start", 5_000, number=3, attempt=B),
        event("tool_call", 6_000, number=4, operation="write", status="started"),
    )

    assert [call.name for call in run.at_attempt(1).ordered_calls()] == ["search"]
    assert [call.name for call in run.ordered_calls()] == ["write"]


def own_events(number: int, *events: Event) -> Run:
    whole = run_of(*events)
    belongs = whole.attempt_of()
    return whole.at_attempt(number, run_of(*(each for each in events if belongs(each) == number)))


def test_each_attempt_counts_its_own_events() -> None:
    ending = event("workflow_error", 9_000, error_message="no rows", attempt=A)  # of no producer, and late

    first, last = (own_events(number, *TWO_ATTEMPTS, ending) for number in (1, 2))

    assert first.counts == {"workflow_start": 1, "tool_call": 2, "workflow_error": 1}
    assert last.counts == {"workflow_start": 1, "tool_call": 1}
    assert (first.summary.events, last.summary.events) == (4, 2)
    assert (list(first.producers), list(last.producers)) == (["p"], ["q"])
    assert run_of(*TWO_ATTEMPTS).at_attempt(1).counts == {}  # without them they are not known


def test_a_late_event_of_an_earlier_attempt_does_not_break_the_silence_of_the_last() -> None:
    late = event("note", 99_000, number=4, producer="p")

    last = own_events(2, *TWO_ATTEMPTS, late)

    [silent] = conditions(last, now_ms=100_000)
    assert silent.message == "no event for 94 s; the run is still open"


def test_a_producer_of_two_attempts_misses_nothing_in_either() -> None:
    events = [
        event("workflow_start", 1_000, number=1, attempt=A),
        event("workflow_start", 5_000, number=2, attempt=B),
    ]

    assert [conditions(own_events(number, *events), now_ms=6_000) for number in (1, 2)] == [[], []]


def test_an_attempt_without_an_ending_is_unknown_once_another_has_begun() -> None:
    first = run_of(*TWO_ATTEMPTS).at_attempt(1)

    assert first.status is Status.UNKNOWN
    assert first.summary.duration_ms(now_ms=99_000) is None
    assert (first.summary.ended_between, first.summary.duration_between) == ((7_000, None), (6_000, None))
    calls = [
        call_fields(call, run_has_ended=first.summary.ending is not None) for call in first.ordered_calls()
    ]
    assert [call["status"] for call in calls] == ["abandoned", "abandoned"]


def test_a_later_attempt_does_not_move_the_death_of_an_earlier_one() -> None:
    death = event(
        "workflow_error", 2_001, status="died", written_for=True, attempt=A, not_before=2_000, not_after=3_000
    )
    events = [each for each in TWO_ATTEMPTS if each.producer == "q" or each.occurred_at <= 2_000]

    first = run_of(*events, death).at_attempt(1)

    assert (first.status, first.summary.ended_between) == (Status.DIED, (2_000, 3_000))
