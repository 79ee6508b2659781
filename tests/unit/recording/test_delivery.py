"""Events reach the journal, or wait in the outbox until they do."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from longwatch.errors import Throttled
from longwatch.journal.memory import MemoryJournal
from longwatch.model.event import Event
from longwatch.recording.delivery import Delivery, retry_seconds
from longwatch.recording.outbox import CLAIM_MS, Outbox
from longwatch.testing import FakeClock, FaultyJournal
from tests.unit.recording.recorded import events_of

RUN = "wf-1"


class Scene:
    """A journal with faults, an outbox beside it, and time to spend."""

    def __init__(self, folder: Path) -> None:
        self.clock = FakeClock()
        self.memory = MemoryJournal(clock=self.clock)
        self.journal = FaultyJournal(self.memory)
        self.outbox = Outbox(folder / "outbox.db", clock=self.clock)
        self.delivery = self.new_delivery()
        self.made = 0

    def new_delivery(self) -> Delivery:
        outbox = Outbox(self.outbox.path, clock=self.clock)
        return Delivery(self.journal.url, lambda: self.journal, outbox, clock=self.clock)

    def events(self, count: int = 1, type: str = "step") -> list[Event]:
        made = range(self.made + 1, self.made + count + 1)
        self.made += count
        return [Event(run_id=RUN, event_id=f"e{n:05}", type=type, occurred_at=1_000 + n) for n in made]

    def stored(self) -> list[str]:
        return [event.event_id for event in events_of(self.memory, RUN) if event.type != "late_batch"]

    def announced(self) -> list[object]:
        return [event.payload for event in events_of(self.memory, RUN) if event.type == "late_batch"]

    def waiting(self) -> int:
        return sum(batch.events for batch in self.outbox.pending())


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_a_healthy_journal_takes_everything_and_no_outbox_appears(scene: Scene) -> None:
    assert scene.delivery.deliver(scene.events(3))
    scene.delivery.ship()

    assert scene.stored() == ["e00001", "e00002", "e00003"]
    assert not scene.outbox.exists()
    assert scene.delivery.seconds_until_shipping() is None


def test_during_an_outage_events_wait_and_the_journal_is_left_alone(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.journal.fail()

    with caplog.at_level(logging.WARNING, "longwatch"):
        for _ in range(5):
            assert scene.delivery.deliver(scene.events())

    assert scene.journal.appends == 1
    assert scene.waiting() == 5
    assert scene.delivery.counts.in_outbox == 5
    assert scene.delivery.seconds_until_shipping() == 1.0
    assert caplog.text.count("cannot deliver events") == 1


def test_the_journal_is_tried_less_and_less_often(scene: Scene) -> None:
    scene.journal.fail()
    scene.delivery.deliver(scene.events())
    waits = []

    for _ in range(7):
        wait = scene.delivery.seconds_until_shipping()
        assert wait is not None
        waits.append(wait)
        scene.clock.advance(wait)
        scene.delivery.ship()

    assert waits == [1, 2, 4, 8, 16, 30, 30]
    assert retry_seconds(10_000) == 30


def test_when_the_journal_is_back_waiting_events_are_shipped_once_and_announced(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.journal.fail()
    scene.delivery.deliver(scene.events(3))
    scene.journal.recover()
    scene.clock.advance(1)

    with caplog.at_level(logging.WARNING, "longwatch"):
        scene.delivery.deliver(scene.events())
        while scene.delivery.seconds_until_shipping() is not None:
            scene.delivery.ship()

    assert scene.stored() == ["e00001", "e00002", "e00003", "e00004"]
    assert scene.announced() == [{"from": 1_001, "to": 1_003, "count": 3}]
    assert scene.waiting() == 0
    assert (scene.delivery.counts.stored, scene.delivery.counts.in_outbox) == (4, 0)
    assert caplog.text.count("is reachable again") == 1


def test_it_ships_although_no_new_event_comes(scene: Scene) -> None:
    scene.journal.fail()
    scene.delivery.deliver(scene.events())
    scene.journal.recover()

    scene.clock.advance(1)
    scene.delivery.ship()

    assert scene.stored() == ["e00001"]


def test_with_nothing_in_the_outbox_it_claims_no_recovery(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.journal.fail()
    scene.delivery.deliver(scene.events())
    scene.outbox.ship(lambda url: scene.memory)  # by another process

    with caplog.at_level(logging.WARNING, "longwatch"):
        scene.clock.advance(1)
        scene.delivery.ship()

    assert "is reachable again" not in caplog.text


def test_a_long_backlog_is_shipped_a_batch_at_a_time(scene: Scene) -> None:
    scene.journal.fail()
    scene.delivery.deliver(scene.events(600))
    scene.journal.recover()
    scene.clock.advance(1)

    scene.delivery.ship()

    assert scene.waiting() == 350
    assert scene.delivery.seconds_until_shipping() == 0.0


def test_at_the_end_as_much_is_shipped_as_time_allows(scene: Scene) -> None:
    scene.journal.fail()
    scene.delivery.deliver(scene.events(600))
    scene.journal.recover()
    scene.clock.advance(1)

    scene.delivery.ship_all(1.0)

    assert scene.waiting() == 0
    assert len(scene.announced()) == 3


def test_at_the_end_an_outage_is_not_waited_for(scene: Scene) -> None:
    scene.journal.fail()
    scene.delivery.deliver(scene.events())

    scene.delivery.ship_all(1.0)

    assert scene.journal.appends == 1


def test_events_of_an_earlier_process_are_shipped_too_and_not_counted_as_ours(scene: Scene) -> None:
    scene.outbox.put(scene.journal.url, scene.events(2))

    scene.delivery.deliver(scene.events())
    scene.delivery.ship()

    assert len(scene.stored()) == 3
    assert scene.delivery.counts.stored == 1


def test_events_that_a_dead_shipper_had_claimed_are_shipped_later(scene: Scene) -> None:
    scene.outbox.put(scene.journal.url, scene.events(2))
    with scene.outbox._database.writing() as connection:  # claimed by a process that was then killed
        connection.execute("UPDATE waiting SET claimed_until = ?", (scene.clock.now_ms() + CLAIM_MS,))

    scene.delivery.ship()
    after = scene.delivery.seconds_until_shipping()
    scene.clock.advance(CLAIM_MS / 1000)
    scene.delivery.ship()

    assert after == CLAIM_MS / 1000
    assert len(scene.stored()) == 2


def test_an_append_whose_response_was_lost_stores_nothing_twice(scene: Scene) -> None:
    scene.journal.time_out()

    scene.delivery.deliver(scene.events(3))
    scene.clock.advance(1)
    scene.delivery.ship()

    assert scene.stored() == ["e00001", "e00002", "e00003"]
    assert scene.waiting() == 0


@pytest.mark.parametrize(
    "error", [Throttled("slower"), RuntimeError("a bug"), KeyError("x"), OSError(5, "io")]
)
def test_whatever_a_journal_raises_no_event_is_lost(scene: Scene, error: Exception) -> None:
    scene.journal.fail(1, error)

    assert scene.delivery.deliver(scene.events(2))

    assert scene.waiting() == 2
    assert scene.delivery.counts.failures == 1
    assert scene.delivery.counts.last_error


def test_a_refused_event_is_stored_with_the_reason_and_holds_up_no_other(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.journal.refuse(lambda event: event.type == "bad")

    with caplog.at_level(logging.WARNING, "longwatch"):
        assert scene.delivery.deliver([*scene.events(), *scene.events(3, "bad"), *scene.events()])

    assert scene.stored() == ["e00001", "e00005"]
    assert scene.outbox.refused() == [(f"e0000{n}", "'bad' events are refused here") for n in (2, 3, 4)]
    assert scene.waiting() == 0
    assert (scene.delivery.counts.stored, scene.delivery.counts.refused) == (2, 3)
    assert caplog.text.count("rejected") == 1


def test_a_refused_event_among_those_that_waited_holds_up_no_other(scene: Scene) -> None:
    scene.journal.fail()
    scene.delivery.deliver([*scene.events(), *scene.events(1, "bad"), *scene.events()])
    scene.journal.recover()
    scene.journal.refuse(lambda event: event.type == "bad")

    scene.clock.advance(1)
    scene.delivery.ship()

    assert scene.stored() == ["e00001", "e00003"]
    assert [event_id for event_id, _ in scene.outbox.refused()] == ["e00002"]
    assert scene.waiting() == 0
    assert scene.delivery.counts.refused == 1


def test_an_outbox_that_cannot_be_written_is_reported_once_and_the_events_are_given_back(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.outbox.path.write_text("something else entirely, and no database")
    scene.journal.fail()
    events = scene.events(2)

    with caplog.at_level(logging.WARNING, "longwatch"):
        assert not scene.delivery.deliver(events)
        assert not scene.delivery.deliver(events)

    assert caplog.text.count("cannot write the outbox") == 1
    assert "is not a SQLite database" in str(scene.delivery.counts.last_error)


def test_an_outbox_that_breaks_in_the_middle_of_an_outage_is_reported_too(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.journal.fail()
    scene.delivery.deliver(scene.events())
    scene.clock.advance(1)
    scene.delivery.deliver(scene.events())
    scene.delivery.close()
    scene.outbox.path.write_text("damaged")

    with caplog.at_level(logging.ERROR, "longwatch"):
        assert not scene.delivery.deliver(scene.events())

    assert caplog.text.count("cannot write the outbox") == 1


def test_a_broken_outbox_does_not_keep_events_from_a_healthy_journal(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.outbox.path.write_text("something else entirely, and no database")

    with caplog.at_level(logging.WARNING, "longwatch"):
        for _ in range(3):
            assert scene.delivery.deliver(scene.events())
            scene.delivery.ship()

    assert len(scene.stored()) == 3
    assert caplog.text.count("cannot ship the events") == 1


def test_a_refused_event_that_cannot_even_be_stored_holds_up_no_other(scene: Scene) -> None:
    scene.outbox.path.write_text("something else entirely, and no database")
    scene.journal.refuse(lambda event: event.type == "bad")

    assert scene.delivery.deliver([*scene.events(1, "bad"), *scene.events()])

    assert scene.stored() == ["e00002"]
    assert scene.delivery.counts.refused == 1


def test_a_journal_that_cannot_be_opened_is_an_outage(scene: Scene) -> None:
    def fail() -> MemoryJournal:
        raise RuntimeError("no such thing")

    delivery = Delivery("strange://", fail, scene.outbox, clock=scene.clock)

    assert delivery.default_ttl_seconds() is None
    assert delivery.deliver(scene.events())
    assert [batch.url for batch in scene.outbox.pending()] == ["strange://"]


def test_events_that_waited_under_the_url_as_given_are_shipped_once_the_journal_opens(scene: Scene) -> None:
    tries = iter([True, False, False])

    def open_() -> FaultyJournal:
        if next(tries):
            raise RuntimeError("not yet")
        return scene.journal

    delivery = Delivery("memory://given", open_, scene.outbox, clock=scene.clock)
    delivery.deliver(scene.events())

    scene.clock.advance(1)
    delivery.ship()

    assert scene.stored() == ["e00001"]


def test_events_for_a_file_wait_under_its_whole_path(tmp_path: Path, scene: Scene) -> None:
    from longwatch.journal.factory import open_journal

    delivery = Delivery(
        "sqlite:///a.db", lambda: open_journal("sqlite:///a.db"), scene.outbox, clock=scene.clock
    )
    (tmp_path / "a.db").write_text("this is no database, however hard one looks")

    delivery.deliver(scene.events())

    assert [batch.url for batch in scene.outbox.pending()] == [f"sqlite:///{tmp_path}/a.db"]


def test_events_that_are_stored_long_after_they_happened_are_announced_where_readers_need_it(
    scene: Scene,
) -> None:
    scene.memory.announce_after_ms = 20_000
    scene.clock.set(100_000)
    [old, older, fresh] = [
        replace(event, occurred_at=at)
        for event, at in zip(scene.events(3), (79_999, 5_000, 80_000), strict=True)
    ]

    scene.delivery.deliver([old, older, fresh])

    assert len(scene.stored()) == 3
    assert scene.announced() == [{"from": 5_000, "to": 79_999, "count": 2}]
    assert scene.delivery.counts.stored == 3


def test_a_journal_whose_readers_miss_nothing_gets_no_announcement(scene: Scene) -> None:
    scene.clock.set(100_000)

    scene.delivery.deliver(scene.events(2))

    assert scene.announced() == []


def test_events_that_a_stuck_delivery_had_accepted_are_left_in_the_outbox_and_counted_once(
    scene: Scene,
) -> None:
    stuck = scene.delivery
    stuck.deliver(scene.events(2))
    stuck.accept(scene.events(3))

    left = stuck.abandon()
    stuck.leave(left, scene.events(1, type="producer_closed"))
    stuck.deliver()  # comes back from the append that blocked it

    counts = stuck.counts
    assert [event.event_id for event in left] == ["e00003", "e00004", "e00005"]
    assert (counts.recorded, counts.stored, counts.in_outbox, counts.lost) == (6, 2, 4, 0)
    assert scene.waiting() == 4


def test_an_append_that_returns_after_its_delivery_was_abandoned_counts_nothing(scene: Scene) -> None:
    class Slow(FaultyJournal):
        """Returns after another thread has taken over."""

        def append(self, events: Sequence[Event]) -> None:
            super().append(events)
            left.extend(slow.abandon())

    left: list[Event] = []
    journal = Slow(scene.memory)
    slow = Delivery(journal.url, lambda: journal, scene.outbox, clock=scene.clock)

    slow.deliver(scene.events(2))
    slow.leave(left, [])

    counts = slow.counts
    assert (counts.recorded, counts.stored, counts.in_outbox) == (2, 0, 2)
    assert len(scene.stored()) == scene.waiting() == 2


def test_events_that_an_outbox_refused_are_held_for_the_next_delivery(scene: Scene) -> None:
    scene.outbox.path.mkdir()
    stuck = scene.delivery
    stuck.accept(scene.events(2))
    left = stuck.abandon()

    is_left = stuck.leave(left, [])
    following = Delivery(
        scene.journal.url, lambda: scene.journal, scene.outbox, clock=scene.clock, counts=stuck.counts
    )
    following.hold(left, [])

    assert not is_left
    assert following.is_holding
    assert following.deliver()
    assert (stuck.counts.recorded, stuck.counts.stored, stuck.counts.in_outbox) == (2, 2, 0)


def test_shipping_what_other_processes_left_changes_no_count_of_ours(scene: Scene) -> None:
    scene.outbox.put(scene.journal.url, scene.events(3))
    scene.journal.fail()
    scene.delivery.deliver(scene.events(1))
    scene.journal.recover()
    scene.clock.advance(1)

    scene.delivery.deliver(scene.events(1))
    counts_before = scene.delivery.counts.stored, scene.delivery.counts.in_outbox
    while scene.delivery.seconds_until_shipping() is not None:
        scene.delivery.ship()

    assert counts_before == (1, 1)
    assert (scene.delivery.counts.stored, scene.delivery.counts.in_outbox) == (2, 0)
    assert len(scene.stored()) == 5


def test_events_of_a_deleted_run_are_dropped_counted_and_logged_once(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.delivery.deliver(scene.events(2))
    scene.memory.delete_run(RUN, by="ann@host", force=True)
    other = Event(run_id="wf-2", event_id="other", type="step", occurred_at=5_000)

    with caplog.at_level(logging.WARNING, "longwatch"):
        assert scene.delivery.deliver([*scene.events(2), other])
        assert scene.delivery.deliver(scene.events())

    counts = scene.delivery.counts
    assert (counts.recorded, counts.stored, counts.refused, counts.in_outbox) == (6, 3, 3, 0)
    assert "was deleted at" in (counts.last_error or "")
    assert [each.event_id for each in events_of(scene.memory, "wf-2")] == ["other"]
    assert len(caplog.records) == 1
    assert "wf-1' was deleted at" in caplog.records[0].message
    assert not scene.outbox.exists()


def test_a_deleted_run_is_not_shipped_from_the_outbox(scene: Scene) -> None:
    scene.delivery.deliver(scene.events(1))
    scene.journal.fail()
    scene.delivery.deliver(scene.events(2))
    scene.memory.delete_run(RUN, by="ann@host", force=True)
    scene.journal.recover()

    report = scene.outbox.ship(lambda url: scene.journal)

    assert (report.shipped, report.dropped, report.refused, report.left) == (0, 2, 0, 0)
    assert scene.outbox.refused() == []
