"""The protocol of channels, and what a channel needs and returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from longwatch.clock import SYSTEM_CLOCK, Clock

if TYPE_CHECKING:
    from longwatch.notifications.message import Message
    from longwatch.settings import Settings


@dataclass(frozen=True, slots=True)
class DeliveryReceipt:
    """That a receiver accepted a message."""

    status: str  # such as `HTTP 204`


class DeliveryError(Exception):
    """A channel could not deliver a message. The text is shown to users and contains no secret."""

    def __init__(self, problem: str, *, is_retryable: bool, retry_after_seconds: float | None = None) -> None:
        self.is_retryable = is_retryable
        self.retry_after_seconds = retry_after_seconds  # requested by the receiver
        super().__init__(problem)


class Channel(Protocol):
    """Sends messages of one rule. Blocking; used by one thread at a time."""

    def send(self, message: Message) -> DeliveryReceipt:
        """Send the message once, within bounded time. Raises `DeliveryError`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelContext:
    """What the process gives to its channels."""

    settings: Settings
    clock: Clock = SYSTEM_CLOCK


Options = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelKind:
    """A kind of channel: the keys of its rules, and how to open one.

    `check` raises ValueError, with the key and the value, for options that can never work. `open` is called
    before the first message of a rule; what is missing in the environment is a `DeliveryError` when sending.
    """

    name: str
    options: frozenset[str] = field(default_factory=frozenset)
    check: Callable[[Options], None]
    open: Callable[[Options, ChannelContext], Channel]
