"""Executions of every sort for the board: under way, overdue, ended well and badly, and a past of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from longwatch.executions.model import ItemState, Job, JobState, Mode, StepState, WorkItem
from longwatch.executions.stores.sqlite import SqliteExecutionStore
from longwatch.journal.sqlite import SqliteJournal
from tests.integration.server.execution_stories import (
    FAILED,
    GOING,
    LAUNCHED,
    PENDING,
    Watched,
    action,
    fresh,
    now_ms,
    wave_job,
)

PAST = 12
SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
DONE = JobState.FINISHED


def named(number: int, *servers: tuple[str, ItemState], state: JobState = JobState.STARTED) -> Job:
    """A job of the source whose servers have names."""
    return Job(
        f"job-{number}",
        state,
        tuple(
            WorkItem(
                f"s-{name}",
                each,
                source_status=each.value.upper(),
                instance_id=f"i-0{name}" if each is LAUNCHED else None,
                reason="InsufficientInstanceCapacity in eu-west-1b" if each is FAILED else None,
            )
            for name, each in servers
        ),
        source_status=state.value.upper(),
    )


class Board:
    """A file with executions, and those among them that a test continues."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._store = SqliteExecutionStore(path)
        self._journal = SqliteJournal(path)

    def close(self) -> None:
        self._store.close()
        self._journal.close()

    def watched(self, execution_id: str, *names: str, **more: object) -> Watched:
        return Watched(self._store, self._journal, fresh(execution_id, *names, **more))  # type: ignore[arg-type]

    def past(self) -> None:
        """Drills that are over, from which the usual duration is estimated."""
        for number in range(PAST):
            ago = (number + 1) * 24 * HOUR
            names = ("databases", "services", "front", "edge")
            drill = self.watched(f"x-past-{number:02}", *names, ago_ms=ago, name="weekly drill")
            at, every = drill.now.started_at, range(len(names))
            drill.receive(*(wave_job(wave, PENDING, PENDING) for wave in every), at=at + SECOND)
            drill.receive(*(wave_job(wave, GOING, PENDING) for wave in every), at=at + 50 * SECOND)
            drill.receive(
                *(wave_job(wave, LAUNCHED, GOING) for wave in every), at=at + (140 + number * 5) * SECOND
            )
            drill.receive(
                *(wave_job(wave, LAUNCHED, LAUNCHED, state=DONE) for wave in every),
                at=at + (19 * 60 + number * 17) * SECOND,
            )

    def running(self, execution_id: str = "x-running", ago_ms: int = 5 * MINUTE) -> Watched:
        """A drill of three waves: one is over, one is running, one has not begun."""
        names = ("databases", "services", "front")
        drill = self.watched(execution_id, *names, name="East coast drill", ago_ms=ago_ms, total_stages=4)
        at = drill.now.started_at
        dbs = [("db-orders", PENDING), ("db-users", PENDING), ("db-audit", PENDING)]
        drill.receive(named(0, *dbs), at=at + 5 * SECOND)
        going = [(name, GOING) for name, _ in dbs]
        drill.receive(named(0, *going), at=at + 50 * SECOND)
        done = [("db-orders", LAUNCHED), ("db-users", LAUNCHED), ("db-audit", FAILED)]
        services = [(f"svc-{name}", PENDING) for name in ("api", "mail", "search", "billing")]
        drill.receive(named(0, *done, state=DONE), named(1, *services), at=at + 150 * SECOND)
        later = [(name, GOING) for name, _ in services[:3]] + services[3:]
        drill.receive(named(0, *done, state=DONE), named(1, *later), at=at + 200 * SECOND)
        last = [(services[0][0], LAUNCHED), *later[1:]]
        front = [("web-1", PENDING), ("web-2", PENDING)]
        drill.receive(named(0, *done, state=DONE), named(1, *last), named(2, *front), at=at + 280 * SECOND)
        drill.change(lease_holder="ops-laptop-4711-9f", lease_until=now_ms() + 60_000)
        return drill

    def recovery(self, execution_id: str = "x-recovery") -> Watched:
        """A recovery whose servers are launched, with launch actions under way and one that failed."""
        found = self.watched(
            execution_id, "databases", mode=Mode.RECOVERY, ago_ms=9 * MINUTE, name="Recover Oslo"
        )
        at = found.now.started_at
        agent = action("install agent", StepState.SUCCEEDED)
        going = action("join domain", StepState.IN_PROGRESS)
        lost = action("join domain", StepState.FAILED, "AccessDenied: ssm:SendCommand")
        found.receive(wave_job(0, PENDING, PENDING), at=at + 3 * SECOND)
        found.receive(wave_job(0, GOING, GOING), at=at + 100 * SECOND)
        found.receive(
            wave_job(0, LAUNCHED, LAUNCHED, instance_id="i-0abc", steps=(going,)), at=at + 300 * SECOND
        )
        servers = (
            WorkItem("s-01", LAUNCHED, "i-0abc", (agent, lost), "LAUNCHED"),
            WorkItem("s-02", LAUNCHED, "i-0def", (agent, going), "LAUNCHED"),
        )
        found.receive(Job("job-0", JobState.STARTED, servers, source_status="STARTED"), at=at + 460 * SECOND)
        return found

    def partial(self, execution_id: str = "x-partial") -> Watched:
        """A drill that ended with one server lost."""
        found = self.watched(execution_id, "databases", "front", ago_ms=2 * HOUR, name="West coast drill")
        at = found.now.started_at
        found.receive(wave_job(0, PENDING, PENDING), wave_job(1, PENDING), at=at + SECOND)
        found.receive(wave_job(0, GOING, GOING), wave_job(1, GOING), at=at + 60 * SECOND)
        found.receive(
            named(0, ("db-a", LAUNCHED), ("db-b", FAILED), state=DONE), wave_job(1, GOING), at=at + 4 * MINUTE
        )
        gone = wave_job(0, LAUNCHED, LAUNCHED)
        jobs = replace(
            named(0, ("db-a", LAUNCHED), ("db-b", FAILED), state=DONE),
            items=(*named(0, ("db-a", LAUNCHED), ("db-b", FAILED)).items, *gone.items),
        )
        found.receive(jobs, wave_job(1, LAUNCHED, state=DONE), at=at + 6 * MINUTE)
        return found

    def warned(self, execution_id: str = "x-warned") -> Watched:
        """A drill that succeeded with warnings: a launch action failed, and a server was terminated."""
        found = self.watched(execution_id, ago_ms=3 * HOUR, name="South drill")
        at = found.now.started_at
        lost = action("join domain", StepState.FAILED, "AccessDenied: ssm:SendCommand")
        servers = (
            WorkItem("s-web", LAUNCHED, "i-0web", (lost,), "LAUNCHED"),
            WorkItem("s-db", ItemState.TERMINATED, "i-0db", (), "TERMINATED"),
        )
        found.receive(Job("job-0", DONE, servers, source_status="COMPLETED"), at=at + 4 * MINUTE)
        return found

    def overdue(self, execution_id: str = "x-overdue") -> Watched:
        """A job that is no longer polled."""
        found = self.watched(execution_id, ago_ms=50 * MINUTE, mode=Mode.JOB, source="codebuild")
        found.receive(wave_job(0, GOING), at=found.now.started_at + 20 * SECOND)
        return found

    def unreachable(self, execution_id: str = "x-unreachable") -> Watched:
        found = self.watched(execution_id, "one", "two", ago_ms=4 * MINUTE, total_stages=None)
        found.receive(wave_job(0, GOING, PENDING), at=found.now.started_at + 20 * SECOND)
        found.change(
            failures=4, last_error="DRS in eu-west-1 returned ThrottlingException", last_polled_at=now_ms()
        )
        return found

    def succeeded(self, execution_id: str = "x-build") -> Watched:
        found = self.watched(
            execution_id, ago_ms=30 * MINUTE, mode=Mode.JOB, source="codebuild", name="build 418"
        )
        found.receive(wave_job(0, GOING), at=found.now.started_at + 10 * SECOND)
        found.receive(wave_job(0, LAUNCHED, state=DONE), at=found.now.started_at + 190 * SECOND)
        return found

    def everything(self) -> None:
        self.past()
        for make in (
            self.partial,
            self.succeeded,
            self.warned,
            self.overdue,
            self.recovery,
            self.running,
            self.unreachable,
        ):
            make()
