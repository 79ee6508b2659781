"""One run's channel: it distributes the run's new events to all its followers in the process.

The channel does not read. Its event source polls the journal for it and hands over pages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from longwatch.errors import LongwatchError, RunDeleted, WorthAnotherTry
from longwatch.following.drain import Drain
from longwatch.following.inbox import Inbox
from longwatch.following.items import Ended, Reason
from longwatch.following.process_watch import GRACE_SECONDS
from longwatch.following.progress import RunProgress
from longwatch.journal.deletions import tombstone_from
from longwatch.model.attempts import NO_FACTS
from longwatch.model.endings import is_activity
from longwatch.model.event import RUN_DELETED, START, Cursor, Order, Page
from longwatch.model.liveness import Liveness, Observation
from longwatch.model.process import Presence, ProcessIdentity
from longwatch.model.run import Status
from longwatch.polling.backoff import JOURNAL_BACKOFF

if TYPE_CHECKING:
    from longwatch.following.hub import Hub

RECHECK_SECONDS = 5.0  # while an outbox still has events of a run whose processes have exited

NO_PROCESSES: frozenset[ProcessIdentity] = frozenset()  # shared: each empty one takes 216 bytes


@dataclass(frozen=True, slots=True)
class PollState:
    """How polling stands, for people."""

    failures: int = 0  # in a row
    error: str | None = None  # of the last poll, if it failed
    next_poll: float | None = None  # time of the loop; None: when something is appended


class EventSource(Protocol):
    """Polls the journal, and hands new events to the channels of their runs."""

    is_global: bool  # one read serves all runs, from the end of the journal when the source was opened

    @property
    def is_ready(self) -> bool:
        """Whether a channel that is added now gets everything that arrives later."""

    async def open(self) -> None:
        """Become ready."""

    def add(self, channel: RunChannel) -> None:
        """Hand over what arrives for this channel."""

    def start(self, channel: RunChannel, cursor: Cursor) -> bool:
        """The first follower has read up to here. True if the source polls from this very cursor."""

    def request_poll(self, channel: RunChannel) -> None:
        """Poll thoroughly as soon as possible, and then call the channel's `complete_poll`."""

    def remove(self, channel: RunChannel) -> None:
        """The run has no followers any more."""

    def release(self) -> None:
        """Close the subscription to the journal if there are no channels."""

    def poll_state(self, channel: RunChannel) -> PollState:
        """How polling for this channel stands."""


