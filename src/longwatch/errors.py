"""Everything longwatch raises on purpose, in one tree.

LongwatchError
├── WorthAnotherTry          waiting may help: the caller backs off and retries
│   ├── JournalUnavailable   the store did not respond, or not in time
│   │   ├── JournalBusy      another process holds the write lock
│   │   ├── JournalFull      no space left on the device
│   │   ├── JournalMoved     its file was deleted, moved or replaced while it was open
│   │   ├── Throttled        the store limits the request rate
│   │   └── Unreachable      no connection, or no response in time
│   └── VersionConflict      another process changed the record: read it again
└── NotWorthAnotherTry       the same call fails again until something is changed
    ├── InvalidEvent         an event that no journal can store
    ├── EventConflict        an event ID that is in use by another event
    ├── InvalidCursor        a cursor that this journal did not issue
    ├── InvalidJournalUrl    a URL that names no store
    ├── InvalidSettings      all mistakes in longwatch.toml and the environment
    ├── InvalidInput         an invalid line, file or argument
    │   ├── InvalidLine      a line for a turn that is not a JSON object
    │   ├── InvalidQuery     a query of runs with a mistake at a position
    │   └── SearchTooWide    a search of too many runs in a journal without an index
    ├── InvalidPath          a path or project ID that is not valid as a key or leaves its project
    ├── InvalidUpdate        bytes that are not a Yjs update or state vector
    ├── RunNotFound          no event has this run ID
    │   ├── ProjectNotFound       no such project
    │   ├── ConversationNotFound  no such conversation in this project
    │   ├── TurnNotFound          no such turn in this conversation
    │   └── ExecutionNotFound     no such execution in this store
    ├── RunDeleted           the run was deleted, and accepts no more events
    ├── RunStillOpen         an open run is only deleted by force
    ├── DocumentNotFound     the project has no such file, or it was deleted
    ├── AmbiguousExecution   several plans have an execution with this ID
    ├── AlreadyThere         the ID is in use by another project, conversation, turn or execution
    ├── TurnEnded            the turn has ended and accepts no more lines
    ├── TurnTaken            another executor has claimed the turn
    ├── TurnFailed           a turn that the caller waited for failed or was stopped
    ├── RequestRefused       a longwatch server rejected the request
    ├── AgentRefused         an agent rejected the request
    ├── MissingExtra         an optional part is not installed
    └── JournalUnusable      the store exists but cannot be used as it is
        ├── JournalDamaged   the disk or another program damaged the file
        ├── NotADatabase     the file is not a SQLite database
        ├── NewerJournal     written by a later version of longwatch
        ├── ReadOnlyJournal  no write permission
        └── TableProblem     the table cannot be used; see its kind

An error stores its constructor arguments in `args` and formats its message in `__str__`: pickle, and so a
process pool, recreates an exception from its `args`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime


class LongwatchError(Exception):
    """The base of all errors that longwatch raises. The message states what happened and what to do."""


class WorthAnotherTry(LongwatchError):
    """Waiting may help."""


class JournalUnavailable(WorthAnotherTry):
    """The journal did not respond, or not in time."""


class JournalBusy(JournalUnavailable):
    """Another process held the write lock for longer than the timeout."""


class JournalFull(JournalUnavailable):
    """No space is left on the journal's device."""


class JournalMoved(JournalUnavailable):
    """The journal's file was deleted, moved or replaced while it was open. Nothing was acknowledged."""


class Throttled(JournalUnavailable):
    """The store limits the request rate."""


class Unreachable(JournalUnavailable):
    """No connection to the store, or no response in time."""


class VersionConflict(WorthAnotherTry):
    """Another process changed the record of an execution since it was read. Nothing was stored."""

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
    """The event ID is in use by an event with other content. Events are never changed."""

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
    """The cursor was not issued by this kind of journal."""


class InvalidJournalUrl(NotWorthAnotherTry):
    """The URL names no store."""


