"""What `longwatch watch` does with the address of something in another system."""

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

WAIT_SECONDS = 2.0  # between two questions about what is not there yet
SHORTEST_SECONDS = 1.0  # between two looks

COLUMNS = (Column("SOURCE", 10, 14), Column("WHAT IT WATCHES", 5, 20, elastic=True), Column("FROM", 1, 9))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalWatchOptions:
    """How something in another system is to be watched."""

    patience: WatchLimits
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
        """Whether an option says how to read an HTTP response."""
        return bool(
            self.status_path
            or self.outcome_paths
            or self.accept_status_code
            or any((self.statuses or {}).values())
        )


def watch_target(
    invocation: Invocation, target: str, asked: ExternalWatchOptions
) -> tuple[str, WatchResult] | None:
    """Watch what this address means, and say how that ended; None if it is no address of a source."""
    settings, clock = invocation.settings(), invocation.clock
    known = sources(
        settings, clock=clock, headers=parse_headers(asked.headers), every_seconds=asked.every_seconds
    )
    meant = known.resolve(target)
    if meant is None:
        return None
    entry, what = meant
    if entry.name == "http":
        _unambiguous(asked.statuses or {})
        what = target = url_with_options(
            target,
            status=asked.status_path,
            statuses=asked.statuses,
            outcome=asked.outcome_paths,
            accept_status_code=asked.accept_status_code,
        )
    elif asked.reads_http or asked.headers:
        raise InvalidInput(
            "--status-path, --outcome-path, --accept-status-code, --header, --succeeded and --failed are for "
            "an https:// address only. For other sources, declare a watch in longwatch.toml."
        )
    if sqlite_path(settings.journal) is None:
        check_journal(settings, clock=clock)
    parts = WatchingParts(settings, executions_url=asked.url, sources=known, redact=redact_text, clock=clock)
    with stopped_by_signals(), closing(known), parts:
        store, journal = parts.store, parts.journal
        began = clock.monotonic()
        begun = _begun(store, known, entry, target, what, asked, clock)
        if isinstance(begun, WatchResult):
            return target, begun
        if begun.is_open:
            check_source(known[entry.name])
        patience = asked.patience.after(clock.monotonic() - began)
        with _shown(asked.output, clock, journal) as view:
            watch = SourceWatch(store, journal, parts.poller, view, clock=clock)
            return begun.execution_id, watch.run(begun, patience)


def _unambiguous(statuses: Mapping[str, Sequence[str]]) -> None:
    meant: dict[str, str] = {}
    for meaning, said in statuses.items():
        for word in said:
            if meant.setdefault(normalize(word), meaning) != meaning:
                raise InvalidInput(f"{clean(word)!r} can not mean two things: leave one option out.")


def parse_headers(lines: Sequence[str]) -> dict[str, str]:
    """`NAME: VALUE`, as curl takes them."""
    found = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            # The line may be a secret, so it is not told.
            raise InvalidInput("A --header has no name and colon; write 'Authorization: Bearer …'")
        found[name.strip()] = value.strip()
    return found


def _begun(
    store: ExecutionStore,
    known: Sources,
    entry: SourceEntry,
    target: str,
    what: str,
    asked: ExternalWatchOptions,
    clock: Clock,
) -> Execution | WatchResult:
    """The execution, once its source has answered. An outage is waited out, as any later one is.

    With --wait an id that the source does not know is waited for too. What no waiting changes is raised.
    """
    began, backoff = clock.monotonic(), SOURCE_BACKOFF
    reported = None
    while True:
        source = known[entry.name]
        found = resolve_execution(store, source, target, what, region=asked.region)
        if isinstance(found, Execution):
            return found
        if isinstance(found, SourceProblem) and found.lasting:
            raise InvalidInput(f"{found.message}.")
        if found is None and not asked.wait:
            raise ExecutionNotFound(
                f"There is no {target!r}: {entry.name} does not know it{_where(asked)}. "
                f"To wait for it, add --wait.{_credentials_hint(source)}"
            )
        why = f"{entry.name} does not know it yet" if found is None else found.message
        if reported is None or (found is None) is not reported:  # an outage is reported once
            remark(f"longwatch: waiting for {clean(target)}: {clean(why)}")
            reported = found is None
        waited = clock.monotonic() - began
        if (given_up := _given_up(asked.patience, waited, found)) is not None:
            return given_up
        backoff = SOURCE_BACKOFF if found is None else backoff.failed()
        nap = WAIT_SECONDS if found is None else found.retry_after_seconds or backoff.delay or WAIT_SECONDS
        timeout = asked.patience.timeout_seconds
        wait_for_readers(clock, nap if timeout is None else min(nap, timeout - waited))


def _given_up(patience: WatchLimits, waited: float, found: SourceProblem | None) -> WatchResult | None:
    """What becomes of a watch that has waited so long without a first answer; None: it waits on."""
    if patience.timeout_seconds is not None and waited >= patience.timeout_seconds:
        return WatchResult(Status.PENDING, error=None if found is None else found.message)
    if patience.silent_after_seconds is not None and waited >= patience.silent_after_seconds:
        why = "it has not begun" if found is None else found.message
        return WatchResult(Status.PENDING, Reason.SILENT, f"nothing new for {waited:.0f} s: {why}")
    return None


def _credentials_hint(source: Source) -> str:
    """What may be the cause if an endpoint does not know an id: many answer 404 without credentials."""
    names = unset_credentials(source.declaration) if isinstance(source, DeclaredSource) else []
    return f" If it is private, set {' and '.join(names)} first." if names else ""


def _where(asked: ExternalWatchOptions) -> str:
    return f" in {asked.region}" if asked.region else ""


@contextmanager
def _shown(output: str, clock: Clock, journal: Journal) -> Iterator[SourceView]:
    """A picture on a terminal, which stays; lines elsewhere."""
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
    """`--sources`: everything that can be watched besides runs."""
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
