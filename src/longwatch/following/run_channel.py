"""One run, followed once for everybody in the process who follows it.

The channel does not read. Its source brings pages of what is new, and answers when it is asked for a look.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from longwatch.errors import LongwatchError, WorthAnotherTry
from longwatch.following.drain import Drain, DrainLimits
from longwatch.following.inbox import Inbox
from longwatch.following.items import Ended, Reason
from longwatch.following.process_watch import GRACE_SECONDS, ProcessWatch
from longwatch.following.progress import RunProgress
from longwatch.following.timers import Sleeper, Timers
from longwatch.model.attempts import NO_FACTS
from longwatch.model.endings import is_activity
from longwatch.model.event import START, Cursor, Order, Page
from longwatch.model.liveness import Liveness, Observation
from longwatch.model.process import Presence, ProcessIdentity
from longwatch.model.run import Status
from longwatch.polling.backoff import JOURNAL_BACKOFF

RECHECK_SECONDS = 5.0  # while events of a run whose processes are gone wait in an outbox


@dataclass(frozen=True, slots=True)
class LookState:
    """How looking stands, to be shown."""

    failures: int = 0  # in a row
    error: str | None = None  # of the last look, if it failed
    next_look: float | None = None  # time of the loop; None: when something is appended


class EventSource(Protocol):
    """Brings what is new."""

    is_global: bool  # it reads for all runs at once, and begins where the journal ended when it was opened

    @property
    def is_ready(self) -> bool:
        """Whether a channel that is added now gets everything that arrives later."""

    async def open(self) -> None:
        """Become ready."""

    def add(self, channel: RunChannel) -> None:
        """Bring what arrives for this channel."""

    def start(self, channel: RunChannel, cursor: Cursor) -> bool:
        """A first follower has read up to here. True if the channel goes on from that very cursor."""

    def look(self, channel: RunChannel) -> None:
        """Look thoroughly as soon as possible, and tell the channel that it has been done."""

    def leave(self, channel: RunChannel) -> None:
        """Nobody follows this run any more."""

    def rest(self) -> None:
        """Nobody follows anything any more."""

    def looks(self, channel: RunChannel) -> LookState:
        """How looking for this channel stands."""


class Room(Protocol):
    """What a channel needs of its hub."""

    timers: Timers[Sleeper]
    processes: ProcessWatch
    limits: DrainLimits

    def now(self) -> float: ...

    def recollect(self, channel: RunChannel) -> None:
        """Read the run from its beginning, to know what its followers did not tell."""

    def conclude(self, death: Death, done: Callable[[Liveness | LongwatchError], None]) -> None:
        """Judge a run whose processes are gone, and append its ending if it died."""

    def closed(self, channel: RunChannel) -> None: ...


class Death:
    """A run whose processes are gone, on the way to its ending."""

    __slots__ = (
        "active_at",
        "is_written",
        "last",
        "lifecycle",
        "look",
        "observations",
        "processes",
        "run_id",
    )

    def __init__(self, run_id: str, processes: frozenset[ProcessIdentity]) -> None:
        self.run_id = run_id
        self.processes = processes
        self.observations: Mapping[str, Observation] = {}
        self.lifecycle = NO_FACTS
        self.last: Order | None = None
        self.active_at: int | None = None
        self.look: int | None = None  # the number of the look that is waited for
        self.is_written = False


class RunChannel:
    """The seats of a run, what is known of it, and how it comes to its end."""

    __slots__ = (
        "_death",
        "_room",
        "_source",
        "_writing",
        "answered",
        "asked",
        "asked_at",
        "drain",
        "ended",
        "is_closed",
        "is_running",
        "known",
        "run_id",
        "seats",
    )

    def __init__(self, run_id: str, source: EventSource, room: Room) -> None:
        self.run_id = run_id
        self.known = RunProgress()
        self.seats: dict[Inbox, None] = {}
        self.is_running = False  # somebody has settled, and the source brings what is new
        self.is_closed = False
        self.drain: Drain | None = None
        self.asked = 0  # looks that were asked for, counted
        self.answered = 0  # the last of them that has been done
        self.asked_at = 0.0
        self.ended: Ended | None = None
        self._source = source
        self._room = room
        self._death: Death | None = None
        self._writing = JOURNAL_BACKOFF

    @property
    def is_draining(self) -> bool:
        return self.drain is not None

    @property
    def must_be_caught_up_with(self) -> bool:
        """Whether a follower that was added has to read to the end once more before it settles."""
        return self.is_running or self._source.is_global

    @property
    def looks(self) -> LookState:
        return self._source.looks(self)

    def add(self, seat: Inbox) -> None:
        """Let pages gather for a follower that is about to settle."""
        seat.sit_down()
        self.seats[seat] = None

    def settle(self, seat: Inbox, cursor: Cursor, known: RunProgress) -> None:
        """This follower has read everything up to here by itself, and now shares what the channel gets."""
        self.known.merge(known)
        if self.is_closed:  # it came to its end while the follower read
            seat.settle(cursor)
            seat.ended = self.ended
            return
        if seat.dropped:  # too much came meanwhile: the follower reads on by itself
            self.leave(seat)
            return
        is_first, self.is_running = not self.is_running, True
        if is_first and self._source.start(self, cursor):
            seat.settle(None)
        else:
            seat.settle(cursor)
            seat.asked = self.ask()
        if not self.known.whole:
            self._room.recollect(self)
        self.reconsider()

    def leave(self, seat: Inbox) -> None:
        """This follower does not want any more. With the last one, the channel closes."""
        if seat in self.seats:
            del self.seats[seat]
            if not self.seats:
                self.close()

    def close(self) -> None:
        """Nothing of this run is wanted any more; answers that are still under way are dropped."""
        if self.is_closed:
            return
        self.is_closed = True
        self._source.leave(self)
        self._room.processes.unwatch(self)
        self._room.timers.cancel(self)
        self._room.closed(self)

    def ask(self) -> int:
        """Ask for a thorough look; returns its number."""
        self.asked += 1
        self.asked_at = self._room.now()
        self._source.look(self)
        return self.asked

    def took(self, page: Page) -> None:
        """The source found something new."""
        self.known.add(page.events)
        for seat in list(self.seats):
            if not seat.feed(page) and seat.is_settled:
                self.leave(seat)
        self._share(page, self.answered)
        if self.drain is not None and any(is_activity(event) for event in page.events):
            self.drain = self.drain.with_news(self._room.now())
        if not self.is_closed:
            self.reconsider()

    def looked(self, number: int, began: float, page: Page) -> None:
        """A thorough look has been done, which began after everything up to this number was asked for.

        `page` is the last one that it brought.
        """
        self.answered = max(self.answered, number)
        self._share(page, number)
        if self.drain is not None:
            if self.drain.is_over(began, complete=self.known.is_complete):
                self._finish_drained(None)
            else:
                self._room.timers.schedule(self, self.drain.due)
        elif self._death is not None and self._death.look is not None and self._death.look <= number:
            self._after_last_look(self._death)

    def failed(self, error: LongwatchError) -> None:
        """The source can not look, and trying again would not help."""
        self.finish(Reason.UNUSABLE, str(error))

    def finish(self, reason: Reason, message: str | None, status: Status | None = None) -> None:
        """Tell every follower that this was all, once it has taken what waits for it."""
        self.ended = Ended(reason, status or self.known.status, message, START)
        for seat in self.seats:
            seat.ended = self.ended
            seat.wake()
        self.close()

    def recollected(self, known: RunProgress) -> None:
        """What the run's history says."""
        if not self.is_closed:
            self.known.merge(known)
            self.reconsider()

    def process_gone(self) -> None:
        """A process of the run is gone. If all are, its parent gets a moment to report how it ended."""
        if self.is_closed or self.known.ending is not None or self._death is not None:
            return
        processes = self._processes()
        found = self._room.processes.observations(processes)
        if processes and all(each.presence is Presence.GONE for each in found.values()):
            self._death = Death(self.run_id, processes)
            self._room.timers.schedule(self, self._room.now() + GRACE_SECONDS)

    def _processes(self) -> frozenset[ProcessIdentity]:
        return frozenset(each.process for each in self.known.lifecycle.current.members)

    def reconsider(self) -> None:
        """See whether what is known now asks for something to be done."""
        if self.known.ending is not None:
            if self.drain is None:
                self._room.processes.unwatch(self)
                self.drain = Drain.begin(self._room.now(), self._room.limits)
                self.ask()
                self._room.timers.schedule(self, self.drain.due)
            elif self.drain.is_over(self._room.now(), complete=self.known.is_complete):
                self.ask()  # nothing is missing any more: one thorough look, and that is all
            else:
                self._room.timers.schedule(self, self.drain.due)
            return
        if self.drain is not None:  # a process joined the run, or a new attempt began: it has not ended
            self.drain = None
            self._room.timers.cancel(self)
        processes = self._processes()
        if self._death is not None and self._death.processes != processes:
            self._death = None
            self._room.timers.cancel(self)
        if self._death is None and processes:
            self._room.processes.watch(self, processes)
            self.process_gone()

    def _share(self, page: Page, number: int) -> None:
        """Let go of cursors of their own, of followers who have seen nothing that has not come here too.

        A look is not enough: somebody who reads a run from further back may have seen what was shipped late
        before it is announced, and the channel still has that to come.
        """
        for seat in self.seats:
            own = seat.own
            if own is not None and seat.is_settled and seat.asked <= number and page.covers(own):
                seat.own = None

    def wake(self) -> None:
        """Something is due."""
        now = self._room.now()
        if self.is_closed:
            return
        if self.drain is not None:
            if self.drain.is_hopeless(now):
                self._finish_drained("the journal did not answer while stragglers were waited for")
                return
            if self.asked == self.answered:
                self.ask()
            self._room.timers.schedule(self, now + 1.0)
        elif self._death is not None:
            self._death.look = self.ask()

    def _finish_drained(self, trouble: str | None) -> None:
        ending = self.known.ending
        has_died = ending is not None and ending.status is Status.DIED
        message = trouble or (ending.error if ending is not None else None)
        self.finish(Reason.DIED if has_died else Reason.ENDED, message)

    def _after_last_look(self, death: Death) -> None:
        """The processes are gone, and the last look at what they left behind found no ending."""
        if death.is_written:
            self.finish(Reason.DIED, None, Status.DIED)  # it is there, and we are not shown it
            return
        death.look = None
        death.last, death.active_at = self.known.last, self.known.active_at
        death.lifecycle = self.known.lifecycle
        death.observations = self._room.processes.observations(death.processes)
        self._room.conclude(death, self._concluded)

    def _concluded(self, found: Liveness | LongwatchError) -> None:
        death = self._death
        if self.is_closed or death is None or self.known.ending is not None:
            return
        if isinstance(found, Liveness):
            if found.death is not None:
                death.is_written = True
                death.look = self.ask()
            else:  # its outbox holds events that may still say how it ended
                self._room.timers.schedule(self, self._room.now() + RECHECK_SECONDS)
        elif isinstance(found, WorthAnotherTry):
            self._writing = self._writing.failed()
            self._room.timers.schedule(self, self._room.now() + (self._writing.delay or 0.0))
        else:
            self.finish(Reason.DIED, f"the ending of the run can not be stored: {found}", Status.DIED)
