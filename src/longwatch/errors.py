"""Everything longwatch raises on purpose, in one tree.

LongwatchError
├── WorthAnotherTry          waiting may help: the caller backs off and asks again
│   ├── JournalUnavailable   the store did not answer, or answered "not now"
│   │   ├── JournalBusy      another process holds the write lock
│   │   ├── JournalFull      no space left on the device
│   │   ├── JournalMoved     its file was deleted, moved or replaced while it was open
│   │   ├── Throttled        the store asks for fewer requests
│   │   └── Unreachable      no connection, or no answer in time
│   └── VersionConflict      somebody else wrote the record in between: read it again
└── NotWorthAnotherTry       the same call fails again: somebody has to change something
    ├── InvalidEvent         an event that no journal may hold
    ├── EventConflict        an event id that already names another event
    ├── InvalidCursor        a cursor that this journal did not hand out
    ├── InvalidJournalUrl    a journal address nobody can open
    ├── InvalidSettings      mistakes in longwatch.toml or the environment, all of them
    ├── InvalidInput         a line, file or argument that is not what it should be
    │   └── InvalidLine      a line for a turn that is not a JSON object
    ├── InvalidPath          a path or project id that can not be a key, or leads out of its project
    ├── InvalidUpdate        bytes that are no Yjs update or state vector
    ├── RunNotFound          no event names this run
    │   ├── ProjectNotFound       no such project
    │   ├── ConversationNotFound  no such conversation in this project
    │   ├── TurnNotFound          no such turn in this conversation
    │   └── ExecutionNotFound     no such execution in this store
    ├── DocumentNotFound     the project has no such file, or no longer
    ├── AmbiguousExecution   several plans have an execution of this id
    ├── AlreadyThere         the id names another project, conversation, turn or execution
    ├── TurnEnded            the turn has ended and takes no more lines
    ├── TurnTaken            somebody else executes the turn
    ├── TurnFailed           a turn that was waited for has failed, or was stopped
    ├── RequestRefused       a longwatch server would not do what was asked
    ├── AgentRefused         an agent was reached and did not take the request
    ├── MissingExtra         an optional part is not installed
    └── JournalUnusable      the store is there but cannot be used as it is
        ├── JournalDamaged   the disk or a program changed the file behind SQLite's back
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


class JournalMoved(JournalUnavailable):
    """The journal's file was deleted, moved or replaced while it was open. Nothing was acknowledged."""


class Throttled(JournalUnavailable):
    """The store asks for fewer requests."""


class Unreachable(JournalUnavailable):
    """No connection to the store, or no answer in time."""


class VersionConflict(WorthAnotherTry):
    """Somebody else wrote the record of an execution since it was read. Nothing was stored."""

    def __init__(self, execution_id: str, version: int) -> None:
        self.execution_id = execution_id
        self.version = version
        super().__init__(execution_id, version)

    def __str__(self) -> str:
        return (
            f"Another process changed execution {self.execution_id} after version {self.version} was "
            "read. Read it again and retry."
        )


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
            f"Event ID {names} is already in use by an event with different content; events are "
            "immutable. Use a new ID for a new event."
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


class InvalidLine(InvalidInput):
    """A line for a turn is not a JSON object. The lines before it are stored, those after it are not."""

    def __init__(self, number: int, reason: str, accepted: int = 0, blocks: int = 0) -> None:
        self.number = number
        self.reason = reason
        self.accepted = accepted  # lines before it
        self.blocks = blocks  # that those added
        super().__init__(number, reason, accepted, blocks)

    def __str__(self) -> str:
        lines = "1 line before it is" if self.accepted == 1 else f"{self.accepted} lines before it are"
        return (
            f"Line {self.number} {self.reason}. {lines} stored; send this line and the following ones again, "
            "one JSON object per line."
        )


class InvalidPath(NotWorthAnotherTry):
    """The path or the project id can not be a key, or would lead out of its project."""


class InvalidUpdate(NotWorthAnotherTry):
    """The bytes are no Yjs update, or no state vector."""


class RunNotFound(NotWorthAnotherTry):
    """No event names this run."""


class DocumentNotFound(NotWorthAnotherTry):
    """The project has no such file, or no longer has it."""


class ProjectNotFound(RunNotFound):
    """There is no such project."""


class ConversationNotFound(RunNotFound):
    """There is no such conversation in this project."""


