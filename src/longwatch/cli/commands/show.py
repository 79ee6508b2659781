"""`longwatch show RUN`: the calls of a run as a tree with times."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import tzinfo

import click

from longwatch.cli.options import Invocation, common_options, output_option, pass_invocation, run_argument
from longwatch.cli.render.event_line import event_line, need_dates
from longwatch.cli.render.header import header
from longwatch.cli.render.styles import Segment, StyledLine
from longwatch.cli.render.terminal import Terminal, batches, remark, write_data, write_json
from longwatch.cli.render.waterfall import MOST_CALLS, waterfall
from longwatch.cli.resolve import event_lines, find_run, open_for_reading, read_counted, read_events
from longwatch.clock import Clock
from longwatch.errors import RunNotFound
from longwatch.journal.base import Journal
from longwatch.journal.views import RunDetails
from longwatch.model.event import UNREADABLE, Event
from longwatch.model.prices import NO_PRICES, Prices
from longwatch.model.run import Condition, Run, RunSummary, fold
from longwatch.storage.price_file import PriceList

FOLD_EVENTS = 10_000  # folded at a time: each fold copies the run, so few large ones are cheaper
LATEST_EVENTS = 20  # shown if the run has no calls


@click.command()
@run_argument
@click.option("--all", "everything", is_flag=True, help=f"Show all calls, not only the first {MOST_CALLS}.")
@click.option("--attempt", type=int, metavar="N", help="Show attempt N of a restarted run, from 1.")
@output_option()
@common_options
@pass_invocation
def command(invocation: Invocation, run: str, everything: bool, attempt: int | None, output: str) -> None:
    """Show a run: its agents, tools and times.

    RUN is a run ID, the beginning of one, or `latest`. Of a restarted run, the last attempt is shown.
    -o json prints the whole run as one object, -o jsonl its events, one per line.
    """
    from longwatch.following.observation import Observer

    clock = invocation.clock
    with open_for_reading(invocation) as journal:
        found = find_run(journal, run)
        if output == "jsonl":
            write_data(event_lines(journal, found, clock=clock))
            return
        whole, latest = _read(journal, found, clock)
        [observed] = Observer(journal, clock=clock).observed([whole.summary])
        whole = replace(whole, summary=observed.run)
        attempts = len(observed.run.attempts)
        number = attempts if attempt is None else attempt
        shown = whole.at_attempt(number)
        if attempts > 1:  # events can be assigned to attempts only when the whole run is read
            belongs = whole.attempt_of()
            events = (each for each in read_events(journal, found, clock=clock) if belongs(each) == number)
            own, latest = _fold_events(events)
            shown = whole.at_attempt(number, own)
    now, prices = clock.now_ms(), PriceList(invocation.settings()).current()
    conditions = observed.conditions if number == attempts else ()
    if output == "json":
        write_json(
            RunDetails.of_attempt(
                whole, shown, now_ms=now, attempt=number, observed=conditions, prices=prices
            )
        )
        return
    terminal = Terminal.of_stdout()
    most = None if everything else MOST_CALLS
    lines, left_out = run_lines(
        shown,
        latest,
        now_ms=now,
        width=terminal.columns,
        most=most,
        attempt=(number, attempts),
        observed=conditions,
        prices=prices,
    )
    terminal.show(lines)
    if left_out:
        remark(f"{left_out:,} more calls. Show them with --all.")


def run_lines(
    run: Run,
    latest: list[Event],
    *,
    now_ms: int,
    width: int | None,
    most: int | None = None,
    zone: tzinfo | None = None,
    attempt: tuple[int, int] | None = None,
    observed: Sequence[Condition] = (),
    prices: Prices = NO_PRICES,
) -> tuple[list[StyledLine], int]:
    """The text view of a run, and the number of omitted calls. A run without calls shows its last events."""
    lines = header(
        run, now_ms=now_ms, width=width, zone=zone, attempt=attempt, observed=observed, prices=prices
    )
    tree, left_out = waterfall(run, now_ms=now_ms, width=width, most=most, prices=prices)
    lines.append([Segment("")])
    if tree:
        return [*lines, *tree], left_out
    dated = need_dates(latest, now_ms=now_ms, zone=zone)
    lines += [event_line(event, width=width, dated=dated, zone=zone) for event in latest]
    return lines, 0


def _read(journal: Journal, found: RunSummary, clock: Clock) -> tuple[Run, list[Event]]:
    whole, latest = _fold_events(read_counted(journal, found, clock=clock))
    if whole is None:
        raise RunNotFound(f"Every event of run {found.run_id!r} has expired.")
    has_gaps = UNREADABLE in whole.counts
    return replace(whole, summary=_complete(whole.summary, found, has_gaps=has_gaps)), latest


def _fold_events(events: Iterator[Event]) -> tuple[Run | None, list[Event]]:
    """The fold of the events, and the last of them."""
    run: Run | None = None
    latest: list[Event] = []
    for batch in batches(events, FOLD_EVENTS):
        run = fold(batch, run)
        latest = heapq.nlargest(LATEST_EVENTS, [*latest, *batch], key=lambda event: event.order)
    return run, latest[::-1]


def _complete(folded: RunSummary, stored: RunSummary, *, has_gaps: bool) -> RunSummary:
    """The folded summary, with what the journal stored about events that have expired since."""
    origin = stored.origin if folded.origin.inferred and not stored.origin.inferred else folded.origin
    # An unreadable event may be the one that ended the run; the stored summary still has that ending.
    lifecycle = folded.lifecycle.merged(stored.lifecycle) if has_gaps else folded.lifecycle
    return replace(
        folded,
        origin=origin,
        started_at=min(folded.started_at, stored.started_at),
        lifecycle=lifecycle,
        expired_before=stored.expired_before,
        totals=folded.totals if stored.expired_before is None else folded.totals.highest(stored.totals),
    )
