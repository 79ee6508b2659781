"""What a subscriber holds in its hand."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from types import TracebackType
from typing import Self

from longwatch.polling.cadence import Cadence
from longwatch.polling.shared import Subscriber


class Registration:
    """One subscriber's part in a poll. Dispose of it to leave; as a context manager it does so by itself."""

    def __init__(self, subscriber: Subscriber, leave: Callable[[Subscriber], None]) -> None:
        self._subscriber = subscriber
        self._leave = leave

    @property
    def key(self) -> Hashable:
        return self._subscriber.shared.key

    @property
    def active(self) -> bool:
        """Whether anything may still be delivered."""
        return self._subscriber.active

    @property
    def state(self) -> Cadence:
        """When the poll looks next, how often it failed, whether it has stopped and why."""
        return self._subscriber.shared.cadence

    @property
    def due_at(self) -> float | None:
        """The moment of the next look on the event loop's clock; None while none is planned."""
        return self._subscriber.shared.due_at if self.active else None

    def dispose(self) -> None:
        """Leave. Nothing is delivered any more, also not from a poll under way. Again, it does nothing."""
        self._leave(self._subscriber)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.dispose()
