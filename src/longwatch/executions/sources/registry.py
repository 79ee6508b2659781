"""The registry of sources: shipped, declared in the settings, and of other packages.

A package provides one as an entry point of the group `longwatch.sources`, which is a `Declaration`, or a
function without arguments that makes a `Source`. Nothing is imported or connected before it is used, and a
broken source does not affect the others.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.errors import InvalidInput, InvalidSettings
from longwatch.executions.model import Execution, ExecutionKey
from longwatch.executions.sources.base import Source, SourceCheck, SourceProblem, SourceResult, Starter
from longwatch.executions.sources.declaration_parser import parse_declaration
from longwatch.executions.sources.declarations import AwsCall, Declaration
from longwatch.executions.sources.shipped import AWS, CI, HTTP

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from longwatch.settings import Settings

log = logging.getLogger(__name__)


class OfferedSource:
    """A source of another package, under the name of its entry point. Exceptions become problems."""

    def __init__(self, name: str, package: str, load: Callable[[], Source]) -> None:
        self.name = name
        self._package = package
        self._load = load
        self._source: Source | None = None

    def poll(self, executions: Sequence[Execution]) -> Mapping[ExecutionKey, SourceResult]:
        try:
            found = _by_key(executions, self._get().poll(executions))
            for each in found.values():
                if not isinstance(each, SourceResult):
                    raise TypeError(f"poll returned {type(each).__name__}")
            return found
        except Exception as error:  # noqa: BLE001 - a package may raise anything
            return {each.key: self._problem(error) for each in executions}

    def begin(
        self, job_id: str, *, region: str | None = None, account: str | None = None
    ) -> Execution | SourceProblem | None:
        """The execution that the source creates, or one of a single job with this id."""
        from longwatch.executions.sources.resolve import one_job

        try:
            source = self._get()
            if isinstance(source, Starter):
                return source.begin(job_id, region=region, account=account)
        except Exception as error:  # noqa: BLE001 - as above
            return self._problem(error)
        return one_job(self, f"{self.name}:{job_id}", job_id, region=region, account=account)

    def check(self) -> SourceProblem | None:
        try:
            source = self._get()
            return source.check() if isinstance(source, SourceCheck) else None
        except Exception as error:  # noqa: BLE001 - as above
            return self._problem(error)

    def close(self) -> None:
        if self._source is not None:
            try:
                self._source.close()
            except Exception as error:  # noqa: BLE001 - as above, and the others still have to be closed
                log.warning("%s", self._problem(error).message)

    def _get(self) -> Source:
        if self._source is None:
            self._source = self._load()
        return self._source

    def _problem(self, error: Exception) -> SourceProblem:
        return SourceProblem(
            f"Source {self.name!r} of package {self._package} failed ({type(error).__name__}: {error})",
            lasting=True,
        )


def _by_key(
    executions: Sequence[Execution], results: Mapping[Any, SourceResult]
) -> dict[ExecutionKey, SourceResult]:
    """The results by key. A package may still map execution ids, as long as each occurs once."""
    times = Counter(each.execution_id for each in executions)
    found = {}
    for each in executions:
        name = each.execution_id if each.key not in results and times[each.execution_id] == 1 else each.key
        if name not in results:
            raise LookupError(f"no response for {each.key}; return a mapping of `Execution.key`")
        found[each.key] = results[name]
    return found


GROUP = "longwatch.sources"
SHIPPED = "longwatch"
RESERVED = frozenset({"aws", "https", "pid"})  # prefixes of shipped sources

Make = Callable[[], Source]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceEntry:
    """One source in the list."""

    name: str  # in `Execution.source`
    usage: str  # for people, as `aws:codebuild:ID`
    about: str
    origin: str  # longwatch, a file, or a package
    make: Make

    @property
    def prefix(self) -> str:
        """The part before the id."""
        return self.usage.removesuffix("ID").removesuffix("URL")


class Sources(Mapping[str, Source]):
    """The sources by name, each made when it is first used."""

    def __init__(self, entries: Sequence[SourceEntry]) -> None:
        self.entries = tuple(entries)
        self._by_name = {each.name: each for each in entries}
        self._made: dict[str, Source] = {}
        self._lock = threading.Lock()  # threads share them, and a source must not be made twice

    def __getitem__(self, name: str) -> Source:
        with self._lock:
            if name not in self._made:
                self._made[name] = self._by_name[name].make()
            return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def resolve(self, target: str) -> tuple[SourceEntry, str] | None:
        """The source and the job id of a target such as `aws:codebuild:ID`; None if no source matches."""
        if target.startswith(("http://", "https://")):
            return self._by_name["http"], target
        for entry in self.entries:
            if entry.name != "http" and target.startswith(entry.prefix):
                return entry, target.removeprefix(entry.prefix)
        if target.startswith("aws:"):
            raise InvalidInput(
                f"Unknown source in {target!r}. Use one of {', '.join(each.usage for each in self.entries)}."
            )
        return None

    def close(self) -> None:
        """Close the sources that were made."""
        with self._lock:
            made, self._made = list(self._made.values()), {}
        for source in made:
            source.close()


def sources(
    settings: Settings | None = None,
    *,
    clock: Clock = SYSTEM_CLOCK,
    headers: Mapping[str, str] | None = None,
    every_seconds: float | None = None,
) -> Sources:
    """All sources. `headers` are sent with every HTTP request, and `every_seconds` overrides the declared
    interval, in this process only."""
    from importlib.metadata import entry_points

    making = _Making(clock, headers or {}, every_seconds)
    entries = [*_shipped(making)]
    names = {each.name for each in entries}
    mistakes: list[str] = []
    where = str(settings.file) if settings and settings.file else "longwatch.toml"
    for name, table in (settings.watches if settings else {}).items():
        try:
            declaration = parse_declaration(name, table, where=where)
        except InvalidSettings as error:
            mistakes += error.mistakes
            continue
        if name in CI:  # a declaration in the settings replaces it
            entries = [each for each in entries if each.name != name]
        elif name in names or name in RESERVED:
            mistakes.append(f"{where}: watches.{name} has the name of a shipped source. Use another name")
        names.add(name)
        entries.append(_declared(declaration, where, making))
    if mistakes:
        raise InvalidSettings(mistakes)
    entries += [
        _entry_point(point, making)
        for point in entry_points(group=GROUP)
        if point.name not in names  # the settings override packages
    ]
    return Sources(entries)


@dataclass(frozen=True, slots=True)
class _Making:
    """The options that sources are made with."""

    clock: Clock
    headers: Mapping[str, str]
    every_seconds: float | None

    def source(self, declaration: Declaration) -> Source:
        every = self.every_seconds
        if every is not None:
            declaration = replace(declaration, pending_seconds=every, running_seconds=every)
        return source_of(declaration, clock=self.clock, headers=self.headers)


def source_of(
    declaration: Declaration, *, clock: Clock = SYSTEM_CLOCK, headers: Mapping[str, str] | None = None
) -> Source:
    """Make the source of a declaration."""
    from longwatch.executions.sources.declared import DeclaredSource

    if isinstance(declaration.call, AwsCall):
        from longwatch.executions.sources.aws import AwsCaller

        return DeclaredSource(declaration, AwsCaller(declaration), clock=clock)
    from longwatch.executions.sources.http import HttpCaller

    return DeclaredSource(declaration, HttpCaller(declaration, headers), clock=clock)


def _shipped(making: _Making) -> Iterator[SourceEntry]:
    def drs() -> Source:
        from longwatch.executions.sources.drs import DrsSource

        return DrsSource(clock=making.clock)

    def process() -> Source:
        from longwatch.executions.sources.process import ProcessSource

        return ProcessSource(clock=making.clock)

    yield SourceEntry(
        name="drs", usage="aws:drs:ID", about="A job of Elastic Disaster Recovery", origin=SHIPPED, make=drs
    )
    for declaration in (*AWS.values(), *CI.values(), HTTP):
        yield _declared(declaration, SHIPPED, making)
    yield SourceEntry(
        name="process", usage="pid:ID", about="A process of this machine", origin=SHIPPED, make=process
    )


def _declared(declaration: Declaration, origin: str, making: _Making) -> SourceEntry:
    return SourceEntry(
        name=declaration.name,
        usage=f"{declaration.prefix}ID" if declaration.prefix else "https://…",
        about=declaration.about,
        origin=origin,
        make=lambda: making.source(declaration),
    )


def _entry_point(point: EntryPoint, making: _Making) -> SourceEntry:
    package = point.dist.name if point.dist else point.module

    def load() -> Source:
        offered = point.load()
        if isinstance(offered, Declaration):
            return making.source(replace(offered, name=point.name, prefix=f"{point.name}:"))
        made: Source = offered()
        return made

    def make() -> Source:

        return OfferedSource(point.name, package, load)

    return SourceEntry(name=point.name, usage=f"{point.name}:ID", about="", origin=package, make=make)
