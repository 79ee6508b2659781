"""Checks whether sources can be polled from this machine, before a lease is taken."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from longwatch.cli.render.terminal import remark
from longwatch.cli.render.text import clean
from longwatch.errors import InvalidInput
from longwatch.executions.sources.base import IdCheck, Source, SourceCheck, SourceProblem


def check_source(source: Source) -> None:
    """Raise `InvalidInput` if an extra, credentials or a variable is missing."""
    problem = _problem(source)
    if problem is not None:
        raise InvalidInput(f"{problem.message}.")


def check_job_ids(source: Source, job_ids: Iterable[str]) -> None:
    """Raise `InvalidInput` for an id that no job of this source can have: it would be polled for ever."""
    if not isinstance(source, IdCheck):
        return
    for each in job_ids:
        problem = source.check_id(each)
        if problem is not None:
            raise InvalidInput(f"{problem.message}.")


def unusable_sources(names: Collection[str], known: Mapping[str, Source]) -> set[str]:
    """The named sources that cannot be polled from this machine, each reported once.

    Raises `InvalidInput` if that leaves nothing to poll.
    """
    found = {name: _problem(known[name]) for name in sorted(names) if name in known}
    problems = {name: problem for name, problem in found.items() if problem is not None}
    if problems and len(problems) == len(names):
        raise InvalidInput(". ".join(dict.fromkeys(each.message for each in problems.values())) + ".")
    for name, problem in problems.items():
        remark(f"longwatch: executions of {name} are not polled: {clean(problem.message)}")
    return set(problems)


def _problem(source: Source) -> SourceProblem | None:
    return source.check() if isinstance(source, SourceCheck) else None
