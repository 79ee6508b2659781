"""What happened in a simulation, line by line, and what of it is counted."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field


@dataclass
class Tally:
    """Numbers for a summary. Those of many seeds can be added."""

    events: int = 0  # that the stores hold
    delivered: int = 0  # to followers and subscribers, again after a crash included
    virtual_seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)  # by kind
    endings: Counter[str] = field(default_factory=Counter)  # of watches, by reason

    def add(self, other: Tally) -> None:
        """Count what the other has counted too."""
        self.events += other.events
        self.delivered += other.delivered
        self.virtual_seconds += other.virtual_seconds
        self.faults += other.faults
        self.endings += other.endings


class Trace:
    """Every line goes into the digest; they are kept only if somebody wants to read them."""

    def __init__(self, now: Callable[[], float], *, keep: bool) -> None:
        self.lines: list[str] = []
        self._now = now
        self._keep = keep
        self._digest = hashlib.sha256()

    def mark(self, who: str, what: str) -> None:
        """Somebody did something, now."""
        line = f"{self._now():11.6f} {who}: {what}"
        self._digest.update(line.encode())
        self._digest.update(b"\n")
        if self._keep:
            self.lines.append(line)

    @property
    def digest(self) -> str:
        """The same for the same lines."""
        return self._digest.hexdigest()[:32]


def named(events: Iterable[object]) -> str:
    """Events as a trace shows them: their ids."""
    return " ".join(str(getattr(event, "event_id", event)) for event in events)