class InvalidSettings(NotWorthAnotherTry):
    """Every mistake found in the settings, not only the first."""

    def __init__(self, mistakes: Sequence[str]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__(self.mistakes)

    def __str__(self) -> str:
        return "\n".join(self.mistakes)


class InvalidInput(NotWorthAnotherTry):
    """A line, a file or an argument is invalid."""


class InvalidQuery(InvalidInput):
    """A query has a mistake at this position, counted from 1."""

    def __init__(self, problem: str, position: int) -> None:
        self.problem = problem
        self.position = position
        super().__init__(problem, position)

    def __str__(self) -> str:
        return f"Invalid query at position {self.position}: {self.problem}"


class SearchTooWide(InvalidInput):
    """A journal without a full-text index is searched by run or by day only."""


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
    """The path or the project ID is not valid as a key, or leaves its project."""


class InvalidUpdate(NotWorthAnotherTry):
    """The bytes are not a Yjs update or state vector."""


class RunNotFound(NotWorthAnotherTry):
    """No event has this run ID."""


class RunDeleted(NotWorthAnotherTry):
    """The run was deleted. Events of other runs in the same append are stored."""

    def __init__(self, run_id: str, deleted_at: int, deleted_by: str, others: Sequence[str] = ()) -> None:
        self.run_id = run_id
        self.deleted_at = deleted_at  # epoch ms
        self.deleted_by = deleted_by
        self.run_ids = frozenset((run_id, *others))  # all deleted runs of an append
        super().__init__(run_id, deleted_at, deleted_by, tuple(others))

    def __str__(self) -> str:
        at = datetime.fromtimestamp(self.deleted_at // 1000, UTC).isoformat().replace("+00:00", "Z")
        return f"Run {self.run_id[:100]!r} was deleted at {at} by {self.deleted_by}."


class RunStillOpen(NotWorthAnotherTry):
    """An open run is only deleted by force."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(run_id)

    def __str__(self) -> str:
        return (
            f"Run {self.run_id[:100]!r} is still open. Wait for its end, or delete it by force: "
            "what its producers record after that is dropped."
        )


class DocumentNotFound(NotWorthAnotherTry):
    """The project has no such file, or it was deleted."""


class ProjectNotFound(RunNotFound):
    """No project has this ID."""


class ConversationNotFound(RunNotFound):
    """The project has no such conversation."""


class TurnNotFound(RunNotFound):
    """The conversation has no such turn."""


class ExecutionNotFound(RunNotFound):
    """The store has no such execution."""


class AmbiguousExecution(NotWorthAnotherTry):
    """Several plans have an execution with this ID, and the caller named no plan."""

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
    """The ID is in use by another project, conversation, turn or execution."""


class TurnEnded(NotWorthAnotherTry):
    """The turn has ended and accepts no more lines. Those before the end are stored."""

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
    """Another executor has claimed the turn."""


class AgentRefused(NotWorthAnotherTry):
    """The agent rejected the request."""


class TurnFailed(NotWorthAnotherTry):
    """A turn that the caller waited for failed or was stopped."""

    def __init__(self, turn_id: str, reason: str) -> None:
        self.turn_id = turn_id
        self.reason = reason
        super().__init__(turn_id, reason)

    def __str__(self) -> str:
        return f"Turn {self.turn_id} failed: {self.reason}"


class RequestRefused(NotWorthAnotherTry):
    """A longwatch server rejected the request; `code` is a stable identifier of the reason."""

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
    """The store exists but cannot be used as it is."""


class JournalDamaged(JournalUnusable):
    """Parts of the journal cannot be read. The rest remains readable."""


class NotADatabase(JournalUnusable):
    """The file is not a SQLite database."""


class NewerJournal(JournalUnusable):
    """The journal was written by a later version of longwatch."""

    def __str__(self) -> str:
        return f"{super().__str__()} Upgrade in a newer checkout of longwatch: pip install ."


class ReadOnlyJournal(JournalUnusable):
    """The journal may be read but not written."""


class TableProblem(JournalUnusable):
    """The DynamoDB table cannot be used; `kind` is a stable identifier of the problem."""

    # An operator can sign in again, grant a permission or create the table while a reader waits. The other
    # kinds need another URL, and so another process.
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
        """Whether a long-running reader retries. A command on the terminal fails at once."""
        return self.kind in self.RECOVERABLE

    def __str__(self) -> str:
        return self.message
