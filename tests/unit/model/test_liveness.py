"""One rule decides whether a run died: for the command line, the hub and the server."""

from __future__ import annotations

from dataclasses import replace

import pytest

from longwatch.model.attempts import Lifecycle, lifecycle_of
from longwatch.model.endings import Ending, Status
from longwatch.model.event import Event
from longwatch.model.liveness import NO_HEARTBEAT_AFTER_MS, Liveness, Observation, judge
from longwatch.model.process import COMMAND, WRAPPER, Presence, ProcessIdentity

OWNER = ProcessIdentity("vm", 10, 100, boot="b", outbox="/x/outbox.db", role=WRAPPER)
CHILD = ProcessIdentity("vm", 11, 110, boot="b", role=COMMAND)
LAST = (1_000, "p", 3, "e3")
NOW = 9_000

ALIVE = Observation(Presence.ALIVE, alive_at=NOW)
GONE = Observation(Presence.GONE, gone_by=5_000)
UNKNOWN = Observation(Presence.UNKNOWN)


def event(type: str, at: int, by: str, **payload: object) -> Event:
    return Event(
        run_id="wf-1",
        event_id=f"{type}-{at}",
        type=type,
        occurred_at=at,
        payload=payload,
        producer=by,
        number=1,
    )


def facts(*, with_child: bool = False, has_owner: bool = True, is_over: bool = False) -> Lifecycle:
    events = [
        event("workflow_start", 1, "p", attempt="a" * 8, **({"process": OWNER.fields} if has_owner else {}))
    ]
    if with_child:
        events.append(event("process_joined", 2, "q", attempt="a" * 8, process=CHILD.fields))
    if is_over:
        events.append(event("workflow_complete", 3, "p"))
    return lifecycle_of(events)


def judged(lifecycle: Lifecycle, *, now: int = NOW, **seen: Observation) -> Liveness:
    observations = {{"owner": OWNER.id, "child": CHILD.id}[name]: found for name, found in seen.items()}
    return judge("wf-1", lifecycle, last=LAST, active_at=LAST[0], observations=observations, now_ms=now)


@pytest.mark.parametrize(
    ("found", "has_died", "conditions"),
    [
        (judged(facts(), owner=GONE), True, []),
        (judged(facts(), owner=ALIVE), False, []),
        (judged(facts(), owner=UNKNOWN), False, []),
        (judged(facts()), False, []),  # nothing was observed
        (judged(facts(is_over=True), owner=GONE), False, []),
        (judged(facts(has_owner=False, with_child=True), child=GONE), False, []),  # no owner is known
        (judged(facts(with_child=True), owner=GONE, child=GONE), True, []),
        (judged(facts(with_child=True), owner=GONE, child=ALIVE), False, ["unattended"]),
        (judged(facts(with_child=True), owner=ALIVE, child=GONE), False, []),
        (judged(facts(with_child=True), owner=GONE, child=UNKNOWN), False, []),
        (
            judged(facts(), owner=Observation(Presence.GONE, gone_by=5_000, has_undelivered=True)),
            False,
            ["undelivered"],
        ),
        (
            judged(
                facts(),
                now=1_000 + NO_HEARTBEAT_AFTER_MS + 1,
                owner=Observation(Presence.UNKNOWN, alive_at=900),
            ),
            False,
            ["no heartbeat"],
        ),
        (judged(facts(), now=1_000 + NO_HEARTBEAT_AFTER_MS, owner=UNKNOWN), False, []),
        (judged(facts(), now=1_000 + NO_HEARTBEAT_AFTER_MS + 1, owner=UNKNOWN), False, ["no heartbeat"]),
        (judged(facts(), owner=Observation(Presence.UNKNOWN, alive_at=NOW - 20_000)), False, []),
        # this machine was started again, unless its clone shows signs of life after that
        (judged(facts(), owner=Observation(Presence.GONE, gone_by=5_000, is_before_boot=True)), True, []),
        (
            judged(
                facts(), owner=Observation(Presence.GONE, alive_at=70_000, gone_by=5_000, is_before_boot=True)
            ),
            False,
            [],
        ),
        (judged(replace(facts(), has_gaps=True), owner=GONE), False, ["unreadable"]),
        (judged(replace(facts(), dropped=(2, "r", 1, "e")), owner=GONE), False, ["crowded"]),
    ],
)
def test_a_run_died_only_if_every_process_is_certainly_gone(
    found: Liveness, has_died: bool, conditions: list[str]
) -> None:
    assert (found.death is not None) is has_died
    assert [each.name for each in found.conditions] == conditions


