"""A producer numbers its events and chains their digests."""

from __future__ import annotations

import json
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.errors import InvalidEvent
from longwatch.journal.verify import Completeness, Verifier
from longwatch.model.event import Event
from longwatch.recording.producers import MAX_OPEN, Producer, Producers, encode_event
from longwatch.recording.scope import EventDraft

RUN = "wf-1"


def note(type: str = "step", at: int = 1_000, **payload: object) -> EventDraft:
    return EventDraft(RUN, type, at, payload)


def new_producer() -> Producer:
    return Producer(RUN, max_payload_bytes=350 * 1024)


def test_events_are_numbered_from_1_and_named_by_time_producer_and_number() -> None:
    producer = new_producer()

    events = [producer.event(note(at=at), ttl_seconds=None) for at in (5, 5, 9)]

    assert [event.number for event in events] == [1, 2, 3]
    assert {event.producer for event in events} == {producer.name}
    assert len({event.event_id for event in events}) == 3
    assert [event.event_id for event in events] == sorted(event.event_id for event in events)


@given(st.lists(st.dictionaries(st.text(), st.integers() | st.text() | st.none(), max_size=3), min_size=1))
def test_the_chain_can_be_checked_without_our_code(payloads: list[dict[str, object]]) -> None:
    producer = new_producer()

    events = [producer.event(EventDraft(RUN, "step", 1, payload), ttl_seconds=60) for payload in payloads]

    previous = None
    for event in events:
        assert event.previous_digest == previous
        head = [
            event.run_id,
            event.event_id,
            event.type,
            event.occurred_at,
            event.agent_name,
            event.call_id,
            event.parent_call_id,
            event.producer,
            event.number,
            event.previous_digest,
            event.trace_id,
        ]
        text = json.dumps(head, ensure_ascii=False, separators=(",", ":")) + str(event.encoded)
        previous = sha256(text.encode()).hexdigest()[:32]


def test_the_last_event_states_the_count() -> None:
    producer = new_producer()
    verifier = Verifier()
    for each in (note(), note()):
        verifier.add(producer.event(each, ttl_seconds=None))

    closing = producer.closing_event(2_000, ttl_seconds=None)
    verifier.add(closing)

    assert (closing.type, closing.payload) == ("producer_closed", {"count": 3})
    assert verifier.report(0).answer is Completeness.COMPLETE


@pytest.mark.parametrize("ttl", [None, 0])
def test_without_a_ttl_events_never_expire(ttl: int | None) -> None:
    assert new_producer().event(note(), ttl_seconds=ttl).ttl is None


def test_a_ttl_counts_from_when_the_event_happened() -> None:
    assert new_producer().event(note(at=1_500), ttl_seconds=60).ttl == 61


@pytest.mark.parametrize(
    "bad",
    [
        EventDraft(RUN, "", 1, {}),
        EventDraft(RUN, "step", -1, {}),
        EventDraft(RUN, "\ud800", 1, {}),
        EventDraft(RUN, "step", 1, {}, call_id="\ud800"),
        EventDraft(RUN, "step", 1, {}, agent_name="\ud800"),
        EventDraft(RUN, "step", 1, {}, trace_id="\ud800"),
    ],
)
def test_an_invalid_event_is_refused_and_uses_no_number(bad: EventDraft) -> None:
    producer = new_producer()
    producer.event(note(), ttl_seconds=None)

    with pytest.raises(InvalidEvent):
        producer.event(bad, ttl_seconds=None)

    assert producer.event(note(), ttl_seconds=None).number == 2


def test_tokens_are_blanked_before_the_digest_is_computed() -> None:
    producer = new_producer()

    event = producer.event(note(text="key AKIAIOSFODNN7EXAMPLE", AKIAIOSFODNN7EXAMPLE=1), ttl_seconds=None)

    assert event.payload == {"text": "key [redacted]", "[redacted]": 1}
    assert "AKIA" not in str(event.encoded)


def test_a_payload_with_half_a_surrogate_pair_is_stored_readably() -> None:
    event = new_producer().event(note(file="bad\udcff", ok="good"), ttl_seconds=None)

    assert event.payload == {"file": "bad\\udcff", "ok": "good"}


def test_values_that_no_journal_can_hold_are_stored_as_text_without_their_secrets() -> None:
    class Sullen:
        def __str__(self) -> str:
            raise RuntimeError

        def __repr__(self) -> str:
            return "<sullen>"

    bad = {Sullen(): "AKIAIOSFODNN7EXAMPLE"}

    event = new_producer().event(EventDraft(RUN, "step", 1, bad), ttl_seconds=None)  # type: ignore[arg-type]

    assert event.payload == {"unstorable": "{<sullen>: '[redacted]'}"}


def test_a_payload_too_large_is_cut() -> None:
    event = Producer(RUN, max_payload_bytes=1024).event(note(text="x" * 5_000), ttl_seconds=None)

    assert len(str(event.encoded)) <= 1024
    assert event.payload["truncated"] == {"original_bytes": 5_011}


def test_producers_that_are_never_closed_make_room_for_others() -> None:
    producers = Producers(max_payload_bytes=1024)
    events: list[Event] = []
    producers.add(EventDraft("wf-0", "step", 1, {}), events, ttl_seconds=None)

    for n in range(1, MAX_OPEN + 1):
        producers.add(EventDraft(f"wf-{n}", "step", 1, {}), [], ttl_seconds=None)
    close_retired = producers.close_retired(lambda: 2, ttl_seconds=None)

    assert [(event.type, event.producer, event.payload) for event in close_retired] == [
        ("producer_closed", events[0].producer, {"count": 2})
    ]
    assert producers.close_retired(lambda: 2, ttl_seconds=None) == []
    assert producers.name_of("wf-0") is None
    assert producers.name_of("wf-1") is not None


@pytest.mark.parametrize(
    "bad",
    [EventDraft("wf-1", "", 1, {}), EventDraft("", "step", 1, {}), EventDraft("longwatch#x", "a", 1, {})],
)
def test_a_refused_first_event_begins_no_producer(bad: EventDraft) -> None:
    producers = Producers(max_payload_bytes=1024)

    with pytest.raises(InvalidEvent):
        producers.add(bad, [], ttl_seconds=None)

    assert producers.close_all(1, ttl_seconds=None) == []


def test_a_foreign_event_that_cannot_be_stored_gets_a_stand_in() -> None:
    event = Event(run_id=RUN, event_id="e", type="step", occurred_at=1, payload={"n": float("nan"), "a": 1})

    assert encode_event(event).payload == {"n": "nan", "a": 1}
    assert encode_event(encode_event(event)) == encode_event(event)
