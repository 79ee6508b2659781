"""What to do with a process when we are told to stop: pass the signal on, wait a while, then kill it."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from enum import Enum

GRACE_SECONDS = 10.0

PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
FROM_TERMINAL = frozenset({signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})  # sent to a whole process group


class Action(Enum):
    """What the watching side does next."""

    NOTHING = "nothing"
    PASS_ON = "pass on"
    KILL = "kill"


@dataclass(slots=True)
class Stopping:
    """Remembers which signals came. Time is told to it, in seconds that only grow."""

    grace_seconds: float = GRACE_SECONDS
    shares_group: bool = False  # the process is in our group, so what a terminal sends us it gets as well
    reason: int | None = None  # the first signal
    sent: set[int] = field(default_factory=set)  # what we sent to the process
    _deadline: float | None = None
    _interrupts: int = 0
    _killed: bool = False

    def on_signal(self, number: int, now: float) -> Action:
        """A signal for us came. A second Ctrl-C means: at once."""
        if self._killed:
            return Action.NOTHING
        if self.reason is None:
            self.reason = number
            self._deadline = now + self.grace_seconds
        self._interrupts += number == signal.SIGINT
        if self._interrupts > 1 and number == signal.SIGINT:
            return self._kill()
        if self.shares_group and number in FROM_TERMINAL:
            return Action.NOTHING
        self.sent.add(number)
        return Action.PASS_ON

    def on_time(self, now: float) -> Action:
        """Time has passed."""
        if self._deadline is not None and now >= self._deadline:
            return self._kill()
        return Action.NOTHING

    @property
    def waits(self) -> bool:
        """Whether a signal was passed on and there is still patience."""
        return self._deadline is not None

    def seconds_left(self, now: float) -> float | None:
        """How long to wait for the process before asking again; None for as long as it takes."""
        return None if self._deadline is None else max(0.0, self._deadline - now)

    def _kill(self) -> Action:
        self._killed, self._deadline = True, None
        self.sent.add(signal.SIGKILL)
        return Action.KILL