@pytest.mark.parametrize(
    ("seen", "between"),
    [
        ({"owner": GONE, "child": GONE}, (1_000, 5_000)),  # from the last event to the first observation
        ({"owner": GONE, "child": Observation(Presence.GONE, gone_by=7_000)}, (1_000, 7_000)),
        ({"owner": GONE, "child": Observation(Presence.GONE, alive_at=4_000, gone_by=5_000)}, (4_000, 5_000)),
        ({"owner": GONE, "child": Observation(Presence.GONE, alive_at=6_001, gone_by=6_001)}, (6_001, 6_001)),
        ({"owner": GONE, "child": Observation(Presence.GONE, alive_at=6_001, gone_by=2)}, (6_001, 6_001)),
    ],
)
def test_the_interval_is_as_narrow_as_what_was_observed(
    seen: dict[str, Observation], between: tuple[int, int]
) -> None:
    ending = judged(facts(with_child=True), owner=seen["owner"], child=seen["child"]).ending

    assert ending is not None
    assert (ending.status, ending.not_before, ending.not_after) == (Status.DIED, *between)


def test_the_ending_has_a_position_and_no_time() -> None:
    death = judged(facts(with_child=True), owner=GONE, child=GONE).death

    assert death is not None
    assert (death.type, death.occurred_at) == ("workflow_error", LAST[0] + 1)
    assert death.payload == {
        "status": "died",
        "written_for": True,
        "error_code": "process_died",
        "error_message": "Processes 10, 11 on vm exited without reporting an outcome.",
        "processes": sorted([OWNER.id, CHILD.id]),
        "not_before": 1_000,
        "not_after": 5_000,
        "exit_observed": False,
        "attempt": "a" * 8,
    }
    ending = Ending.of(death)
    assert ending is not None
    assert ending.at is None


def test_two_observers_name_one_death_alike() -> None:
    one = judged(facts(), owner=GONE).death
    other = judged(facts(), owner=Observation(Presence.GONE, gone_by=8_000)).death

    assert one is not None
    assert other is not None
    assert one.event_id == other.event_id
    assert (one.payload["not_after"], other.payload["not_after"]) == (5_000, 8_000)


def test_a_condition_names_the_process_and_what_to_do() -> None:
    (unattended,) = judged(facts(with_child=True), owner=GONE, child=ALIVE).conditions
    (undelivered,) = judged(facts(), owner=Observation(Presence.GONE, has_undelivered=True)).conditions

    assert unattended.message == "process 10 (wrapper) is gone; process 11 on vm still runs"
    assert undelivered.message == (
        "process 10 on vm is gone and left events in /x/outbox.db; deliver them with `longwatch ship`"
    )


def test_producers_whose_process_is_gone_are_named_while_others_still_run() -> None:
    assert judged(facts(with_child=True), owner=ALIVE, child=GONE).gone == {"q"}
    assert judged(facts(with_child=True), owner=GONE, child=ALIVE).gone == {"p"}
    assert judged(facts(with_child=True), owner=ALIVE, child=ALIVE).gone == frozenset()
    assert judged(facts(with_child=True), owner=ALIVE, child=UNKNOWN).gone == frozenset()
