"""Deleted runs: the tombstone that is left of one, and which runs may be deleted.

A journal stores the tombstone first and hides the run at once. Then it removes the events in small
transactions. An interrupted deletion is resumed by the next one, so a run is always whole or deleted.
"""

from __future__ import annotations

import getpass
import socket
from collections.abc import Iterable
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Protocol, runtime_checkable

from longwatch.errors import InvalidInput, RunDeleted, RunNotFound, RunStillOpen
from longwatch.journal.codec import digest
from longwatch.model.endings import Status
from longwatch.model.event import RUN_DELETED, Event, new_event_id
from longwatch.model.run_query import INDEX_KINDS

MAX_BY_CHARACTERS = 200
OPEN_STATUSES = frozenset({Status.PENDING, Status.RUNNING})


@dataclass(frozen=True, slots=True, kw_only=True)
class Tombstone:
    """What is left of a deleted run. `events` and `digest` describe the events that were removed so far."""

    run_id: str
    deleted_at: int  # epoch ms
    by: str
    events: int = 0
    digest: str = ""

    def with_removed(self, events: Iterable[Event]) -> Tombstone:
        """After these events were removed too, in order of arrival: an export can prove which they were."""
        count, value = self.events, self.digest
        for event in events:
            count += 1
            value = sha256(f"{value}{digest(event)}".encode()).hexdigest()
        return replace(self, events=count, digest=value)

    @property
    def error(self) -> RunDeleted:
        """The error of a call that names the run."""
        return RunDeleted(self.run_id, self.deleted_at, self.by)

    @property
    def arrival(self) -> Event:
        """The event that reports the deletion to readers of arrivals."""
        return Event(
            run_id=self.run_id,
            event_id=new_event_id(self.deleted_at),
            type=RUN_DELETED,
            occurred_at=self.deleted_at,
            payload={"by": self.by},
        )


def tombstone_from(arrival: Event) -> Tombstone:
    """The tombstone that an arrival reports, without its counts."""
    by = arrival.payload.get("by")
    return Tombstone(
        run_id=arrival.run_id, deleted_at=arrival.occurred_at, by=by if isinstance(by, str) else "unknown"
    )


@runtime_checkable
class DeletesRuns(Protocol):
    """A journal that deletes runs on request. Optional."""

    def delete_run(self, run_id: str, *, by: str, force: bool = False) -> Tombstone:
        """Delete a run: it disappears at once, then its events are removed.

        From then on `append` raises `RunDeleted` after it has stored the events of other runs, `read` raises
        it too, and lists omit the run. Raises `RunNotFound`, `RunDeleted` for a run that is deleted already,
        and `RunStillOpen` for an open one unless `force`.
        """

    def tombstone(self, run_id: str) -> Tombstone | None:
        """What is left of a deleted run; None for any other."""


def find_tombstone(journal: object, run_id: str) -> Tombstone | None:
    """The tombstone of a run, in any journal."""
    return journal.tombstone(run_id) if isinstance(journal, DeletesRuns) else None


def check_deletion(
    run_id: str, kind: str | None, status: str | None, tombstone: Tombstone | None, *, force: bool
) -> None:
    """Raise why this run cannot be deleted, if there is a reason. Without kind and status it is unknown."""
    if tombstone is not None:
        raise tombstone.error
    if kind is None:
        raise RunNotFound(f"No run {run_id[:100]!r}. List them with `longwatch runs`.")
    if kind in INDEX_KINDS:
        name = "session" if kind == "conversation" else kind
        raise InvalidInput(
            f"{run_id[:100]!r} is a {name}, which lists the runs in it. Delete these runs one by one."
        )
    if status in OPEN_STATUSES and not force:
        raise RunStillOpen(run_id)


def raise_deleted(found: Iterable[Tombstone]) -> None:
    """Raise `RunDeleted` for the runs of rejected events, if there are any."""
    stones = list(found)
    if stones:
        first, *others = stones
        raise RunDeleted(first.run_id, first.deleted_at, first.by, [each.run_id for each in others])


def local_user() -> str:
    """`user@host`, for deletions from a terminal."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # no such user in this container
        user = "unknown"
    return f"{user}@{socket.gethostname()}"[:MAX_BY_CHARACTERS]
