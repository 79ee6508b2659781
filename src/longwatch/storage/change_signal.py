"""A signal that a store may have been written to, by this or another process."""

from __future__ import annotations

from typing import Protocol


class ChangeSignal(Protocol):
    """Somebody's wish to be told that something may have been appended, by whichever process."""

    descriptor: int | None  # a file descriptor that becomes readable when somebody writes, if there is one
    check_seconds: float | None  # how often to ask `changed` beside that; None: never

    def told(self) -> bool:
        """Take what the descriptor has to say: whether somebody writes. It can be read a little later."""

    def changed(self) -> bool:
        """Whether something may have been appended since the last call. Does not block."""

    def close(self) -> None:
        """Do not tell any more."""
