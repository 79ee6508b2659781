"""A run whose process is gone without a word gets its end written for it, once, by whoever follows it."""

from __future__ import annotations

import hashlib
from typing import Protocol

from longwatch.errors import LongwatchError, WorthAnotherTry
from longwatch.events import MAX_OCCURRED_AT, Event, Order
from longwatch.following.timers import Alarm, Sleeper, Timers
from longwatch.processes import Process

CHECK_SECONDS = 1.0
GRACE_SECONDS = 2.0  # in which whoever started the process may say how it ended
DEAD_CODE = "producer_dead"  # in the error code of the event


class Bereaved(Protocol):
    """Somebody who wants to know."""

    def bereaved(self) -> None: ...


class DeathWatch:
    """Looks once a second after the processes that are asked about, each once however many runs it has."""

    def __init__(self, timers: Timers[Sleeper]) -> None:
        self._timers = timers
        self._watchers: dict[Process, dict[Bereaved, None]] = {}
        self._watched: dict[Bereaved, Process] = {}
        self._alarm = Alarm(self._check)

    def watch(self, who: Bereaved, process: Process) -> None:
        """Tell when this process is gone, if it is one of this machine."""
        if self._watched.get(who) == process:
            return
        self.unwatch(who)
        if not process.is_here:
            return
        if not self._watchers:
            self._timers.schedule_in(self._alarm, 0.0)
        self._watched[who] = process
        self._watchers.setdefault(process, {})[who] = None

    def unwatch(self, who: Bereaved) -> None:
        """Do not tell any more."""
        process = self._watched.pop(who, None)
        if process is None:
            return
        watchers = self._watchers[process]
        del watchers[who]
        if not watchers:
            del self._watchers[process]
        if not self._watchers:
            self._timers.cancel(self._alarm)

    def _check(self) -> None:
        for process in [process for process in self._watchers if process.is_gone()]:
            for who in list(self._watchers[process]):
                self.unwatch(who)
                who.bereaved()
        if self._watchers:
            self._timers.schedule_in(self._alarm, CHECK_SECONDS)


class Death:
    """What is known of one such end."""

    grace_seconds = GRACE_SECONDS

    def __init__(self, run_id: str, process: Process) -> None:
        self.run_id = run_id
        self.process = process
        self.after: Order | None = None  # the last event that the run has
        self.look: int | None = None  # the number of the look that is waited for
        self.is_written = False

    @property
    def message(self) -> str:
        return f"process {self.process.pid} on {self.process.host} is gone and did not say how the run ended"

    def may_try_again(self, error: LongwatchError) -> bool:
        """Whether waiting may help to write it."""
        return isinstance(error, WorthAnotherTry)

    def event(self, ttl_seconds: int | None = None) -> Event:
        """The end that is written for the run.

        It is the same whoever writes it: id, time and content come from what all can see. Its time is just
        after the last sign of life, since nobody knows more.
        """
        at = 0 if self.after is None else min(self.after[0] + 1, MAX_OCCURRED_AT)
        named = f"{self.run_id}\0{self.process.host}\0{self.process.pid}\0{self.process.started}"
        return Event(
            run_id=self.run_id,
            event_id=f"dead-{hashlib.sha256(named.encode()).hexdigest()[:32]}",
            type="workflow_error",
            occurred_at=at,
            ttl=None if ttl_seconds is None else at // 1000 + ttl_seconds,
            payload={
                "status": "failed",
                "error_message": self.message,
                "error_code": DEAD_CODE,
                "written_for": True,
            },
        )
