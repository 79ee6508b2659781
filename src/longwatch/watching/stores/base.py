"""The promises every execution store keeps. Each is a test in tests/contract that every adapter inherits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from longwatch.summaries import Status
from longwatch.watching.model import Execution

DEFAULT_LIST_LIMIT = 50


class ExecutionStore(Protocol):
    """Records of executions, which orchestrators of other makes write to as well."""

    def add(self, execution: Execution) -> Execution:
        """Store a new execution and return it as it is stored. Raises `AlreadyThere` if its id is taken."""

    def get(self, execution_id: str, plan_id: str | None = None) -> Execution | None:
        """The execution as it is now. Without a plan: the one with this id, whichever its plan is."""

    def update(self, execution: Execution) -> Execution:
        """Store what has become of an execution that was read here, and return it as it is stored.

        Only if nobody has written in between: the version, the status and the waves have to be as they were
        read, or `VersionConflict` is raised and nothing is stored. Attributes that longwatch does not know
        stay as they are, also those that were written in between.
        """

    def open_executions(self) -> Iterator[Execution]:
        """All that seem to be open, oldest first. A hint: read one again before deciding anything."""

    def find(self, *, status: Status | None = None, limit: int = DEFAULT_LIST_LIMIT) -> Sequence[Execution]:
        """The newest executions, newest first; with a status, those that stand so. A hint as well."""

    def close(self) -> None:
        """Let go of files and connections."""
