"""What answers questions about executions: one source for each outside system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from longwatch.executions.model import Execution, ExecutionKey
from longwatch.executions.responses import SourceResponse


@dataclass(frozen=True, slots=True)
class SourceProblem:
    """Why there is no answer. It says nothing about the execution, which stays as it is."""

    message: str
    retry_after_seconds: float | None = None  # the source's own wish; None: our backoff decides
    throttled: bool = False
    lasting: bool = False  # asking again brings the same, until somebody changes something


SourceResult = SourceResponse | SourceProblem


class Source(Protocol):
    """An outside system. Blocking; it never starts, stops or changes what it is asked about."""

    @property
    def name(self) -> str:
        """The word in `Execution.source` that means this system."""

    def poll(self, executions: Sequence[Execution]) -> Mapping[ExecutionKey, SourceResult]:
        """What the system says now, for each execution by its key, with as few calls as it takes.

        A problem is an answer of its own kind, for those that it concerns; it is never raised.
        """

    def close(self) -> None:
        """Let go of connections."""


@runtime_checkable
class SourceCheck(Protocol):
    """A source that knows what it needs on this machine: an extra, credentials, variables."""

    def check(self) -> SourceProblem | None:
        """What keeps it from being polled here, found without a request to the system; None: nothing."""


@runtime_checkable
class IdCheck(Protocol):
    """A source that knows what ids of its jobs look like."""

    def check_id(self, job_id: str) -> SourceProblem | None:
        """Why no job can have this id, found without a request to the system; None: one can."""


@runtime_checkable
class Starter(Protocol):
    """A source that knows what an execution is called, and when it began, from what people type."""

    def begin(
        self, what: str, *, region: str | None = None, account: str | None = None
    ) -> Execution | SourceProblem | None:
        """The execution to be watched, asked about once and not stored. None: the system does not know it."""