class Death:
    """A run whose processes have exited, on the way to its ending."""

    __slots__ = (
        "active_at",
        "is_written",
        "last",
        "lifecycle",
        "observations",
        "poll",
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
        self.poll: int | None = None  # the number of the poll that is waited for
        self.is_written = False


class RunChannel:
    """The inboxes of a run, its progress, and how it comes to its end."""

    __slots__ = (
        "_death",
        "_hub",
        "_source",
        "_watched",
        "_writing",
        "completed",
        "drain",
        "ended",
        "inboxes",
        "is_closed",
        "is_running",
        "progress",
        "requested",
        "requested_at",
        "run_id",
    )

    def __init__(self, run_id: str, source: EventSource, hub: Hub) -> None:
        self.run_id = run_id
        self.progress = RunProgress()
        self.inboxes: dict[Inbox, None] = {}
        self.is_running = False  # a follower has settled, and the source polls
        self.is_closed = False
        self.drain: Drain | None = None
        self.requested = 0  # number of the last poll that was requested
        self.completed = 0  # number of the last one that is done
        self.requested_at = 0.0
        self.ended: Ended | None = None
        self._source = source
        self._hub = hub
        self._death: Death | None = None
        self._watched = NO_PROCESSES
        self._writing = JOURNAL_BACKOFF

    @property
    def is_draining(self) -> bool:
        return self.drain is not None

    @property
    def must_be_caught_up_with(self) -> bool:
        """Whether a follower that was added must read to the end once more before it settles."""
        return self.is_running or self._source.is_global

    @property
    def poll_state(self) -> PollState:
        return self._source.poll_state(self)

    def add(self, inbox: Inbox) -> None:
        """Let pages accumulate for a follower that is about to settle."""
        inbox.reset()
        self.inboxes[inbox] = None

    def settle(self, inbox: Inbox, cursor: Cursor, progress: RunProgress) -> None:
        """A follower has read everything up to here by itself, and now shares the channel's pages."""
        self.progress.merge(progress)
        if self.is_closed:  # it came to its end while the follower read
            inbox.settle(cursor)
            inbox.ended = self.ended
            return
        if inbox.dropped:  # too many events came meanwhile: the follower continues to read by itself
            self.leave(inbox)
            return
        is_first, self.is_running = not self.is_running, True
        if is_first and self._source.start(self, cursor):
            inbox.settle(None)
        else:
            inbox.settle(cursor)
            inbox.requested = self.request_poll()
        if not self.progress.whole:
            self._hub.backfill(self)
        self.reconsider()

    def leave(self, inbox: Inbox) -> None:
        """Remove a follower. With the last one, the channel closes."""
        if inbox in self.inboxes:
            del self.inboxes[inbox]
            if not self.inboxes:
                self.close()

    def close(self) -> None:
        """Stop following the run. Results of polls that are under way are dropped."""
        if self.is_closed:
            return
        self.is_closed = True
        self._source.remove(self)
        self._hub.processes.unwatch(self)
        self._hub.timers.cancel(self)
        self._hub.forget(self)

    def request_poll(self) -> int:
        """Request a thorough poll; returns its number."""
        self.requested += 1
        self.requested_at = self._hub.now()
        self._source.request_poll(self)
        return self.requested

    def receive(self, page: Page) -> None:
        """Distribute new events, or end with the arrival that reports the deletion of the run."""
        deleted = next((event for event in page.events if event.type == RUN_DELETED), None)
        if deleted is not None:
            self.failed(tombstone_from(deleted).error)
            return
        self.progress.add(page.events)
        for inbox in list(self.inboxes):
            if not inbox.put(page) and inbox.is_settled:
                self.leave(inbox)
        self._share(page, self.completed)
        if self.drain is not None and any(is_activity(event) for event in page.events):
            self.drain = self.drain.with_news(self._hub.now())
        if not self.is_closed:
            self.reconsider()

    def complete_poll(self, number: int, began: float, page: Page) -> None:
        """A thorough poll is done that began after this number was requested. `page` is its last page."""
        self.completed = max(self.completed, number)
        self._share(page, number)
        if self.drain is not None:
            if self.drain.is_over(began, complete=self.progress.is_complete):
                self._finish_drained(None)
            else:
                self._hub.timers.schedule(self, self.drain.due)
        elif self._death is not None and self._death.poll is not None and self._death.poll <= number:
            self._after_last_poll(self._death)

    def failed(self, error: LongwatchError) -> None:
        """The source cannot poll, and a retry would not help."""
        self.finish(Reason.DELETED if isinstance(error, RunDeleted) else Reason.UNUSABLE, str(error))

    def finish(self, reason: Reason, message: str | None, status: Status | None = None) -> None:
        """End every follower, once it has consumed its inbox."""
        self.ended = Ended(reason, status or self.progress.status, message, START)
        for inbox in self.inboxes:
            inbox.ended = self.ended
            inbox.wake()
        self.close()

    def merge_history(self, progress: RunProgress) -> None:
        """Add the progress of the run's whole history."""
        if not self.is_closed:
            self.progress.merge(progress)
            self.reconsider()

    def on_process_exit(self) -> None:
        """A process of the run exited. If all have, its parent gets a moment to report how it ended."""
        if self.is_closed or self.progress.ending is not None or self._death is not None:
            return
        processes = self._processes()
        found = self._hub.processes.observations(processes)
        if processes and all(each.presence is Presence.GONE for each in found.values()):
            self._death = Death(self.run_id, processes)
            self._hub.timers.schedule(self, self._hub.now() + GRACE_SECONDS)

    def _processes(self) -> frozenset[ProcessIdentity]:
        return frozenset(each.process for each in self.progress.lifecycle.current.members)

    def reconsider(self) -> None:
        """Act on the run's progress: drain after its end, watch its processes until then."""
        if self.progress.ending is not None:
            if self.drain is None:
                self._hub.processes.unwatch(self)
                self._watched = NO_PROCESSES
                self.drain = Drain.begin(self._hub.now(), self._hub.limits)
                self.request_poll()
                self._hub.timers.schedule(self, self.drain.due)
            elif self.drain.is_over(self._hub.now(), complete=self.progress.is_complete):
                self.request_poll()  # nothing is missing any more: one thorough poll is the last
            else:
                self._hub.timers.schedule(self, self.drain.due)
            return
        if self.drain is not None:  # a process joined the run, or a new attempt began: it has not ended
            self.drain = None
            self._hub.timers.cancel(self)
        processes = self._processes()
        if self._death is not None and self._death.processes != processes:
            self._death = None
            self._hub.timers.cancel(self)
        if self._death is None and processes != self._watched:
            self._watched = processes
            if processes:
                self._hub.processes.watch(self, processes)
                self.on_process_exit()

    def _share(self, page: Page, number: int) -> None:
        """Drop the own cursors of followers that have seen nothing that the channel has not seen too.

        A poll is not enough for that: a follower that reads a run from further back may have seen events that
        were shipped late before they are announced, and the channel has yet to receive them.
        """
        for inbox in self.inboxes:
            own = inbox.own_cursor
            if own is not None and inbox.is_settled and inbox.requested <= number and page.covers(own):
                inbox.own_cursor = None

    def wake(self) -> None:
        """Called by the timers: the next step of the drain or of the death is due."""
        now = self._hub.now()
        if self.is_closed:
            return
        if self.drain is not None:
            if self.drain.is_hopeless(now):
                self._finish_drained("the journal did not respond while late events were waited for")
                return
            if self.requested == self.completed:
                self.request_poll()
            self._hub.timers.schedule(self, now + 1.0)
        elif self._death is not None:
            self._death.poll = self.request_poll()

    def _finish_drained(self, trouble: str | None) -> None:
        ending = self.progress.ending
        has_died = ending is not None and ending.status is Status.DIED
        message = trouble or (ending.error if ending is not None else None)
        self.finish(Reason.DIED if has_died else Reason.ENDED, message)

    def _after_last_poll(self, death: Death) -> None:
        """The processes have exited, and the last poll for their events found no ending."""
        if death.is_written:
            self.finish(Reason.DIED, None, Status.DIED)  # it is stored, and the poll does not return it
            return
        death.poll = None
        death.last, death.active_at = self.progress.last, self.progress.active_at
        death.lifecycle = self.progress.lifecycle
        death.observations = self._hub.processes.observations(death.processes)
        self._hub.conclude(death, self._concluded)

    def _concluded(self, found: Liveness | LongwatchError) -> None:
        death = self._death
        if self.is_closed or death is None or self.progress.ending is not None:
            return
        if isinstance(found, Liveness):
            if found.death is not None:
                death.is_written = True
                death.poll = self.request_poll()
            else:  # its outbox has events that may still state how it ended
                self._hub.timers.schedule(self, self._hub.now() + RECHECK_SECONDS)
        elif isinstance(found, RunDeleted):
            self.failed(found)
        elif isinstance(found, WorthAnotherTry):
            self._writing = self._writing.failed()
            self._hub.timers.schedule(self, self._hub.now() + (self._writing.delay or 0.0))
        else:
            self.finish(Reason.DIED, f"the ending of the run cannot be stored: {found}", Status.DIED)
