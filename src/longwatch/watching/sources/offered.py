"""Sources that other packages offer: one that is broken, or breaks, stops none of the others."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from longwatch.watching.model import Execution, ExecutionKey
from longwatch.watching.sources.base import Beginner, Checked, Source, SourceProblem, Told

log = logging.getLogger(__name__)


class OfferedSource:
    """A source of another package, under the name of its entry point. Whatever it raises is a problem."""

    def __init__(self, name: str, package: str, load: Callable[[], Source]) -> None:
        self.name = name
        self._package = package
        self._load = load
        self._source: Source | None = None

    def ask(self, executions: Sequence[Execution]) -> Mapping[ExecutionKey, Told]:
        try:
            found = _by_key(executions, self._loaded().ask(executions))
            for each in found.values():
                if not isinstance(each, Told):
                    raise TypeError(f"it answered with {type(each).__name__}")
            return found
        except Exception as error:  # noqa: BLE001 - nobody knows what a package may raise
            return {each.key: self._problem(error) for each in executions}

    def begin(
        self, what: str, *, region: str | None = None, account: str | None = None
    ) -> Execution | SourceProblem | None:
        """What the source itself begins, or a job of this id."""
        from longwatch.watching.sources.beginning import one_job

        try:
            source = self._loaded()
            if isinstance(source, Beginner):
                return source.begin(what, region=region, account=account)
        except Exception as error:  # noqa: BLE001 - as above
            return self._problem(error)
        return one_job(self, f"{self.name}:{what}", what, region=region, account=account)

    def check(self) -> SourceProblem | None:
        try:
            source = self._loaded()
            return source.check() if isinstance(source, Checked) else None
        except Exception as error:  # noqa: BLE001 - as above
            return self._problem(error)

    def close(self) -> None:
        if self._source is not None:
            try:
                self._source.close()
            except Exception as error:  # noqa: BLE001 - as above, and others are still to be closed
                log.warning("%s", self._problem(error).message)

    def _loaded(self) -> Source:
        if self._source is None:
            self._source = self._load()
        return self._source

    def _problem(self, error: Exception) -> SourceProblem:
        return SourceProblem(
            f"The source {self.name!r} of {self._package} can not be used ({type(error).__name__}: {error})",
            lasting=True,
        )


def _by_key(executions: Sequence[Execution], told: Mapping[Any, Told]) -> dict[ExecutionKey, Told]:
    """The responses by key. A package may still map execution ids, as long as each is there once."""
    times = Counter(each.execution_id for each in executions)
    found = {}
    for each in executions:
        name = each.execution_id if each.key not in told and times[each.execution_id] == 1 else each.key
        if name not in told:
            raise LookupError(f"no response for {each.key}; return a mapping of `Execution.key`")
        found[each.key] = told[name]
    return found
