"""Rules, runs and a channel for tests of notifiers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from longwatch.executions.stores.base import ExecutionStore
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
from longwatch.notifications.stores.base import NotificationStore
from longwatch.notifications.stores.memory import MemoryNotificationStore
from longwatch.settings import Settings
from longwatch.testing import FakeClock, MemoryJournal

FAILED_RULE = Rule(name="failures", triggers=(Trigger.FAILED, Trigger.DIED), channel="inbox")
SETTINGS = Settings(journal="memory://", page_url="http://127.0.0.1:8321/")


@dataclass(slots=True)
class Inbox:
    """A channel that keeps what it gets; the next sends raise the errors in `refusals`."""

    messages: list[Message] = field(default_factory=list)
    refusals: list[DeliveryError] = field(default_factory=list)
    attempts: int = 0

    def send(self, message: Message) -> DeliveryReceipt:
        self.attempts += 1
        if self.refusals:
            raise self.refusals.pop(0)
        self.messages.append(message)
        return DeliveryReceipt("HTTP 204")

    @property
    def titles(self) -> list[str]:
        return [each.title for each in self.messages]

    @property
    def kind(self) -> ChannelKind:
        def check(options: Options) -> None:
            """Any options."""

        def open_inbox(options: Options, context: ChannelContext) -> Channel:
            return self

        return ChannelKind(name="inbox", check=check, open=open_inbox)


@dataclass(slots=True)
class World:
    """A journal, a store, an inbox and a clock, for any number of notifiers."""

    clock: FakeClock = field(default_factory=FakeClock)
    inbox: Inbox = field(default_factory=Inbox)
    store: NotificationStore = field(default_factory=MemoryNotificationStore)
    journal: Journal = field(init=False)
    executions: ExecutionStore | None = None
    settings: Settings = SETTINGS
    _events: int = 0

    def __post_init__(self) -> None:
        self.journal = MemoryJournal(clock=self.clock)

    def notifier(self, *rules: Rule, **further: Any) -> Notifier:
        return Notifier(
            rules or (FAILED_RULE,),
            self.journal,
            self.store,
            kinds={"inbox": self.inbox.kind},
            context=ChannelContext(settings=self.settings, clock=self.clock),
            executions=self.executions,
            clock=self.clock,
            **further,
        )

    def record(self, run_id: str, type_: str, **fields: Any) -> Event:
        """Append an event that happens now."""
        self._events += 1
        values: dict[str, Any] = {"occurred_at": self.clock.now_ms(), **fields}
        event = Event(run_id=run_id, event_id=f"e-{self._events:06d}", type=type_, **values)
        self.journal.append([event])
        return event

    def start(self, run_id: str, name: str = "import", **fields: Any) -> None:
        self.record(run_id, "workflow_start", payload={"name": name, **fields})

    def fail(self, run_id: str, error: str = "FeedTimeout: no response") -> None:
        self.record(run_id, "workflow_error", payload={"error_message": error})

    def failed_run(self, run_id: str, name: str = "import") -> None:
        self.start(run_id, name)
        self.fail(run_id)

    def events(self, run_id: str, type_: str = "notified") -> list[Event]:
        return [each for each in self.journal.read(run_id).events if each.type == type_]


def rule(*triggers: Trigger, **changes: Any) -> Rule:
    return replace(FAILED_RULE, triggers=triggers, **changes)


def passes(notifiers: Iterable[Notifier], clock: FakeClock, *, seconds: float, every: float = 15.0) -> None:
    """Make passes of all of them for so long."""
    until = clock.monotonic() + seconds
    while clock.monotonic() < until:
        clock.advance(every)
        for each in notifiers:
            each.run_once()
