"""A notifier sends each message once, retries it for a day, and writes down what became of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from longwatch.errors import JournalBusy
from longwatch.journal.base import Journal
from longwatch.model.event import Event
from longwatch.notifications.channels.base import DeliveryError
from longwatch.notifications.queue import retry_at
from longwatch.notifications.records import DeliveryState
from longwatch.notifications.rules import Trigger
from longwatch.testing.faults import intercepted
from tests.unit.notifications.support import FAILED_RULE, World, passes, rule

DAY = 24 * 3600.0


def refused(**changes: Any) -> DeliveryError:
    return DeliveryError("host returned HTTP 503", **{"is_retryable": True, **changes})


def test_a_run_that_fails_is_reported_once() -> None:
    world = World()
    notifier = world.notifier()
    notifier.run_once()

    world.failed_run("wf-1")
    passes([notifier], world.clock, seconds=600)

    (message,) = world.inbox.messages
    assert message.title == "import failed"
    assert message.body == "import (wf-1): failed after 0 s: FeedTimeout: no response"
    assert message.url == "http://127.0.0.1:8321/runs/wf-1"


def test_runs_that_a_rule_does_not_select_are_not_reported() -> None:
    world = World()
    notifier = world.notifier(replace(FAILED_RULE, runs="name:export"), rule(Trigger.PARTIAL, name="other"))
    notifier.run_once()

    world.failed_run("wf-1")
    world.failed_run("wf-2", "export")
    notifier.run_once()

    assert [each.run_ids for each in world.inbox.messages] == [("wf-2",)]


def test_a_rule_that_is_added_reports_nothing_of_the_past() -> None:
    world = World()
    world.failed_run("wf-1")
    world.start("wf-2")
    world.clock.advance(3600)
    notifier = world.notifier(rule(Trigger.FAILED, Trigger.SILENT))

    passes([notifier], world.clock, seconds=600)

    assert world.inbox.messages == []


def test_a_rule_that_is_changed_starts_anew() -> None:
    world = World()
    world.notifier(rule(Trigger.FAILED)).run_once()
    world.clock.advance(10)
    world.start("wf-1")
    world.record("wf-1", "workflow_complete")
    world.clock.advance(10)

    world.notifier(rule(Trigger.ENDED)).run_once()

    assert world.inbox.messages == []


def test_many_runs_are_one_message_a_minute_with_a_count() -> None:
    world = World()
    notifier = world.notifier()
    notifier.run_once()

    world.failed_run("wf-0")
    notifier.run_once()
    for number in range(1, 130):
        world.failed_run(f"wf-{number}")
    passes([notifier], world.clock, seconds=45)
    within = list(world.inbox.titles)
    passes([notifier], world.clock, seconds=30)

    assert within == ["import failed"]
    assert world.inbox.titles == ["import failed", "129 runs failed"]
    assert len(world.inbox.messages[1].notices) == 20
    assert len(world.events("wf-129")) == 1


def test_what_is_sent_is_an_event_of_the_run_and_no_activity() -> None:
    world = World()
    notifier = world.notifier(rule(Trigger.SILENT))
    notifier.run_once()
    world.start("wf-1")
    before = world.journal.find_run("wf-1")

    passes([notifier], world.clock, seconds=1800)

    (event,) = world.events("wf-1")
    assert event.payload == {
        "rule": "failures",
        "channel": "inbox",
        "trigger": "silent",
        "is_resolved": False,
        "delivery_id": world.inbox.messages[0].delivery_id,
        "delivered": True,
        "response": "HTTP 204",
        "attempts": 1,
    }
    after = world.journal.find_run("wf-1")
    assert before is not None
    assert after is not None
    assert (after.last_event_at, after.last_event_type) == (before.last_event_at, "workflow_start")
    assert world.inbox.titles == ["import silent"]


def test_a_notified_run_stays_ended() -> None:
    world = World()
    notifier = world.notifier()
    notifier.run_once()
    world.failed_run("wf-1")

    notifier.run_once()

    run = world.journal.find_run("wf-1")
    assert run is not None
    assert (run.status.value, len(run.attempts)) == ("failed", 1)


def test_a_failed_attempt_is_repeated_with_the_same_id() -> None:
    world = World()
    notifier = world.notifier()
    notifier.run_once()
    world.inbox.refusals = [refused(), refused()]
    world.failed_run("wf-1")

    notifier.run_once()
    first = [each.delivery_id for each in notifier.queue.queued()]
    passes([notifier], world.clock, seconds=60, every=5)

    assert world.inbox.attempts == 3
    assert [each.delivery_id for each in world.inbox.messages] == first
    assert world.events("wf-1")[0].payload["attempts"] == 3


@pytest.mark.parametrize(
    ("attempts", "requested", "seconds"),
    [(1, None, 10), (2, None, 20), (3, 5.0, 40), (3, 300.0, 300), (40, None, 1800), (400, None, 1800)],
)
def test_the_delay_grows_and_respects_the_receiver(
    attempts: int, requested: float | None, seconds: int
) -> None:
    assert retry_at(attempts, 1_000, requested) == 1_000 + seconds * 1000


def test_after_a_day_a_message_is_a_dead_letter() -> None:
    world = World()
    notifier = world.notifier()
    notifier.run_once()
    world.inbox.refusals = [refused() for _ in range(1000)]
    world.failed_run("wf-1")

    passes([notifier], world.clock, seconds=DAY - 3600, every=600)
    alive = [each.state for each in notifier.queue.queued()]
    passes([notifier], world.clock, seconds=2 * 3600, every=600)

    assert alive == [DeliveryState.QUEUED]
    assert list(notifier.queue.queued()) == []
    (dead,) = notifier.queue.dead_letters(10)
    assert (dead.state, dead.problem) == (DeliveryState.DEAD, "host returned HTTP 503")
    (event,) = world.events("wf-1")
    assert (event.payload["delivered"], event.payload["response"]) == (False, "host returned HTTP 503")


def test_a_receiver_that_fails_gets_one_attempt_at_a_time() -> None:
    world = World()
    notifier = world.notifier()
    notifier.run_once()
    world.inbox.refusals = [refused() for _ in range(200)]
    for number in range(10):
        world.failed_run(f"wf-{number}")
        passes([notifier], world.clock, seconds=61)
    world.inbox.attempts = 0

    notifier.run_once()
    passes([notifier], world.clock, seconds=600)
    attempts = world.inbox.attempts
    world.inbox.refusals = []
    passes([notifier], world.clock, seconds=3600)

    assert attempts <= 11
    assert {each.run_ids[0] for each in world.inbox.messages} == {f"wf-{number}" for number in range(10)}


def test_a_dead_letter_can_be_sent_again() -> None:
    world = World()
    notifier = world.notifier()
    notifier.run_once()
    world.inbox.refusals = [refused(is_retryable=False)]
    world.failed_run("wf-1")
    notifier.run_once()
    world.clock.advance(60)

    (dead,) = notifier.queue.dead_letters(10)
    assert notifier.queue.revive(dead)
    notifier.run_once()

    assert [each.delivery_id for each in world.inbox.messages] == [dead.delivery_id]
    assert [each.payload["delivered"] for each in world.events("wf-1")] == [False, True]


def test_several_notifiers_send_each_message_once() -> None:
    world = World()
    notifiers = [world.notifier(holder=name) for name in ("a", "b", "c")]
    for each in notifiers:
        each.run_once()

    for number in range(5):
        world.failed_run(f"wf-{number}")
        passes(notifiers, world.clock, seconds=90)

    assert world.inbox.attempts == 5
    assert all(len(world.events(f"wf-{number}")) == 1 for number in range(5))


def test_a_message_that_a_killed_notifier_held_is_sent_after_its_lease() -> None:
    world = World()
    killed, other = world.notifier(holder="killed"), world.notifier(holder="other")
    killed.run_once()
    world.failed_run("wf-1")
    killed._check_endings()
    killed._seal(FAILED_RULE)
    (delivery,) = killed.queue.queued()
    killed.queue.claim(delivery)

    other.run_once()
    assert world.inbox.messages == []
    passes([other], world.clock, seconds=150)

    assert len(world.inbox.messages) == 1


def test_a_message_that_was_accepted_is_not_sent_again_if_the_journal_was_away() -> None:
    world = World()
    is_away = False

    def gate(name: str, call: Any) -> Any:
        if is_away and name == "append":
            raise JournalBusy("locked")
        return call()

    real: Journal = world.journal
    world.notifier().run_once()
    world.failed_run("wf-1")
    notifier = world.notifier()
    notifier._journal = intercepted(real, gate)
    is_away = True
    notifier.run_once()
    is_away = False

    passes([notifier], world.clock, seconds=200)

    assert world.inbox.attempts == 1
    assert len(world.events("wf-1")) == 1


def test_messages_of_a_rule_that_was_removed_are_given_up_after_a_day() -> None:
    world = World()
    notifier = world.notifier()
    notifier.run_once()
    world.inbox.refusals = [refused()]
    world.failed_run("wf-1")
    notifier.run_once()
    others = world.notifier(replace(FAILED_RULE, name="other"))

    passes([others], world.clock, seconds=3600, every=600)
    kept = len(list(others.queue.queued()))
    passes([others], world.clock, seconds=DAY, every=3600)

    assert kept == 1
    (dead,) = others.queue.dead_letters(10)
    assert dead.problem == "Rule 'failures' is not in the settings any more"


def test_an_error_of_a_channel_is_a_failed_attempt() -> None:
    world = World()

    class Broken:
        def send(self, message: object) -> Any:
            raise RuntimeError("bug")

    notifier = world.notifier()
    notifier.run_once()
    notifier._channels["failures"] = Broken()
    world.failed_run("wf-1")

    notifier.run_once()

    (delivery,) = notifier.queue.queued()
    assert delivery.problem == "RuntimeError: bug"


def test_runs_that_were_imported_from_long_ago_are_not_news() -> None:
    world = World()
    notifier = world.notifier()
    notifier.run_once()
    world.clock.advance(30 * DAY)
    long_ago = world.clock.now_ms() - 8 * 24 * 3600 * 1000

    world.record("wf-1", "workflow_start", occurred_at=long_ago)
    world.record("wf-1", "workflow_error", occurred_at=long_ago + 1)
    notifier.run_once()

    assert world.inbox.messages == []


def test_a_notifier_that_was_away_reports_what_happened_meanwhile() -> None:
    world = World()
    world.notifier().run_once()

    world.failed_run("wf-1")
    world.clock.advance(3 * DAY)
    world.notifier().run_once()

    assert world.inbox.titles == ["import failed"]


def test_a_journal_that_was_replaced_by_a_backup_is_read_from_the_start() -> None:
    world = World()
    notifier = world.notifier()
    for number in range(10):
        world.start(f"old-{number}")
    notifier.run_once()
    restored = World(clock=world.clock, inbox=world.inbox, store=world.store)

    restored.failed_run("wf-1")
    restored.notifier().run_once()

    assert world.inbox.titles == ["import failed"]


def test_old_deliveries_and_memories_are_deleted() -> None:
    world = World()
    notifier = world.notifier()
    notifier.run_once()
    world.failed_run("wf-1")
    notifier.run_once()

    passes([notifier], world.clock, seconds=9 * DAY, every=6 * 3600)

    assert notifier.queue.deliveries(10) == []
    assert world.store.list("seen#", limit=10) == []


def test_a_run_that_was_deleted_is_skipped() -> None:
    world = World()
    notifier = world.notifier()
    notifier.run_once()
    world.failed_run("wf-1")
    world.inbox.refusals = [refused()]
    notifier.run_once()

    world.journal.delete_run("wf-1", by="me")  # type: ignore[attr-defined]
    passes([notifier], world.clock, seconds=60)

    assert len(world.inbox.messages) == 1
    assert list(notifier.queue.queued()) == []


def test_the_event_is_the_same_from_every_notifier() -> None:
    world = World()
    notifier = world.notifier()
    notifier.run_once()
    world.failed_run("wf-1")
    notifier.run_once()
    (event,) = world.events("wf-1")

    world.journal.append(
        [
            Event(
                **{
                    name: getattr(event, name)
                    for name in ("run_id", "event_id", "type", "occurred_at", "payload", "ttl")
                }
            )
        ]
    )

    assert len(world.events("wf-1")) == 1
