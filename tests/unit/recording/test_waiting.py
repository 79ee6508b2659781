"""Waits that a run records."""

from __future__ import annotations

import asyncio
import threading

import pytest

import longwatch
from longwatch.journal.memory import MemoryJournal
from longwatch.model.event import Event
from longwatch.recording.recorder import Recorder
from tests.unit.recording.recorded import Refusal, events_of
from tests.unit.recording.test_calls import WholeSeconds


def waits(journal: MemoryJournal, run_id: str) -> list[Event]:
    return [event for event in events_of(journal, run_id) if event.type.startswith("waiting_")]


def test_a_wait_has_a_start_and_an_end_with_its_duration(
    configured: Recorder, journal: MemoryJournal
) -> None:
    configured.clock = WholeSeconds()

    with longwatch.run() as run, longwatch.waiting("approval", detail="deploy to production"):
        pass
    configured.flush()

    start, end = waits(journal, run.run_id)
    assert (start.type, end.type) == ("waiting_started", "waiting_ended")
    assert start.call_id == end.call_id is not None
    assert start.payload == {"reason": "approval", "detail": "deploy to production"}
    assert end.payload == {"reason": "approval", "duration_ms": 2_000}


def test_a_wait_belongs_to_the_call_in_which_it_begins(configured: Recorder, journal: MemoryJournal) -> None:
    @longwatch.agent
    async def writer() -> None:
        async with longwatch.waiting("answer"):
            await asyncio.sleep(0)

    async def work() -> None:
        async with longwatch.run("r", run_id="wf-waits"):
            await writer()

    asyncio.run(work())
    configured.flush()

    [agent] = [event for event in events_of(journal, "wf-waits") if event.type == "agent_start"]
    assert {event.parent_call_id for event in waits(journal, "wf-waits")} == {agent.call_id}
    assert {event.agent_name for event in waits(journal, "wf-waits")} == {"writer"}


def test_an_exception_ends_the_wait(configured: Recorder, journal: MemoryJournal) -> None:
    with pytest.raises(Refusal), longwatch.run(run_id="wf-refused"), longwatch.waiting("lock"):
        raise Refusal

    configured.flush()
    assert [event.type for event in waits(journal, "wf-refused")] == ["waiting_started", "waiting_ended"]


def test_a_wait_may_begin_and_end_in_two_threads(configured: Recorder, journal: MemoryJournal) -> None:
    with longwatch.run() as run:
        wait = longwatch.waiting("child process").begin()
        wait.begin()
        thread = threading.Thread(target=wait.end)
        thread.start()
        thread.join()
        wait.end()
    configured.flush()

    assert [event.type for event in waits(journal, run.run_id)] == ["waiting_started", "waiting_ended"]


def test_a_wait_outside_a_run_is_not_recorded(configured: Recorder, journal: MemoryJournal) -> None:
    with longwatch.waiting("lock"):
        pass
    configured.flush()

    assert not journal.find_runs().runs