class TurnNotFound(RunNotFound):
    """There is no such turn in this conversation."""


class ExecutionNotFound(RunNotFound):
    """There is no such execution in this store."""


class AmbiguousExecution(NotWorthAnotherTry):
    """Several plans have an execution of this id, and the caller named no plan."""

    def __init__(self, execution_id: str, plan_ids: Sequence[str], keys: Sequence[str]) -> None:
        self.execution_id = execution_id
        self.plan_ids = tuple(plan_ids)
        self.keys = tuple(keys)  # `plan/execution` for each plan
        super().__init__(execution_id, self.plan_ids, self.keys)

    def __str__(self) -> str:
        plans = ", ".join(repr(each[:100]) for each in self.plan_ids)
        return (
            f"{len(self.keys)} plans have an execution {self.execution_id[:100]!r}: {plans}. Specify "
            f"the plan: {' or '.join(self.keys)}."
        )


class AlreadyThere(NotWorthAnotherTry):
    """The id that was asked for names another project, conversation, turn or execution."""


class TurnEnded(NotWorthAnotherTry):
    """The turn has ended and takes no more lines. Those before the end are stored."""

    def __init__(self, turn_id: str, status: str, accepted: int = 0, blocks: int = 0) -> None:
        self.turn_id = turn_id
        self.status = status
        self.accepted = accepted  # lines up to the end
        self.blocks = blocks  # that those added
        super().__init__(turn_id, status, accepted, blocks)

    def __str__(self) -> str:
        return (
            f"Turn {self.turn_id} has ended ({self.status}) and accepts no more output. Create a new "
            "turn to continue."
        )


class TurnTaken(NotWorthAnotherTry):
    """Somebody else executes the turn."""


class AgentRefused(NotWorthAnotherTry):
    """The agent was reached and did not take the request."""


class TurnFailed(NotWorthAnotherTry):
    """A turn that was waited for has failed, or was stopped."""

    def __init__(self, turn_id: str, reason: str) -> None:
        self.turn_id = turn_id
        self.reason = reason
        super().__init__(turn_id, reason)

    def __str__(self) -> str:
        return f"Turn {self.turn_id} failed: {self.reason}"


class RequestRefused(NotWorthAnotherTry):
    """A longwatch server would not do what was asked; the code is a stable word for why."""

    def __init__(self, status: int, code: str, message: str) -> None:
        self.status = status
        self.code = code
        self.message = message
        super().__init__(status, code, message)

    def __str__(self) -> str:
        return f"{self.message} (HTTP {self.status}, {self.code})"


class MissingExtra(NotWorthAnotherTry):
    """An optional part of longwatch is needed and not installed."""

    def __init__(self, what: str, extra: str) -> None:
        self.what = what
        self.extra = extra
        super().__init__(what, extra)

    def __str__(self) -> str:
        install = f"pip install '.[{self.extra}]'"
        return f"{self.what} needs the '{self.extra}' extra. Install it in a checkout of longwatch: {install}"


class JournalUnusable(NotWorthAnotherTry):
    """The store is there, but cannot be used as it is."""


class JournalDamaged(JournalUnusable):
    """Parts of the journal cannot be read. What can be is read around the damage."""


class NotADatabase(JournalUnusable):
    """The file holds something other than a SQLite database."""


class NewerJournal(JournalUnusable):
    """The journal was written by a later version of longwatch."""

    def __str__(self) -> str:
        return f"{super().__str__()} Upgrade in a newer checkout of longwatch: pip install ."


class ReadOnlyJournal(JournalUnusable):
    """The journal may be read but not written."""


class TableProblem(JournalUnusable):
    """The DynamoDB table cannot be used; `kind` is a stable word for what is wrong."""

    # Somebody signs in again, grants a right or creates the table while we wait. The other kinds need another
    # address, and so another process.
    RECOVERABLE = frozenset(
        {
            "not-found",
            "not-active",
            "expired-token",
            "no-credentials",
            "access-denied",
            "clock",
            "unreachable",
        }
    )

    def __init__(self, kind: str, message: str) -> None:
        self.kind = kind
        self.message = message
        super().__init__(kind, message)

    @property
    def may_recover(self) -> bool:
        """Whether a reader that has time retries now and then. A command that was typed fails at once."""
        return self.kind in self.RECOVERABLE

    def __str__(self) -> str:
        return self.message
