"""A journal in front of another one through which every call passes somebody who may let it fail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar, cast

from longwatch.journal.arrivals import Arrival
from longwatch.journal.base import Arrivals, Journal
from longwatch.model.event import Event, Page
from longwatch.model.run import RunSummary
from longwatch.storage.change_signal import ChangeSignal

T = TypeVar("T")


class Gate(Protocol):
    """Makes the call, or raises; perhaps one after the other."""

    def __call__(self, name: str, call: Callable[[], T]) -> T: ...


def intercepted(journal: Journal, gate: Gate) -> Journal:
    """The same journal, with all that following and recording ask of it. `gate` is told the method's name."""
    kind = InterceptedArrivals if isinstance(journal, Arrivals) else Intercepted
    return cast(Journal, kind(journal, gate))


class Intercepted:
    """What a hub and a producer ask of any journal."""

    def __init__(self, journal: Any, gate: Gate) -> None:
        self._journal = journal
        self._gate = gate

    @property
    def url(self) -> str:
        return str(self._journal.url)

    @property
    def default_ttl_seconds(self) -> int | None:
        return cast("int | None", self._journal.default_ttl_seconds)

    @property
    def announce_after_ms(self) -> int | None:
        return cast("int | None", self._journal.announce_after_ms)

    def append(self, events: Sequence[Event]) -> None:
        self._gate("append", lambda: self._journal.append(events))

    def read(self, run_id: str, **options: Any) -> Page:
        return cast(Page, self._gate("read", lambda: self._journal.read(run_id, **options)))

    def find_run(self, run_id: str) -> RunSummary | None:
        return cast("RunSummary | None", self._gate("find_run", lambda: self._journal.find_run(run_id)))

    def close(self) -> None:
        self._journal.close()


class InterceptedArrivals(Intercepted):
    """A class of its own: a hub tells by the methods whether a journal numbers what arrives."""

    @property
    def generation(self) -> int:
        return cast(int, self._journal.generation)

    def last_arrival(self) -> int:
        return cast(int, self._gate("last_arrival", self._journal.last_arrival))

    def arrivals(self, after: int, *, limit: int) -> Sequence[Arrival]:
        return cast(
            "Sequence[Arrival]",
            self._gate("arrivals", lambda: self._journal.arrivals(after, limit=limit)),
        )

    def listen(self, heard: Callable[[], None]) -> ChangeSignal:
        return cast(ChangeSignal, self._journal.listen(heard))
