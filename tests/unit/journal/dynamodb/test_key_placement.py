"""The rule of keys: a retry finds its event, whichever process retries, after whatever crash."""

from __future__ import annotations

from itertools import islice, pairwise

from hypothesis import given
from hypothesis import strategies as st

from longwatch.journal.dynamodb.key_placement import (
    ADJACENT_KEYS,
    MAX_PROBES,
    OccupiedKeys,
    keys_from,
    keys_of,
)
from longwatch.model.event import Event
from longwatch.recording.producers import Producer
from longwatch.recording.scope import EventDraft

NOW = 1_794_736_800_000


def test_an_event_without_a_slot_is_first_tried_at_its_own_time_and_then_next_door() -> None:
    event = Event(run_id="wf-1", event_id="a", type="t", occurred_at=NOW, producer="p", number=1)

    assert list(islice(keys_of(event), ADJACENT_KEYS)) == list(range(NOW, NOW + ADJACENT_KEYS))


def test_events_of_one_recorder_never_share_a_first_key_and_keep_their_order() -> None:
    producer = Producer("wf-1", max_payload_bytes=10_000)
    times = [NOW] * 500 + [NOW + 1] * 500 + [NOW + 5_000, NOW + 4_990, NOW - 1]

    first = [next(keys_of(producer.event(EventDraft("wf-1", "t", at, {}), ttl_seconds=None))) for at in times]

    assert all(one < other for one, other in pairwise(first[:-1]))
    assert first[0] == NOW
    assert first[-4:-2] == [NOW + 999, NOW + 5_000]


def test_a_recorder_s_event_that_meets_another_producer_jumps_and_does_not_queue() -> None:
    event = Producer("wf-1", max_payload_bytes=10_000).event(
        EventDraft("wf-1", "t", NOW, {}), ttl_seconds=None
    )

    sequence = list(keys_of(event))

    assert len(sequence) == MAX_PROBES
    assert sequence[0] == min(sequence) == NOW
    assert sequence == list(keys_of(event))
    assert sequence[1:20] != list(range(NOW + 1, NOW + 20))


def test_an_id_that_only_resembles_a_recorder_s_has_no_slot() -> None:
    event = Event(
        run_id="wf-1",
        event_id=f"{NOW + 9:012x}" + "0" * 20,
        type="t",
        occurred_at=NOW,
        producer="p",
        number=1,
    )

    assert next(keys_of(event)) == NOW


def test_the_sequence_depends_on_nothing_but_time_and_name() -> None:
    assert list(keys_from(NOW, "a")) == list(keys_from(NOW, "a"))
    assert list(keys_from(NOW, "a")) != list(keys_from(NOW, "b"))
    assert [key - NOW for key in keys_from(NOW, "a")] == list(keys_from(0, "a"))


def test_the_sequence_is_bounded_and_never_goes_back_in_time() -> None:
    sequence = list(keys_from(NOW, "a"))

    assert len(sequence) == MAX_PROBES
    assert min(sequence) == NOW


def test_a_thousand_events_of_one_millisecond_take_few_tries_each() -> None:
    occupied: set[int] = set()
    tries = []

    for name in range(5_000):
        for probe, key in enumerate(keys_from(NOW, str(name)), 1):
            if key not in occupied:
                occupied.add(key)
                tries.append(probe)
                break

    assert len(occupied) == 5_000
    assert max(tries) < ADJACENT_KEYS + 30


def test_events_without_slots_that_come_in_order_get_keys_in_order() -> None:
    occupied: dict[int, int] = {}

    for number in range(24):
        key = next(key for key in keys_from(NOW + number // 3, str(number)) if key not in occupied)
        occupied[key] = number

    assert all(one < other for one, other in pairwise(occupied[key] for key in sorted(occupied)))


@given(
    st.lists(
        st.tuples(
            st.integers(0, 7),  # which event, so that many are stored again and again
            st.sampled_from(["stored", "lost before", "lost after"]),
        ),
        max_size=60,
    )
)
def test_no_order_of_attempts_crashes_and_retries_stores_an_event_twice(
    attempts: list[tuple[int, str]],
) -> None:
    times = [NOW, NOW, NOW, NOW + 1, NOW + 1, NOW + 2, NOW - 1, NOW]
    table: dict[int, int] = {}  # key -> event

    for event, fate in attempts:
        for key in keys_from(times[event], str(event)):
            if table.get(key, event) != event:
                continue  # the store reported it
            if fate != "lost before":
                table.setdefault(key, event)
            break  # stored, found, or uncertain: a retry begins from the start

    stored = list(table.values())
    assert len(stored) == len(set(stored))
    assert {event for event, fate in attempts if fate != "lost before"} == set(stored)


def test_a_remembered_key_is_skipped_except_by_the_event_that_holds_it() -> None:
    occupied = OccupiedKeys()
    occupied.add("wf-1", NOW, "a")

    assert occupied.is_taken_by_another("wf-1", NOW, "b")
    assert not occupied.is_taken_by_another("wf-1", NOW, "a")
    assert not occupied.is_taken_by_another("wf-2", NOW, "b")
    assert not occupied.is_taken_by_another("wf-1", NOW + 1, "b")


def test_the_memory_of_keys_is_bounded() -> None:
    occupied = OccupiedKeys(max_keys=3)

    for key in range(5):
        occupied.add("wf-1", key, "a")

    assert [occupied.is_taken_by_another("wf-1", key, "b") for key in range(5)] == [
        False,
        False,
        True,
        True,
        True,
    ]
