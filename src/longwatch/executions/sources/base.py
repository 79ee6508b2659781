"""The protocol of a source: one external system that executions run in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from longwatch.executions.model import Execution, ExecutionKey
from longwatch.executions.responses import SourceResponse


@dataclass(frozen=True, slots=True)
class SourceProblem:
    """Why a poll returned no response. The execution stays as it is."""

    message: str
    retry_after_seconds: float | None = None  # requested by the source; None: the backoff decides
    throttled: bool = False
    lasting: bool = False  # a retry fails as well, until the configuration changes


SourceResult = SourceResponse | SourceProblem


class Source(Protocol):
    """An external system. Blocking; it never starts, stops or changes what it polls."""

    @property
    def name(self) -> str:
        """The value of `Execution.source` for this system."""

    def poll(self, executions: Sequence[Execution]) -> Mapping[ExecutionKey, SourceResult]:
        """Poll the system once for these executions, with as few calls as possible; results by key.

        A problem is returned for the executions that it concerns; it is never raised.
        """

    def close(self) -> None:
        """Close connections."""


@runtime_checkable
class SourceCheck(Protocol):
    """A source that can check what it needs on this machine: an extra, credentials, variables."""

    def check(self) -> SourceProblem | None:
        """What keeps it from being polled here, found without a request to the system; None: nothing."""


@runtime_checkable
class IdCheck(Protocol):
    """A source that can check the format of job ids."""

    def check_id(self, job_id: str) -> SourceProblem | None:
        """Why no job can have this id, found without a request to the system; None: one can."""


@runtime_checkable
class Starter(Protocol):
    """A source that can create an execution from the id that a user types."""

    def begin(
        self, job_id: str, *, region: str | None = None, account: str | None = None
    ) -> Execution | SourceProblem | None:
        """Poll the system once and return the execution to watch, not stored. None: it has no such id."""
