"""The world of one seed: a journal, a store, a receiver and a clock, with faults at every call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar, cast

from longwatch.errors import JournalBusy
from longwatch.journal.base import Journal
from longwatch.model.event import Event
from longwatch.notifications.channels.base import (
    Channel,
    ChannelContext,
    ChannelKind,
    DeliveryError,
    DeliveryReceipt,
    Options,
)
from longwatch.notifications.message import Message
from longwatch.notifications.notifier import Notifier
from longwatch.notifications.rules import Rule, Trigger
from longwatch.notifications.stores.base import NotificationStore, Record, RecordChange
from longwatch.notifications.stores.memory import MemoryNotificationStore
from longwatch.settings import Settings
from longwatch.testing import FakeClock, MemoryJournal
from longwatch.testing.faults import intercepted
from longwatch.testing.simulation.world import Trace

T = TypeVar("T")

CHANGES = frozenset({"send", "commit", "append"})  # rarer than reads, and more dangerous
WAIT_MS = 10 * 60_000
RULES = (
    Rule(name="ends", triggers=(Trigger.ENDED, Trigger.FAILED, Trigger.CORRECTED), channel="inbox"),
    Rule(name="waits", triggers=(Trigger.WAITING,), after_ms=WAIT_MS, channel="inbox"),
)


class Killed(BaseException):
    """The notifier's process was killed at this point."""


@dataclass(frozen=True, slots=True)
class Rates:
    """How often a call of a notifier goes wrong."""

    killed: float = 0.0  # before or after it
    unavailable: float = 0.0  # the store or the journal, before the call or after it
    refused: float = 0.0  # by the receiver
    interleaved: float = 0.0  # another notifier makes a pass in the middle


@dataclass
class World:
    """Everything that outlives a notifier."""

    random: Random
    rates: Rates
    keep: bool = False
    clock: FakeClock = field(default_factory=FakeClock)
    accepted: list[tuple[int, Message]] = field(default_factory=list)  # when, and what
    excused: Counter[str] = field(default_factory=Counter)  # repetitions that the guarantee permits
    faults: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.journal = MemoryJournal(clock=self.clock)
        self.store = MemoryNotificationStore()
        self.trace = Trace(self.clock.monotonic, keep=self.keep)
        self.others: Callable[[str], None] = lambda name: None
        self._events = 0
        self._is_interleaved = False

    def record(self, run_id: str, type_: str, **payload: Any) -> None:
        """Append an event that happens now."""
        self._events += 1
        call_id = payload.pop("call_id", None)
        event = Event(
            run_id=run_id,
            event_id=f"e-{self._events:05d}",
            type=type_,
            occurred_at=self.clock.now_ms(),
            payload=payload,
            call_id=call_id,
        )
        self.journal.append([event])
        self.trace.mark("producer", f"{type_} of {run_id}")

    def draws(self, rate: float) -> bool:
        return rate > 0 and self.random.random() < rate

    def call(self, who: str, what: str, step: Callable[[], T]) -> T:
        """A call of a notifier, which may be killed or interrupted at it."""
        self._interleave(who, what)
        before = self.random.random() < 0.5
        if self.draws(self.rates.killed * (5 if what in CHANGES else 1)):
            self._fault(who, f"killed {'before' if before else 'after'} {what}")
            if not before:
                step()
            raise Killed
        if what != "send" and self.draws(self.rates.unavailable):
            self._fault(who, f"{what} {'failed' if before else 'was done, and its response lost'}")
            if not before:
                step()
            raise JournalBusy("locked by another process")
        return step()

    def _interleave(self, who: str, what: str) -> None:
        rate = self.rates.interleaved * (10 if what in CHANGES else 1)
        if self._is_interleaved or not self.draws(rate):
            return
        self._is_interleaved = True
        self.clock.advance(self.random.choice([0, 1, 30]))
        self.others(who)
        self._is_interleaved = False

    def _fault(self, who: str, what: str) -> None:
        self.faults[what] += 1
        self.trace.mark(who, what)

    def notifier(self, name: str) -> Notifier:
        """A new process."""
        inbox = Inbox(self, name)

        def open_inbox(options: Options, context: ChannelContext) -> Channel:
            return inbox

        kind = ChannelKind(name="inbox", check=lambda options: None, open=open_inbox)
        settings = Settings(journal="memory://")
        return Notifier(
            RULES,
            intercepted(cast(Journal, self.journal), lambda what, step: self.call(name, what, step)),
            FaultyStore(self, name, inbox),
            kinds={"inbox": kind},
            context=ChannelContext(settings=settings, clock=self.clock),
            clock=self.clock,
            holder=f"{name}-{self.random.randrange(10**9)}",
        )


class Inbox:
    """A channel whose receiver remembers everything, and may refuse it."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self._name = name
        self.unsettled: str | None = None  # accepted, and the store does not know it yet

    def send(self, message: Message) -> DeliveryReceipt:
        world = self._world
        world.clock.advance(world.random.choice([0.0, 0.1, 20.0]))
        if world.draws(world.rates.refused):
            world._fault(self._name, "refused by the receiver")
            raise DeliveryError("HTTP 503", is_retryable=True)

        def accept() -> None:
            world.accepted.append((world.clock.now_ms(), message))
            world.trace.mark(self._name, f"delivered {message.delivery_id}: {message.title}")
            self.unsettled = message.delivery_id

        try:
            world.call(self._name, "send", accept)
        except Killed:
            self.excuse()
            raise
        return DeliveryReceipt("HTTP 204")

    def excuse(self) -> None:
        """The process was killed, or lost the store, before that was stored: it may be sent again."""
        if self.unsettled is not None:
            self._world.excused[self.unsettled] += 1
            self.unsettled = None


class FaultyStore:
    """The store as one notifier sees it."""

    def __init__(self, world: World, name: str, inbox: Inbox) -> None:
        self._world = world
        self._name = name
        self._inbox = inbox
        self._store: NotificationStore = world.store

    def get(self, key: str) -> Record | None:
        return self._world.call(self._name, "get", lambda: self._store.get(key))

    def list(self, prefix: str, *, limit: int, after: str = "", newest: bool = False) -> Sequence[Record]:
        def read() -> Sequence[Record]:
            return self._store.list(prefix, limit=limit, after=after, newest=newest)

        return self._world.call(self._name, "list", read)

    def commit(self, changes: Sequence[RecordChange]) -> bool:
        def store() -> bool:
            self._inbox.unsettled = (
                None  # it is stored now, or another notifier had it although it was leased
            )
            return self._store.commit(changes)

        try:
            return self._world.call(self._name, "commit", store)
        except (Killed, JournalBusy):
            self._inbox.excuse()  # unless it was stored
            raise

    def close(self) -> None:
        """The records stay."""
