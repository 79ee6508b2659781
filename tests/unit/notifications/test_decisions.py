"""What a rule reacts to, and when a condition is resolved."""

from __future__ import annotations

from dataclasses import replace

import pytest

from longwatch.executions.model import Evidence, Execution, Verdict
from longwatch.executions.stores.memory import MemoryExecutionStore
from longwatch.executions.transitions import start_event
from longwatch.following.observation import Observer
from longwatch.model.liveness import Condition
from longwatch.model.run import Status
from longwatch.notifications.decisions import ObservedState, condition_occurrences
from longwatch.notifications.rules import Trigger
from longwatch.testing import FakeClock
from tests.unit.following.test_observation import ALIVE, ELSEWHERE, GONE, HERE
from tests.unit.notifications.support import World, passes, rule

MINUTE = 60.0


@pytest.mark.parametrize(
    ("type_", "payload", "triggers", "title"),
    [
        ("workflow_complete", {}, [Trigger.ENDED], "import ended"),
        ("workflow_complete", {}, [Trigger.FAILED, Trigger.PARTIAL, Trigger.DIED], None),
        ("workflow_complete", {"status": "partial"}, [Trigger.PARTIAL], "import ended partial"),
        ("workflow_error", {}, [Trigger.FAILED], "import failed"),
        ("workflow_error", {}, [Trigger.ENDED, Trigger.FAILED], "import failed"),
        ("workflow_error", {}, [Trigger.PARTIAL, Trigger.CORRECTED], None),
        ("workflow_error", {"status": "died", "written_for": True}, [Trigger.DIED], "import died"),
    ],
)
def test_an_ending_meets_the_triggers_of_its_status(
    type_: str, payload: dict[str, object], triggers: list[Trigger], title: str | None
) -> None:
    world = World()
    notifier = world.notifier(rule(*triggers))
    notifier.run_once()

    world.start("wf-1")
    world.clock.advance(1)
    world.record("wf-1", type_, payload=payload)
    passes([notifier], world.clock, seconds=120)

    assert world.inbox.titles == ([title] if title else [])


def test_a_correction_is_reported_besides_the_ending_that_it_corrects() -> None:
    world = World()
    notifier = world.notifier(rule(Trigger.ENDED, Trigger.FAILED, Trigger.CORRECTED))
    notifier.run_once()
    world.record("x", "execution_started", payload={"name": "drill"})
    world.record("x", "execution_ended", payload={"status": "succeeded"})
    passes([notifier], world.clock, seconds=90)

    world.record("x", "execution_corrected", payload={"status": "failed", "error_message": "it was lost"})
    passes([notifier], world.clock, seconds=90)

    assert world.inbox.titles == ["drill ended", "drill corrected"]
    assert world.inbox.messages[1].body == "drill (x): corrected to failed after 90 s: it was lost"


def test_a_new_attempt_that_fails_is_reported_again() -> None:
    world = World()
    notifier = world.notifier()
    notifier.run_once()

    for attempt in ("a", "b"):
        world.clock.advance(90)
        world.record("wf-1", "workflow_start", payload={"name": "import", "attempt": attempt})
        world.record("wf-1", "workflow_error", payload={"attempt": attempt})
        notifier.run_once()

    assert world.inbox.titles == ["import failed", "import failed"]


def test_silence_is_reported_and_resolved_by_the_next_event() -> None:
    world = World()
    notifier = world.notifier(rule(Trigger.SILENT))
    notifier.run_once()
    world.start("wf-1")

    passes([notifier], world.clock, seconds=12 * MINUTE)
    world.record("wf-1", "tool_call", payload={"operation": "read"})
    passes([notifier], world.clock, seconds=MINUTE)
    passes([notifier], world.clock, seconds=12 * MINUTE)

    assert world.inbox.titles == ["import silent", "import reports again", "import silent"]
    assert world.inbox.messages[1].is_resolved
    assert "reports again after 12 min without an event" in world.inbox.messages[1].body


def test_a_silent_run_that_ends_is_resolved_with_its_ending() -> None:
    world = World()
    notifier = world.notifier(rule(Trigger.SILENT))
    notifier.run_once()
    world.start("wf-1")
    passes([notifier], world.clock, seconds=6 * MINUTE)

    world.fail("wf-1", "boom")
    passes([notifier], world.clock, seconds=2 * MINUTE)

    assert world.inbox.messages[1].body == "import (wf-1): failed after 6 min: boom"
    assert len(world.inbox.messages) == 2


def test_a_rule_without_resolutions_sends_none() -> None:
    world = World()
    notifier = world.notifier(rule(Trigger.SILENT, resolves=False))
    notifier.run_once()
    world.start("wf-1")

    passes([notifier], world.clock, seconds=6 * MINUTE)
    world.record("wf-1", "tool_call")
    passes([notifier], world.clock, seconds=2 * MINUTE)

    assert world.inbox.titles == ["import silent"]


