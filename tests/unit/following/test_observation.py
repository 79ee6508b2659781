"""Lists show how runs stand at this moment: a run whose processes are gone has died. Nothing is written."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence

import pytest

from longwatch.following.observation import HOLDS_SECONDS, Observer
from longwatch.model.event import Event
from longwatch.model.process import ProcessIdentity, Surroundings, process_of, process_started
from longwatch.model.run import Status
from longwatch.model.run_query import RunQuery
from longwatch.testing import FakeClock, MemoryJournal

HERE = Surroundings(machine="m", boot="now", namespace="pid:[1]", boot_at=2_000_000)
GONE = ProcessIdentity(
    "vm", 11, 110, "pid:[1]", machine="m", boot="before"
)  # of before this machine was restarted
ALIVE = ProcessIdentity("vm", os.getpid(), process_started(os.getpid()), "pid:[1]", machine="m", boot="now")
ELSEWHERE = ProcessIdentity("vm", 12, 120, "pid:[2]", machine="m", boot="now")


def started(run_id: str, at: int, process: ProcessIdentity | None) -> Event:
    payload = {} if process is None else {"process": process.fields}
    return Event(
        run_id=run_id,
        event_id=f"{run_id}-1",
        type="workflow_start",
        occurred_at=at,
        payload=payload,
        producer=f"p-{run_id}",
        number=1,
    )


def journal_of(processes: Iterable[ProcessIdentity | None]) -> MemoryJournal:
    """Runs wf-0, wf-1 … of these processes, each a second after the one before."""
    journal = MemoryJournal()
    journal.append(
        [started(f"wf-{number}", 1_000_000 + number * 1000, each) for number, each in enumerate(processes)]
    )
    return journal


def observer(journal: MemoryJournal, clock: FakeClock | None = None) -> Observer:
    return Observer(journal, clock=clock or FakeClock(now_ms=3_000_000), here=HERE)


def all_pages(found: Observer, query: RunQuery, *, limit: int) -> list[list[str]]:
    pages, cursor = [], None
    while True:
        page = found.find_runs(query, after=cursor, limit=limit)
        pages.append([each.run.run_id for each in page.runs])
        cursor = page.cursor
        if cursor is None:
            return pages


def test_a_run_whose_process_is_gone_is_listed_as_died_and_nothing_is_written() -> None:
    journal = journal_of([GONE, ALIVE, ELSEWHERE, None])

    page = observer(journal).find_runs()

    assert [(each.run.run_id, each.run.status) for each in page.runs] == [
        ("wf-3", Status.RUNNING),
        ("wf-2", Status.RUNNING),
        ("wf-1", Status.RUNNING),
        ("wf-0", Status.DIED),
    ]
    assert [run.status for run in journal.find_runs().runs] == [Status.RUNNING] * 4


def test_the_interval_ends_where_the_machine_was_started_again() -> None:
    [found] = observer(journal_of([GONE])).find_runs().runs

    assert (found.run.ended_at, found.run.ended_between) == (None, (1_000_000, 2_000_000))
    assert (found.run.duration_ms(9_000_000), found.run.duration_between) == (None, (0, 1_000_000))


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (Status.RUNNING, [["wf-7", "wf-4"], ["wf-1"]]),
        (Status.DIED, [["wf-8", "wf-6"], ["wf-5", "wf-3"], ["wf-2", "wf-0"]]),
    ],
)
def test_a_filter_by_status_pages_through_what_is_computed(status: Status, expected: list[list[str]]) -> None:
    found = observer(journal_of([GONE, ALIVE, GONE] * 3))

    assert all_pages(found, RunQuery(status=status), limit=2) == expected


def test_runs_that_died_by_an_event_and_by_observation_are_listed_together() -> None:
    journal = journal_of([GONE, GONE, ALIVE])
    [death] = [each.death for each in observer(journal).liveness(journal.find_runs().runs[1:2])]
    assert death is not None
    journal.append([death])

    assert [run.run_id for run in journal.find_runs(RunQuery(status=Status.DIED)).runs] == ["wf-1"]
    assert all_pages(observer(journal), RunQuery(status=Status.DIED), limit=9) == [["wf-1", "wf-0"]]


def test_a_page_of_a_filter_that_matches_little_is_short_and_resumes() -> None:
    found = observer(journal_of([GONE, *[ALIVE] * 50]))

    pages = all_pages(found, RunQuery(status=Status.DIED), limit=2)

    assert [page for page in pages if page] == [["wf-0"]]


def test_the_first_observation_that_a_process_is_gone_is_remembered() -> None:
    clock, here = FakeClock(now_ms=3_000_000), Surroundings("m", "now", "pid:[1]", boot_at=None)
    journal = journal_of([GONE])
    found = Observer(journal, clock=clock, here=here)

    first = found.find_runs().runs[0].run.ended_between
    clock.advance(60)
    second = found.find_runs().runs[0].run.ended_between

    assert first == second == (1_000_000, 3_000_000)


def test_a_process_that_was_seen_alive_moves_the_lower_bound() -> None:
    clock = FakeClock(now_ms=3_000_000)
    with subprocess.Popen(["sleep", "60"]) as child:
        found = Observer(journal_of([process_of(child.pid)]), clock=clock)
        found.find_runs()
        child.kill()
    clock.advance(HOLDS_SECONDS)

    assert found.find_runs().runs[0].run.ended_between == (3_000_000, 3_001_000)


class BeatingJournal(MemoryJournal):
    """Knows heartbeats, and counts how often they are read."""

    def __init__(self, beats: Mapping[str, int]) -> None:
        super().__init__()
        self.beats = beats
        self.reads: list[Sequence[str]] = []

    def beat(self, process_id: str, at_ms: int) -> None: ...

    def heartbeats(self, process_ids: Sequence[str]) -> Mapping[str, int]:
        self.reads.append(process_ids)
        return {each: self.beats[each] for each in process_ids if each in self.beats}


def test_heartbeats_of_a_whole_page_are_read_once_and_become_conditions_or_bounds() -> None:
    journal = BeatingJournal({ELSEWHERE.id: 1_500_000, GONE.id: 1_600_000})
    journal.append([started("far", 1_000_000, ELSEWHERE), started("near", 1_001_000, GONE)])

    near, far = observer(journal).find_runs().runs

    assert [sorted(ids) for ids in journal.reads] == [sorted([ELSEWHERE.id, GONE.id])]
    assert far.run.status is Status.RUNNING
    assert [each.name for each in far.conditions] == ["no heartbeat"]
    assert near.run.ended_between == (1_600_000, 2_000_000)


def test_only_runs_with_no_process_elsewhere_can_be_judged() -> None:
    runs = journal_of([GONE, ALIVE, ELSEWHERE, None]).find_runs().runs

    assert [observer(MemoryJournal()).can_judge(run) for run in runs] == [False, False, True, True]


def wait(producer: str, number: int, **payload: object) -> Event:
    return Event(
        run_id="wf-0",
        event_id=f"{producer}-{number}",
        type="waiting_started" if payload.get("reason") else "process_joined",
        occurred_at=1_000_000 + number,
        payload=payload,
        call_id=f"w-{producer}",
        producer=producer,
        number=number,
    )


def test_a_process_that_is_gone_no_longer_waits() -> None:
    journal = journal_of([ALIVE])
    journal.append(
        [
            wait("p-wf-0", 2, reason="approval"),
            wait("q", 1, process=GONE.fields),
            wait("q", 2, reason="lock"),
        ]
    )

    [found] = observer(journal).find_runs().runs

    assert [each.reason for each in found.run.waiting] == ["approval"]


def test_a_run_that_died_waits_for_nothing() -> None:
    journal = journal_of([GONE])
    journal.append([wait("p-wf-0", 2, reason="approval")])

    [found] = observer(journal).find_runs().runs

    assert (found.run.status, found.run.waiting) == (Status.DIED, ())
