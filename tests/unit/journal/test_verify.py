from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.journal.verify import Completeness, Verification, Verifier
from longwatch.model.event import Event
from tests.unit.cli.samples import START_MS, Story, session

NOW = START_MS + 3_600_000
HOUR_MS = 3_600_000


def produced(count: int, *, closed: bool = True, ttl: int | None = None, producer: str = "p1") -> list[Event]:
    """`count` events of one producer, the last of which states the count if it closed."""
    story = Story(producer=producer)
    for number in range(count - closed):
        story.add("note", {"n": number}, after=1000, ttl=ttl)
    if closed:
        story.close()
    return story.events


def verified(
    events: list[Event], *, now_ms: int = NOW, started_at: int = START_MS, expired_before: int | None = None
) -> Verification:
    verifier = Verifier()
    for event in events:
        verifier.add(event)
    return verifier.report(now_ms, started_at=started_at, expired_before=expired_before)


def without(events: list[Event], *numbers: int) -> list[Event]:
    return [event for event in events if event.number not in numbers]


def sentences(found: Verification) -> list[str]:
    return [sentence for producer in found.producers for sentence in producer.sentences()]


def test_a_closed_producer_whose_events_are_all_there_is_complete() -> None:
    found = verified(produced(5))

    assert found.answer is Completeness.COMPLETE
    assert sentences(found) == ["complete: 5 events of producer p1"]


def test_a_producer_that_has_not_closed_is_open() -> None:
    assert verified(produced(5, closed=False)).answer is Completeness.OPEN


def test_lost_events_are_named() -> None:
    found = verified(without(produced(60), 41, 42, 43, 50))

    assert found.answer is Completeness.MISSING
    assert sentences(found) == ["missing 41–43, 50 of producer p1"]


def test_a_lost_beginning_is_missing_unless_something_explains_it() -> None:
    assert sentences(verified(without(produced(5), 1, 2))) == ["missing 1–2 of producer p1"]


def test_the_last_events_before_the_closing_one_are_missed_too() -> None:
    assert sentences(verified(without(produced(5), 4))) == ["missing 4 of producer p1"]


def test_an_altered_event_is_contradicted_by_its_successor() -> None:
    events = produced(30)
    events[16] = replace(events[16], payload={"n": "forged"}, encoded=None)

    found = verified(events)

    assert found.answer is Completeness.ALTERED
    assert sentences(found) == ["altered at 17 of producer p1"]


def test_an_altered_event_is_found_in_whatever_order_events_arrive() -> None:
    events = produced(30)
    events[16] = replace(events[16], type="other")

    assert sentences(verified(events[::-1])) == ["altered at 17 of producer p1"]


def test_two_events_with_one_number_are_not_both_what_was_written() -> None:
    events = produced(5)
    double = replace(events[2], event_id="other", payload={"n": "second"})

    assert sentences(verified([*events, double])) == ["altered at 3 of producer p1"]


def test_a_first_event_that_claims_a_predecessor_was_altered() -> None:
    events = produced(3)
    events[0] = replace(events[0], previous_digest="0" * 32)

    assert verified(events).answer is Completeness.ALTERED


def test_altered_and_missing_are_both_reported() -> None:
    events = without(produced(30), 20)
    events[4] = replace(events[4], payload={})

    assert sentences(verified(events)) == ["altered at 5 of producer p1", "missing 20 of producer p1"]


def test_pruned_events_are_expired_and_not_missing() -> None:
    found = verified(without(produced(5), 1, 2), expired_before=START_MS + 2500)

    assert found.answer is Completeness.EXPIRED
    assert sentences(found) == [
        "expired before 2026-11-15T10:02:13.500Z: 1–2 of producer p1",
        "complete since then: 3 events of producer p1",
    ]


def test_a_hole_further_on_is_missing_even_after_pruning() -> None:
    found = verified(without(produced(9), 1, 2, 5), expired_before=START_MS + 2500)

    assert found.answer is Completeness.MISSING


def test_a_pruned_run_is_expired_although_its_other_producers_are_complete() -> None:
    assert verified(produced(3), expired_before=START_MS).answer is Completeness.EXPIRED


@pytest.mark.parametrize(
    ("passed_ms", "result"),
    [
        (HOUR_MS - 1, Completeness.MISSING),
        (HOUR_MS, Completeness.EXPIRED),
        (2 * HOUR_MS, Completeness.EXPIRED),
    ],
)
def test_a_lost_beginning_is_expired_once_its_life_is_over(passed_ms: int, result: Completeness) -> None:
    story = Story()
    for number in range(5):
        at = START_MS + number * 1000
        story.add("note", after=1000 if number else 0, ttl=(at + HOUR_MS) // 1000)

    found = verified(without(story.events, 1, 2), now_ms=START_MS + passed_ms)

    assert found.answer is result


def test_producers_are_judged_one_by_one_and_the_gravest_result_counts() -> None:
    found = verified(
        [*produced(4), *without(produced(4, producer="p2"), 2), *produced(2, closed=False, producer="p3")]
    )

    assert [each.answer for each in found.producers] == [
        Completeness.COMPLETE,
        Completeness.MISSING,
        Completeness.OPEN,
    ]
    assert found.answer is Completeness.MISSING


def test_events_of_other_producers_are_only_counted() -> None:
    found = verified(session())

    assert (found.unnumbered, found.producers, found.answer) == (3, (), Completeness.OPEN)


def test_a_producer_that_continued_after_stating_its_count_is_open() -> None:
    story = Story()
    story.add("note")
    story.close()
    story.add("note")

    assert verified(story.events).answer is Completeness.OPEN


def test_memory_does_not_grow_with_the_run() -> None:
    verifier = Verifier()
    for event in produced(5000):
        verifier.add(event)

    chain = verifier._chains["p1"]

    assert len(chain._ends) + len(chain._starts) == 2


@given(st.permutations(range(12)), st.sets(st.integers(1, 11)), st.none() | st.integers(1, 11))
def test_the_result_does_not_depend_on_the_order_of_arrival(
    order: list[int], lost: set[int], forged: int | None
) -> None:
    events = produced(12)
    if forged is not None:
        events[forged - 1] = replace(events[forged - 1], payload={"n": -1})
    arrived = [events[index] for index in order if index + 1 not in lost]

    assert verified(arrived) == verified(sorted(arrived, key=lambda event: event.number or 0))


@given(st.sets(st.integers(1, 19)))
def test_exactly_the_lost_events_are_named(lost: set[int]) -> None:
    found = verified([event for event in produced(20) if event.number not in lost])

    missing = {n for low, high in found.producers[0].missing for n in range(low, high + 1)}

    assert missing == lost


@pytest.mark.parametrize(("counted", "uncounted"), [(60, 0), (62, 2)])
def test_events_that_the_journal_counted_are_reported_once(counted: int, uncounted: int) -> None:
    verifier = Verifier()
    for event in without(produced(60), 41, 42):
        verifier.add(event)

    found = verifier.report(NOW, started_at=START_MS, counted=counted)

    assert found.answer is Completeness.MISSING
    assert found.uncounted == uncounted