def test_a_wait_is_reported_after_the_time_of_the_rule_and_once_it_is_over() -> None:
    world = World()
    notifier = world.notifier(rule(Trigger.WAITING, Trigger.SILENT, after_ms=10 * 60_000))
    notifier.run_once()
    world.start("wf-1")
    world.record("wf-1", "waiting_started", call_id="w", payload={"reason": "approval"})

    passes([notifier], world.clock, seconds=9 * MINUTE)
    before = list(world.inbox.titles)
    passes([notifier], world.clock, seconds=2 * MINUTE)
    world.record("wf-1", "waiting_ended", call_id="w", payload={"reason": "approval"})
    passes([notifier], world.clock, seconds=2 * MINUTE)

    assert before == []
    assert world.inbox.titles == ["import waiting", "import resumed"]
    assert world.inbox.messages[0].body == "import (wf-1): waiting for approval for 10 min"


def test_a_missing_heartbeat_is_reported_and_resolved_by_one() -> None:
    world = World()
    clock = world.clock
    observer = Observer(world.journal, clock=clock, here=HERE)
    notifier = world.notifier(rule(Trigger.NO_HEARTBEAT), observer=observer)
    notifier.run_once()
    process = {"process": ELSEWHERE.fields}
    world.record("wf-1", "workflow_start", payload=process, producer="p", number=1)

    passes([notifier], clock, seconds=5 * MINUTE)
    world.journal.beat(ELSEWHERE.id, clock.now_ms())  # type: ignore[attr-defined]
    passes([notifier], clock, seconds=2 * MINUTE)

    assert world.inbox.titles == ["wf-1 without heartbeat", "wf-1 has a heartbeat again"]


def test_a_run_whose_processes_are_gone_is_reported_before_its_ending_is_written() -> None:
    world = World(clock=FakeClock(now_ms=1_500_000))
    observer = Observer(world.journal, clock=world.clock, here=HERE)
    notifier = world.notifier(rule(Trigger.DIED), observer=observer)
    notifier.run_once()
    for name, process in (("wf-1", ALIVE), ("wf-2", GONE)):
        payload = {"process": process.fields}
        world.record(name, "workflow_start", occurred_at=1_900_000, producer=name, number=1, payload=payload)

    world.clock.advance(1500)
    passes([notifier], world.clock, seconds=120)

    assert world.inbox.titles == ["wf-2 died"]
    run = world.journal.find_run("wf-2")
    assert run is not None
    assert run.status is Status.RUNNING


def drill(clock: FakeClock, **changes: object) -> Execution:
    values: dict[str, object] = {
        "execution_id": "e-1",
        "plan_id": "plan",
        "name": "drill",
        "started_at": clock.now_ms(),
        "deadline_ms": 30 * 60_000,
    }
    return Execution(**{**values, **changes})  # type: ignore[arg-type]


def test_an_execution_past_its_deadline_is_reported_until_it_is_done() -> None:
    world = World(executions=MemoryExecutionStore())
    assert world.executions is not None
    notifier = world.notifier(rule(Trigger.OVERDUE))
    notifier.run_once()
    execution = world.executions.add(drill(world.clock))
    world.journal.append([start_event(execution)])

    passes([notifier], world.clock, seconds=29 * MINUTE)
    before = list(world.inbox.titles)
    passes([notifier], world.clock, seconds=3 * MINUTE)
    verdict = Verdict(Status.SUCCEEDED, world.clock.now_ms(), (Evidence("drs:DescribeJobs", 1),))
    world.executions.update(replace(execution, verdict=verdict))
    passes([notifier], world.clock, seconds=2 * MINUTE)

    assert before == []
    assert world.inbox.titles == ["drill overdue", "drill ended after its deadline"]
    assert world.inbox.messages[1].body == "drill (plan/e-1): ended succeeded"


def test_an_execution_without_a_change_is_silent_by_its_own_measure() -> None:
    world = World(executions=MemoryExecutionStore())
    assert world.executions is not None
    notifier = world.notifier(rule(Trigger.SILENT))
    notifier.run_once()
    execution = world.executions.add(drill(world.clock, deadline_ms=None))
    world.journal.append([start_event(execution)])

    passes([notifier], world.clock, seconds=29 * MINUTE)
    before = list(world.inbox.titles)
    passes([notifier], world.clock, seconds=3 * MINUTE)

    assert before == []
    assert world.inbox.titles == ["drill silent"]


def test_a_condition_that_a_rule_does_not_name_is_no_occurrence() -> None:
    world = World()
    world.start("wf-1")
    run = world.journal.find_run("wf-1")
    assert run is not None
    state = ObservedState(run, (Condition("crowded", "too many"),))

    found = condition_occurrences(
        rule(Trigger.WAITING), state, since=0, now_ms=world.clock.now_ms() + 3_600_000
    )

    assert list(found) == []
