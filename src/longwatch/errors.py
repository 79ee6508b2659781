"""Everything longwatch raises on purpose, in one tree.

LongwatchError
├── WorthAnotherTry          waiting may help: the caller backs off and asks again
│   └── JournalUnavailable   the store did not answer, or answered "not now"
│       ├── JournalBusy      another process holds the write lock
│       ├── JournalFull      no space left on the device
│       ├── Throttled        the store asks for fewer requests
│       └── Unreachable      no connection, or no answer in time
└── NotWorthAnotherTry       the same call fails again: somebody has to change something
    ├── InvalidEvent         an event that no journal may hold
    ├── EventConflict        an event id that already names another event
    ├── InvalidCursor        a cursor that this journal did not hand out
    ├── InvalidJournalUrl    a journal address nobody can open
    ├── InvalidSettings      mistakes in longwatch.toml or the environment, all of them
    ├── InvalidInput         a line, file or argument that is not what it should be
    ├── RunNotFound          no event names this run
    ├── MissingExtra         an optional part is not installed
    └── JournalUnusable      the store is there but cannot be used as it is
        ├── NotADatabase     the file holds something else
        ├── NewerJournal     written by a later version of longwatch
        ├── ReadOnlyJournal  no right to write here
        └── TableProblem     the table check failed; the kind says how

An error keeps in `args` what it was made from and words its message when asked, so that it comes whole out of
a process pool: pickle makes an exception again from its `args`.
"""

from __future__ import annotations

from collections.abc import Sequence


class LongwatchError(Exception):
    """The base of every error longwatch raises on purpose. Its text says what happened and what to do."""


class WorthAnotherTry(LongwatchError):
    """Waiting may help."""


class JournalUnavailable(WorthAnotherTry):
    """The journal could not be reached, or would not answer now."""


class JournalBusy(JournalUnavailable):
    """Another process held the write lock for longer than we wait."""


class JournalFull(JournalUnavailable):
    """There is no space left where the journal lives."""


class Throttled(JournalUnavailable):
    """The store asks for fewer requests."""


class Unreachable(JournalUnavailable):
    """No connection to the store, or no answer in time."""


class NotWorthAnotherTry(LongwatchError):
    """The same call would fail the same way."""


class InvalidEvent(NotWorthAnotherTry):
    """The event breaks a rule that holds in every journal."""


class EventConflict(NotWorthAnotherTry):
    """The event id already names an event with other content. Events are never changed."""

    def __init__(self, event_ids: Sequence[str]) -> None:
        self.event_ids = tuple(event_ids)
        super().__init__(self.event_ids)

    def __str__(self) -> str:
        names = ", ".join(self.event_ids[:5]) + (", …" if len(self.event_ids) > 5 else "")
        return (
            f"Event id {names} already names an event with other content; an event is never changed. "
            "Give a new event a new id."
        )


class InvalidCursor(NotWorthAnotherTry):
    """The cursor was not handed out by this kind of journal."""


class InvalidJournalUrl(NotWorthAnotherTry):
    """Nothing can be opened under this address."""


class InvalidSettings(NotWorthAnotherTry):
    """Every mistake found in the settings, not only the first."""

    def __init__(self, mistakes: Sequence[str]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__(self.mistakes)

    def __str__(self) -> str:
        return "\n".join(self.mistakes)


class InvalidInput(NotWorthAnotherTry):
    """A line, a file or an argument is not what it should be."""


class RunNotFound(NotWorthAnotherTry):
    """No event names this run."""


class MissingExtra(NotWorthAnotherTry):
    """An optional part of longwatch is needed and not installed."""

    def __init__(self, what: str, extra: str) -> None:
        self.what = what
        self.extra = extra
        super().__init__(what, extra)

    def __str__(self) -> str:
        install = f"pip install 'longwatch[{self.extra}]'"
        return f"{self.what} needs the '{self.extra}' extra. Install it: {install}"


class JournalUnusable(NotWorthAnotherTry):
    """The store is there, but cannot be used as it is."""


class NotADatabase(JournalUnusable):
    """The file holds something other than a SQLite database."""


class NewerJournal(JournalUnusable):
    """The journal was written by a later version of longwatch."""


class ReadOnlyJournal(JournalUnusable):
    """The journal may be read but not written."""


class TableProblem(JournalUnusable):
    """The DynamoDB table cannot be used; `kind` is a stable word for what is wrong."""

    def __init__(self, kind: str, message: str) -> None:
        self.kind = kind
        self.message = message
        super().__init__(kind, message)

    def __str__(self) -> str:
        return self.message
