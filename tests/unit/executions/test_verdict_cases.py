"""The rows of the table of cases in docs/explanation/verdicts.md, played through source and poller."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from longwatch.clock import iso_from_ms
from longwatch.executions.model import Execution, Job, Mode, Stage
from longwatch.executions.poller import Poller
from longwatch.executions.sources.drs import DrsSource
from longwatch.executions.stores.memory import MemoryExecutionStore
from longwatch.testing import FakeClock, MemoryJournal
from tests.unit.executions.samples import MINUTE, START

PAGE = Path(__file__).parents[3] / "docs/explanation/verdicts.md"
POLLS = 12  # a minute apart: far beyond the grace


@dataclass(frozen=True, slots=True)
class Case:
    """One row of the table."""

    name: str
    mode: Mode
    jobs: tuple[str, ...]
    verdict: str
    mentions: tuple[str, ...]


def cases() -> list[Case]:
    table = PAGE.read_text().split("<!-- begin: cases -->")[1].split("<!-- end: cases -->")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.strip().splitlines()[2:]]
    return [
        Case(
            name,
            Mode(mode),
            tuple(re.findall("`([^`]*)`", jobs)),
            verdict.strip("`"),
            tuple(each.strip() for each in mentions.split(";") if each.strip()),
        )
        for name, mode, jobs, verdict, mentions in rows
    ]


@dataclass(slots=True)
class Drs:
    """A client of DRS that responds as a row defines."""

    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    logs: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def add(self, job_id: str, description: str, number: int) -> None:
        """`LAUNCH COMPLETED: s-1 FAILED, s-2 PENDING; log: LAUNCH_FAILED s-1, JOB_CANCEL`."""
        job, _, log = description.partition("; log: ")
        (kind, status), servers = job.split(":")[0].split(), job.partition(":")[2]
        self.jobs[job_id] = {
            "jobID": job_id,
            "type": kind,
            "status": status,
            "creationDateTime": iso_from_ms(START + number * MINUTE),
            "participatingServers": [_server(each) for each in servers.split(",") if each.strip()],
        }
        self.logs[job_id] = [
            {
                "event": event,
                "logDateTime": iso_from_ms(START + at),
                "eventData": {"sourceServerID": server[0]} if server else {},
            }
            for at, (event, *server) in enumerate(each.split() for each in log.split(",") if each.strip())
        ]

    def describe_jobs(self, filters: Mapping[str, Any]) -> dict[str, Any]:
        return {"items": [self.jobs[each] for each in filters["jobIDs"]]}

    def describe_job_log_items(self, jobID: str) -> dict[str, Any]:
        return {"items": self.logs[jobID]}


def _server(description: str) -> dict[str, Any]:
    server_id, word, *more = description.split()
    has_instance = word in ("LAUNCHED", "TERMINATED") and not more
    return {
        "sourceServerID": server_id,
        "launchStatus": word,
        **({"recoveryInstanceID": f"i-{server_id}"} if has_instance else {}),
    }


def played(case: Case, *, reverse: bool = False) -> Execution:
    """The execution after many polls. With `reverse`, its record names the latest job first."""
    clock, drs, store = FakeClock(START), Drs(), MemoryExecutionStore()
    for number, description in enumerate(case.jobs):
        drs.add(f"j-{number}", description, number)
    ids = sorted(drs.jobs, reverse=reverse)
    watched = Execution(
        execution_id="x-1",
        plan_id="p-1",
        started_at=START,
        mode=case.mode,
        stages=(Stage("one", tuple(Job(each) for each in ids)),),
        total_stages=1,
        deadline_ms=None,
    )
    store.add(watched)
    source = DrsSource(lambda region, account: drs, clock=clock)
    poller = Poller(store, MemoryJournal(clock=clock), {"drs": source}, clock=clock)
    for _ in range(POLLS):
        poller.poll("x-1")
        clock.advance(MINUTE / 1000)
    found = store.get("x-1")
    assert found is not None
    return found


@pytest.mark.parametrize("reverse", [False, True], ids=["in order", "latest first"])
@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_a_case_has_the_verdict_of_the_table(case: Case, reverse: bool) -> None:
    found = played(case, reverse=reverse)

    assert ("open" if found.is_open else found.status.value) == case.verdict
    text = "; ".join([found.verdict.message or "", *found.verdict.warnings]) if found.verdict else ""
    for part in case.mentions:
        assert part in text


def test_a_conversion_that_the_log_reported_once_is_remembered() -> None:
    case = Case(
        "two waves",
        Mode.DRILL,
        (
            "CREATE_CONVERTED_SNAPSHOT COMPLETED: s-1 PENDING; log: CONVERSION_END s-1",
            "LAUNCH STARTED: s-2 PENDING",
        ),
        "open",
        (),
    )

    found = played(case)

    (converted, _) = found.stages[0].jobs
    assert (converted.items[0].state.value, converted.items[0].source_status) == (
        "launched",
        "CONVERSION_END",
    )
