"""A store, a journal and a source with one execution, for tests of the poller."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from longwatch.executions.model import Execution, Job, Stage
from longwatch.executions.poller import Poller, PollReport
from longwatch.executions.stores.memory import MemoryExecutionStore
from longwatch.model.event import Event
from longwatch.model.run import Status
from longwatch.testing import FakeClock, FaultyJournal, MemoryJournal
from tests.unit.executions.samples import LAUNCHED, PENDING, execution, finished, job
from tests.unit.executions.scripted_source import ScriptedSource

DONE = finished(LAUNCHED)


class Interrupted(FaultyJournal):
    """A journal that runs another program's work once the end of an execution is reported."""

    after_append: Callable[[], None] | None = None

    def append(self, events: Sequence[Event]) -> None:
        super().append(events)
        if self.after_append is not None and events[-1].type == "execution_ended":
            self.after_append()


class PollerHarness:
    """A store, a journal and a source with one execution of one job."""

    def __init__(self, **more: Any) -> None:
        self.clock = FakeClock()
        self.store = MemoryExecutionStore()
        self.journal = Interrupted(MemoryJournal(clock=self.clock))
        self.source = ScriptedSource(self.clock, job(PENDING))
        self.polls: list[PollReport] = []
        more.setdefault("started_at", self.clock.now_ms())
        self.store.add(execution(Stage("one", (Job("j-1"),)), **more))

    def poller(self, holder: str = "a", **more: Any) -> Poller:
        return Poller(
            self.store,
            self.journal,
            {"drs": self.source},
            clock=self.clock,
            holder=holder,
            report=self.polls.append,
            **more,
        )

    @property
    def record(self) -> Execution:
        found = self.store.get("x-1")
        assert found is not None
        return found

    def write(self, **attributes: object) -> None:
        """As another program does: it knows nothing of versions."""
        self.store.write({**(self.record.stored or {}), **attributes})

    @property
    def status(self) -> Status | None:
        run = self.journal.find_run("p-1/x-1")
        return run.status if run else None
