"""`longwatch watch TARGET` for a job of another system, such as `aws:codebuild:ID` or a URL."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass

from longwatch.cli.follow_run import WatchResult
from longwatch.cli.options import Invocation
from longwatch.cli.render.external_views import SourceLines, SourcePicture, SourceView
from longwatch.cli.render.run_views import print_json_lines, screen, text_printer
from longwatch.cli.render.styles import Segment
from longwatch.cli.render.table import Column, table
from longwatch.cli.render.terminal import Terminal, remark, write_json, write_json_lines
from longwatch.cli.render.text import clean
from longwatch.cli.resolve import check_journal, sqlite_path
from longwatch.cli.signals import stopped_by_signals
from longwatch.cli.source_checks import check_source
from longwatch.cli.watch_external import SourceWatch, WatchLimits, wait_for_readers
from longwatch.clock import Clock
from longwatch.errors import ExecutionNotFound, InvalidInput
from longwatch.executions.cadence.cadence import read_cadence
from longwatch.executions.compose import WatchingParts
from longwatch.executions.due import SOURCE_BACKOFF
from longwatch.executions.model import Execution
from longwatch.executions.sources.base import Source, SourceProblem
from longwatch.executions.sources.declarations import normalize
from longwatch.executions.sources.declared import DeclaredSource
from longwatch.executions.sources.http import unset_credentials
from longwatch.executions.sources.http_url import url_with_options
from longwatch.executions.sources.registry import SourceEntry, Sources, sources
from longwatch.executions.sources.resolve import resolve_execution
from longwatch.executions.stores.base import ExecutionStore
from longwatch.following import Reason
from longwatch.journal.base import Journal
from longwatch.model.run import Status
from longwatch.recording.redaction import redact_text

WAIT_SECONDS = 2.0  # between two polls for a job that does not exist yet
SHORTEST_SECONDS = 1.0  # between two polls

COLUMNS = (Column("SOURCE", 10, 14), Column("WHAT IT WATCHES", 5, 20, elastic=True), Column("FROM", 1, 9))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalWatchOptions:
    """The options of `longwatch watch` for a job of another system."""

    limits: WatchLimits
    wait: bool = False
    output: str = "text"
    region: str | None = None
    url: str | None = None  # of the executions
    status_path: str | None = None
    outcome_paths: Sequence[str] = ()
    accept_status_code: bool = False
    headers: Sequence[str] = ()
    statuses: Mapping[str, Sequence[str]] | None = None
    every_seconds: float | None = None

    @property
    def reads_http(self) -> bool:
        """Whether an option states how to parse an HTTP response."""
        return bool(
            self.status_path
            or self.outcome_paths
            or self.accept_status_code
            or any((self.statuses or {}).values())
        )


def watch_target(
    invocation: Invocation, target: str, options: ExternalWatchOptions
) -> tuple[str, WatchResult] | None:
    """Watch the job of this target, and return its id and the result; None if no source matches."""
    settings, clock = invocation.settings(), invocation.clock
    registry = sources(
        settings, clock=clock, headers=parse_headers(options.headers), every_seconds=options.every_seconds
    )
    resolved = registry.resolve(target)
    if resolved is None:
        return None
    entry, job_id = resolved
    if entry.name == "http":
        _check_meanings(options.statuses or {})
        job_id = target = url_with_options(
            target,
            status=options.status_path,
            statuses=options.statuses,
            outcome=options.outcome_paths,
            accept_status_code=options.accept_status_code,
        )
    elif options.reads_http or options.headers:
        raise InvalidInput(
            "--status-path, --outcome-path, --accept-status-code, --header, --succeeded and --failed are for "
            "an https:// URL only. For other sources, declare a watch in longwatch.toml."
        )
    if sqlite_path(settings.journal) is None:
        check_journal(settings, clock=clock)
    parts = WatchingParts(
        settings, executions_url=options.url, sources=registry, redact=redact_text, clock=clock
    )
    with stopped_by_signals(), closing(registry), parts:
        store, journal = parts.store, parts.journal
        began = clock.monotonic()
        first = _wait_for_first_response(store, registry, entry, target, job_id, options, clock)
        if isinstance(first, WatchResult):
            return target, first
        if first.is_open:
            check_source(registry[entry.name])
        limits = options.limits.after(clock.monotonic() - began)
        with _open_view(options.output, clock, journal) as view:
            watch = SourceWatch(store, journal, parts.poller, view, clock=clock)
            return first.execution_id, watch.run(first, limits)


def _check_meanings(statuses: Mapping[str, Sequence[str]]) -> None:
    meanings: dict[str, str] = {}
    for meaning, listed in statuses.items():
        for status in listed:
            if meanings.setdefault(normalize(status), meaning) != meaning:
                raise InvalidInput(
                    f"Status {clean(status)!r} is given for both --succeeded and --failed. Use one."
                )


def parse_headers(lines: Sequence[str]) -> dict[str, str]:
    """Parse `NAME: VALUE`, as curl does."""
    found = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            # The line may be a secret, so the message does not quote it.
            raise InvalidInput("Invalid --header without a name and a colon. Use 'Authorization: Bearer …'.")
        found[name.strip()] = value.strip()
    return found


def _wait_for_first_response(
    store: ExecutionStore,
    registry: Sources,
    entry: SourceEntry,
    target: str,
    job_id: str,
    options: ExternalWatchOptions,
    clock: Clock,
) -> Execution | WatchResult:
    """The execution, once its source has responded. Outages are retried, as later ones are.

    With --wait, an id that the source does not have is retried too. Lasting problems are raised.
    """
    began, backoff = clock.monotonic(), SOURCE_BACKOFF
    reported = None
    while True:
        source = registry[entry.name]
        found = resolve_execution(store, source, target, job_id, region=options.region)
        if isinstance(found, Execution):
            return found
        if isinstance(found, SourceProblem) and found.lasting:
            raise InvalidInput(f"{found.message}.")
        if found is None and not options.wait:
            raise ExecutionNotFound(
                f"{entry.name} has no {target!r}{_where(options)}. "
                f"Use --wait to wait for it.{_credentials_hint(source)}"
            )
        why = f"{entry.name} does not have it yet" if found is None else found.message
        if reported is None or (found is None) is not reported:  # an outage is reported once
            remark(f"longwatch: waiting for {clean(target)}: {clean(why)}")
            reported = found is None
        waited = clock.monotonic() - began
        if (given_up := _limit_reached(options.limits, waited, found)) is not None:
            return given_up
        backoff = SOURCE_BACKOFF if found is None else backoff.failed()
        seconds = (
            WAIT_SECONDS if found is None else found.retry_after_seconds or backoff.delay or WAIT_SECONDS
        )
        timeout = options.limits.timeout_seconds
        wait_for_readers(clock, seconds if timeout is None else min(seconds, timeout - waited))


def _limit_reached(limits: WatchLimits, waited: float, found: SourceProblem | None) -> WatchResult | None:
    """The result of a watch that has reached a limit without a first response; None: it continues."""
    if limits.timeout_seconds is not None and waited >= limits.timeout_seconds:
        return WatchResult(Status.PENDING, error=None if found is None else found.message)
    if limits.silent_after_seconds is not None and waited >= limits.silent_after_seconds:
        why = "it does not exist yet" if found is None else found.message
        return WatchResult(Status.PENDING, Reason.SILENT, f"nothing new for {waited:.0f} s: {why}")
    return None


def _credentials_hint(source: Source) -> str:
    """A possible cause of a missing id: many endpoints return 404 without credentials."""
    names = unset_credentials(source.declaration) if isinstance(source, DeclaredSource) else []
    return f" If it is private, set {' and '.join(names)} first." if names else ""


def _where(options: ExternalWatchOptions) -> str:
    return f" in {options.region}" if options.region else ""


@contextmanager
def _open_view(output: str, clock: Clock, journal: Journal) -> Iterator[SourceView]:
    """The view: a picture that stays on a terminal, lines elsewhere."""
    terminal = Terminal.of_stdout()
    if output == "jsonl":
        yield SourceLines(print_json_lines)
    elif not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        yield SourceLines(text_printer(terminal, now_ms=clock.now_ms()))
    else:
        with screen(terminal) as opened:
            opened.keep()
            yield SourcePicture(opened, read_cadence(journal))


def show_sources(invocation: Invocation, output: str) -> None:
    """`--sources`: the sources that can be watched."""
    entries = sources(invocation.settings(), clock=invocation.clock).entries
    views = [{"usage": each.usage, "about": each.about, "origin": each.origin} for each in entries]
    if output == "json":
        write_json(views)
        return
    if output == "jsonl":
        write_json_lines(views)
        return
    terminal = Terminal.of_stdout()
    rows = [
        [Segment(clean(each.usage), "strong"), Segment(clean(each.about)), Segment(clean(each.origin), "dim")]
        for each in entries
    ]
    terminal.show(table(COLUMNS, rows, width=terminal.columns))
