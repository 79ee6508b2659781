"""`longwatch runs`: the list of runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import tzinfo
from typing import TYPE_CHECKING

import click

from longwatch.cli.options import (
    Invocation,
    QueryCommand,
    common_options,
    output_option,
    pass_invocation,
)
from longwatch.cli.render.styles import STATUS_LOOKS, Segment, StyledLine
from longwatch.cli.render.table import Column, table
from longwatch.cli.render.terminal import ProgressLine, Terminal, remark, write_json, write_json_lines
from longwatch.cli.render.text import clean, count_text
from longwatch.cli.render.times import ago_text, moment_ms, run_duration_text, start_text
from longwatch.cli.render.usage import cost_text, usage_text
from longwatch.cli.resolve import open_for_reading
from longwatch.clock import Clock
from longwatch.errors import InvalidInput
from longwatch.executions.progress import warnings_text
from longwatch.journal.base import Journal
from longwatch.journal.views import RunLine
from longwatch.model.failures import FailureGroup, failure_of, group_failures
from longwatch.model.prices import NO_PRICES, Prices, totals
from longwatch.model.query_language import parse_query
from longwatch.model.run import Condition, Run, RunSummary, Status, conditions
from longwatch.model.run_query import INDEX_KINDS, WORK, RunQuery
from longwatch.model.usage import total_usage
from longwatch.storage.price_file import PriceList

if TYPE_CHECKING:
    from longwatch.following.observation import ObservedRun, Observer

PAGE_RUNS = 500
MAX_GROUPS = 5  # of failures, below the table
NARROW_COLUMNS = 60
AGE_COLUMNS = 8

COLUMNS = (
    Column("", 11, 1),
    Column("RUN", 10, 11, elastic=True),
    Column("STATUS", 7, 9),
    Column("CONDITION", 6, 12, elastic=True),  # omitted if no run has one
    Column("KIND", 1, 8),
    Column("NAME", 8, 12, elastic=True),
    Column("TAGS", 6, 6, elastic=True),  # omitted if no run has one
    Column("STARTED", 3, 8),
    Column("AGE", 9, AGE_COLUMNS),
    Column("DURATION", 5, 8, right=True),
    Column("EVENTS", 4, 6, right=True),
    Column("AGENTS", 0, 6, right=True),
    Column("TOKENS", 4, 6, right=True),  # omitted if no run has called a model
    Column("COST", 4, 5, right=True),  # omitted if no run has a known cost
    Column("LAST EVENT", 2, 16, elastic=True),
    Column("FAILURE", 8, 24, elastic=True),  # omitted if no run has failed
)
OPTIONAL = frozenset({"CONDITION", "TAGS", "TOKENS", "COST", "FAILURE"})
ENDED = {Status.DIED: "died", Status.PARTIAL: "ended partial"}  # else: failed

SORTS: Mapping[str, Callable[[RunSummary, int], float]] = {
    "started": lambda run, _: run.started_at,
    "duration": lambda run, now_ms: run.longest_duration_ms(now_ms),
    "last": lambda run, _: run.last_event_at,
    "tokens": lambda run, _: totals(run.totals.usage, NO_PRICES).total_tokens,
    "events": lambda run, _: run.events,
}


@click.command(cls=QueryCommand)
@click.argument("terms", metavar="[QUERY]", nargs=-1)
@click.option(
    "--status",
    type=click.Choice([status.value for status in Status], case_sensitive=False),
    help="Only runs with this status.",
)
@click.option("--kind", help="workflow, session, turn, project, conversation, or a custom kind.")
@click.option(
    "--since", metavar="TIME", help="Started at or after TIME: 10m, 2h, 3d, an ISO time or epoch ms."
)
@click.option("--until", metavar="TIME", help="Started before TIME.")
@click.option("-q", "--text", help="Part of the ID or the name.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=50, show_default=True, help="Maximum number of runs."
)
@click.option("--all", "everything", is_flag=True, help="List all runs.")
@click.option(
    "--sort",
    type=click.Choice([*SORTS]),
    default="started",
    show_default=True,
    help="Order of the listed runs, the largest or newest first.",
)
@click.option("--scan", is_flag=True, help="Scan the whole table for runs of other producers, not only 4 MB.")
@output_option()
@common_options
@pass_invocation
def command(
    invocation: Invocation,
    terms: Sequence[str],
    status: str | None,
    kind: str | None,
    since: str | None,
    until: str | None,
    text: str | None,
    limit: int,
    everything: bool,
    sort: str,
    scan: bool,
    output: str,
) -> None:
    """List runs, newest first.

    QUERY selects runs by words of their ID or name and by field:value. Fields are agent, duration, error,
    kind, name, run, session, since, status, tag, tool, until and user. Commas separate alternatives, and a
    leading minus negates.

    \b
    longwatch runs 'status:failed agent:reader error:Timeout since:2d'
    longwatch runs 'tag:nightly -status:succeeded duration:>5m'
    """
    now = invocation.clock.now_ms()
    query = RunQuery(
        status=Status(status) if status else None,
        kind=kind,
        except_kinds=INDEX_KINDS if kind is None else frozenset(),
        since=moment_ms(since, now_ms=now) if since else None,
        until=moment_ms(until, now_ms=now) if until else None,
        text=text,
    )
    query = parse_query(" ".join(terms), now_ms=now, within=query)
    from longwatch.following.merged_runs import MergedRuns
    from longwatch.following.observation import Observer
    from longwatch.following.unlisted_runs import scan_unlisted

    most = None if everything else limit
    with open_for_reading(invocation) as journal:
        if scan:
            scanned, more = _scan(journal, query, most, invocation.clock)
            runs, notice = Observer(journal, clock=invocation.clock).observed(scanned), None
        else:
            unlisted = scan_unlisted(journal)
            merged, notice = MergedRuns(journal, lambda: unlisted.runs), unlisted.notice
            observer = Observer(journal, clock=invocation.clock, runs=merged)
            runs, more = _list(observer, query, most, invocation.clock)
    groups = group_failures(each.run for each in runs)
    if sort != "started":
        runs = sorted(runs, key=lambda each: SORTS[sort](each.run, now), reverse=True)
    prices = PriceList(invocation.settings()).current()
    if output == "json":
        write_json([_view(each, now, prices) for each in runs])
    elif output == "jsonl":
        write_json_lines(_view(each, now, prices) for each in runs)
    elif runs:
        terminal = Terminal.of_stdout()
        terminal.show(run_table(runs, now_ms=now, width=terminal.columns, prices=prices))
        usage = total_usage(each.run.totals.usage for each in runs)
        if usage:
            remark(f"Usage of these runs: {usage_text(usage, prices)}.")
        for group in groups[:MAX_GROUPS]:
            remark(f"{_group_text(group, now)}.")
    if not runs:
        remark("No runs." if query == WORK else "No matching runs.")
    elif more:
        remark(f"Showing the newest {count_text(len(runs), 'run')}. For more, use --limit or --all.")
    if notice is not None:
        remark(notice)


def _view(found: ObservedRun, now_ms: int, prices: Prices) -> RunLine:
    return RunLine.of(found.run, now_ms=now_ms, observed=found.conditions, prices=prices)


def _list(
    observer: Observer, query: RunQuery, most: int | None, clock: Clock
) -> tuple[list[ObservedRun], bool]:
    runs: list[ObservedRun] = []
    cursor = None
    with ProgressLine("Reading runs:", clock=clock) as progress:
        while True:
            wanted = PAGE_RUNS if most is None else min(PAGE_RUNS, most - len(runs))
            page = observer.find_runs(query, after=cursor, limit=wanted)
            runs += page.runs
            progress.add(len(page.runs))
            cursor = page.cursor
            if cursor is None or (most is not None and len(runs) >= most):
                return runs, cursor is not None


def _scan(journal: Journal, query: RunQuery, most: int | None, clock: Clock) -> tuple[list[RunSummary], bool]:
    scan_runs = getattr(journal, "scan_runs", None)
    if scan_runs is None:
        raise InvalidInput(f"--scan needs a DynamoDB table; {journal.url} lists every run without it.")
    runs: list[RunSummary] = []
    with ProgressLine("Scanning, runs found:", clock=clock) as progress:
        for run in scan_runs():
            if query.accepts(run):
                runs.append(run)
                progress.add(1)
    runs.sort(key=lambda run: (run.started_at, run.run_id), reverse=True)
    return (runs, False) if most is None else (runs[:most], len(runs) > most)


def run_table(
    runs: Sequence[ObservedRun],
    *,
    now_ms: int,
    width: int | None,
    zone: tzinfo | None = None,
    prices: Prices = NO_PRICES,
) -> list[StyledLine]:
    """The runs as a table that fits the width, each with its gravest condition or its warnings."""
    rows = [_row(each, now_ms, zone, prices) for each in runs]
    shown = [
        index
        for index, column in enumerate(COLUMNS)
        if column.title not in OPTIONAL or any(row[index].text for row in rows)
    ]
    columns = [COLUMNS[index] for index in shown]
    return table(columns, [[row[index] for index in shown] for row in rows], width=width)


def _condition_text(conditions: Sequence[Condition], now_ms: int, zone: tzinfo | None) -> str:
    if not conditions:
        return ""
    gravest = max(conditions, key=lambda each: each.severity)
    name = gravest.message.partition(":")[0] if gravest.name == "waiting" else gravest.name
    if gravest.since is None:
        return name
    return f"{name} since {start_text(gravest.since, now_ms=now_ms, zone=zone)}"


def _failure_text(run: RunSummary) -> str:
    """`FeedTimeout: no response · fetch_prices of reader`"""
    failure = failure_of(run)
    if failure is None:
        return ""
    call = failure.call
    if call is None:
        return failure.error
    agent = f" of {call.agent_name}" if call.agent_name and call.agent_name != call.name else ""
    return f"{failure.error} · {call.name}{agent}"


def _group_text(group: FailureGroup, now_ms: int, zone: tzinfo | None = None) -> str:
    """`14 runs failed with FeedTimeout in fetch_prices since 09:10:00`"""
    failure = group.failure
    call = f" in {failure.call.name}" if failure.call else ""
    since = start_text(group.since, now_ms=now_ms, zone=zone)
    verb, error = ENDED.get(failure.status, "failed"), failure.error_class or f"“{failure.error}”"
    return clean(f"{len(group.run_ids):,} runs {verb} with {error}{call} since {since}")


def _warnings(run: RunSummary) -> str:
    return warnings_text(run.warning_count) if run.warning_count else ""


def _usage_segments(run: RunSummary, prices: Prices) -> tuple[Segment, Segment]:
    """Tokens and cost. A `+` marks a sum that lacks some of the run's calls."""
    if not run.totals.usage:
        return Segment(""), Segment("")
    sums = totals(run.totals.usage, prices)
    tokens = f"{sums.total_tokens:,}{'+' if sums.calls_with_tokens < sums.model_calls else ''}"
    partial = "+" if sums.priced_calls < sums.model_calls else ""
    cost = "" if sums.cost is None else f"{cost_text(sums.cost)}{partial}"
    return Segment(tokens if sums.calls_with_tokens else "?"), Segment(cost)


def _row(found: ObservedRun, now_ms: int, zone: tzinfo | None, prices: Prices) -> list[Segment]:
    run = found.run
    symbol, style = STATUS_LOOKS[run.status]
    found_now = conditions(Run(run), now_ms, observed=found.conditions)
    return [
        Segment(symbol, style),
        Segment(clean(run.run_id), "strong"),
        Segment(run.status.value, style),
        Segment(clean(_condition_text(found_now, now_ms, zone)) or _warnings(run), "warn"),
        Segment(clean(run.kind)),
        Segment(clean(run.name or "")),
        Segment(clean(", ".join(sorted(run.tags))), "dim"),
        Segment(start_text(run.started_at, now_ms=now_ms, zone=zone)),
        # "2 s ago" as wide as "just now": which columns there is room for must not depend on a run's age.
        Segment(ago_text(run.started_at, now_ms=now_ms).ljust(AGE_COLUMNS), "dim"),
        Segment(run_duration_text(run, now_ms)),
        Segment(f"{run.events:,}"),
        Segment(f"{len(run.agents)}"),
        *_usage_segments(run, prices),
        Segment(clean(run.last_event_type), "dim"),
        Segment(clean(_failure_text(run)), style),
    ]
