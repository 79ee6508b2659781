"""Watches the processes of followed runs, each once, and reports when one of them exits.

A pidfd reports the end at once, so the time of death is exact to the millisecond. Where there is none, or
too many are held, `/proc` is checked once a second. Processes that cannot be judged from here are never
reported.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from longwatch.clock import Clock
from longwatch.following.timers import Alarm, Sleeper, Timers
from longwatch.model.liveness import UNSEEN, Observation
from longwatch.model.process import Presence, ProcessIdentity, has_ended, open_pidfd, this_surroundings

CHECK_SECONDS = 1.0
LATE_SECONDS = 1.5  # after a check: then the loop was held up, and a pidfd may have been readable for long
GRACE_SECONDS = 2.0  # in which whatever started the process may report how it ended
MOST_PIDFDS = 256  # descriptors are scarce: the usual limit of a process is 1,024

PresenceOf = Callable[[ProcessIdentity], Presence]


class ProcessWatcher(Protocol):
    """A subscriber: notified when one of its processes exits."""

    def on_process_exit(self) -> None: ...


@dataclass(slots=True)
class _WatchedProcess:
    """A process that is watched."""

    process: ProcessIdentity
    pidfd: int | None = None
    is_probed: bool = True  # False: no probe has shown yet whether it is alive
    alive_at: int | None = None  # epoch ms, when it was last seen alive
    gone_by: int | None = None  # epoch ms, when its exit was first seen
    watchers: dict[ProcessWatcher, None] = field(default_factory=dict)

    @property
    def observation(self) -> Observation:
        if self.gone_by is not None:
            before_boot = self.process.is_before_boot(this_surroundings())
            return Observation(Presence.GONE, self.alive_at, self.gone_by, is_before_boot=before_boot)
        return Observation(Presence.ALIVE if self.is_probed else Presence.UNKNOWN, self.alive_at)


def presence_here(process: ProcessIdentity) -> Presence:
    """Whether the process exists, as seen from this machine."""
    return process.presence()


class ProcessWatch:
    """The processes that the followers of one hub are interested in. Belongs to an event loop."""

    def __init__(
        self,
        timers: Timers[Sleeper],
        clock: Clock,
        *,
        presence: PresenceOf = presence_here,
        pidfds: bool = True,
    ) -> None:
        self._timers = timers
        self._clock = clock
        self._presence = presence
        self._free_pidfds = MOST_PIDFDS if pidfds else 0
        self._processes: dict[str, _WatchedProcess] = {}
        self._by_watcher: dict[ProcessWatcher, frozenset[str]] = {}
        self._alarm = Alarm(self._check)
        self._ticked_at: float | None = None  # when the loop was last on time; None: no alarm is set

    def watch(self, watcher: ProcessWatcher, processes: Iterable[ProcessIdentity]) -> None:
        """Notify when one of these processes exits, instead of any before."""
        wanted = {each.id: each for each in processes}
        if self._by_watcher.get(watcher) == wanted.keys():
            return
        before = self._by_watcher.pop(watcher, frozenset())
        for process_id, process in wanted.items():
            watched = self._processes.get(process_id) or self._begin(process)
            if watched is not None:
                watched.watchers[watcher] = None
        self._by_watcher[watcher] = frozenset(wanted)
        self._drop(watcher, before - wanted.keys())
        if any(each.gone_by is not None for each in map(self._processes.get, wanted) if each is not None):
            self._timers.schedule_in(Alarm(watcher.on_process_exit), 0.0)

    def unwatch(self, watcher: ProcessWatcher) -> None:
        """Stop notifying."""
        self._drop(watcher, self._by_watcher.pop(watcher, frozenset()))

    def observations(self, processes: Iterable[ProcessIdentity]) -> Mapping[str, Observation]:
        """The observations of these processes; one that is not watched cannot be judged."""
        found = {each.id: self._processes.get(each.id) for each in processes}
        return {key: UNSEEN if each is None else each.observation for key, each in found.items()}

    def close(self) -> None:
        """Release every descriptor."""
        for watcher in list(self._by_watcher):
            self.unwatch(watcher)

    @property
    def watched(self) -> int:
        """How many processes are watched."""
        return len(self._processes)

    def _begin(self, process: ProcessIdentity) -> _WatchedProcess | None:
        presence = self._presence(process)
        if presence is Presence.UNKNOWN and not process.is_judgeable(this_surroundings()):
            return None
        watched = self._processes[process.id] = _WatchedProcess(process)
        self._see(watched, presence)
        if presence is Presence.ALIVE:
            self._open_pidfd(watched)
        if self._ticked_at is None:
            self._ticked_at = self._clock.monotonic()
            self._timers.schedule_in(self._alarm, CHECK_SECONDS)
        return watched

    def _see(self, watched: _WatchedProcess, presence: Presence) -> None:
        now = self._clock.now_ms()
        watched.is_probed = presence is not Presence.UNKNOWN
        if presence is Presence.ALIVE:
            watched.alive_at = now
        elif presence is Presence.GONE:
            watched.gone_by = watched.process.gone_by(now, this_surroundings())

    def _open_pidfd(self, watched: _WatchedProcess) -> None:
        pidfd = open_pidfd(watched.process) if self._free_pidfds > 0 else None
        if pidfd is None:
            return
        try:
            asyncio.get_running_loop().add_reader(pidfd, self._ended, watched)
        except (NotImplementedError, RuntimeError):
            os.close(pidfd)
            return
        watched.pidfd = pidfd
        self._free_pidfds -= 1

    def _close_pidfd(self, watched: _WatchedProcess) -> None:
        if watched.pidfd is not None:
            asyncio.get_running_loop().remove_reader(watched.pidfd)
            os.close(watched.pidfd)
            watched.pidfd = None
            self._free_pidfds += 1

    def _ended(self, watched: _WatchedProcess) -> None:
        """The kernel reports the end of the process: the time is exact, unless this loop was held up."""
        self._close_pidfd(watched)
        watched.gone_by = self._clock.now_ms()
        if self._ticked_at is not None and self._clock.monotonic() - self._ticked_at < LATE_SECONDS:
            watched.alive_at = watched.gone_by
        self._notify(watched)

    def _check(self) -> None:
        """Probe the processes that no pidfd reports; the others are alive as long as none does."""
        self._ticked_at = self._clock.monotonic()
        for watched in [each for each in self._processes.values() if each.gone_by is None]:
            if watched.pidfd is not None:
                if not has_ended(watched.pidfd):  # else the loop is about to report it
                    watched.alive_at = self._clock.now_ms()
                continue
            self._see(watched, self._presence(watched.process))
            if watched.gone_by is not None:
                self._notify(watched)
        if any(each.gone_by is None for each in self._processes.values()):
            self._timers.schedule_in(self._alarm, CHECK_SECONDS)
        else:
            self._ticked_at = None

    def _notify(self, watched: _WatchedProcess) -> None:
        for watcher in list(watched.watchers):
            watcher.on_process_exit()

    def _drop(self, watcher: ProcessWatcher, process_ids: Iterable[str]) -> None:
        for process_id in process_ids:
            watched = self._processes.get(process_id)
            if watched is None:
                continue
            watched.watchers.pop(watcher, None)
            if not watched.watchers:
                self._close_pidfd(watched)
                del self._processes[process_id]
        if not self._processes:
            self._timers.cancel(self._alarm)
            self._ticked_at = None
