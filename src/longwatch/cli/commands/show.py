"""`longwatch show RUN`: what happened in a run, as a tree with times."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import tzinfo
from itertools import islice

import click

from longwatch.cli.options import Invocation, common_options, output_option, pass_invocation, run_argument
from longwatch.cli.render.event_line import event_line, need_dates
from longwatch.cli.render.header import header
from longwatch.cli.render.styles import Segment, StyledLine
from longwatch.cli.render.terminal import Terminal, remark, write_data, write_json
from longwatch.cli.render.waterfall import MOST_CALLS, waterfall
from longwatch.cli.resolve import event_lines, find_run, open_for_reading, read_counted, read_events
from longwatch.clock import Clock
from longwatch.errors import RunNotFound
from longwatch.journal.base import Journal
from longwatch.journal.views import RunDetails
from longwatch.model.event import UNREADABLE, Event
from longwatch.model.run import Condition, Run, RunSummary, fold

FOLD_EVENTS = 10_000  # events folded at a time: a fold copies what it knows, so few large ones are cheaper
LATEST_EVENTS = 20  # shown when no event tells of a call


@click.command()
@run_argument
@click.option("--all", "everything", is_flag=True, help=f"Show all calls, not only the first {MOST_CALLS}.")
@click.option("--attempt", type=int, metavar="N", help="Show attempt N of a restarted run, from 1.")
@output_option()
@common_options
@pass_invocation
def command(invocation: Invocation, run: str, everything: bool, attempt: int | None, output: str) -> None:
    """Show a run: its agents, tools and times.

    RUN is the id of a run, the beginning of one, or `latest`. Of a run that was started again the last
    attempt is shown. With -o json the whole run is printed as one object, with -o jsonl its events, one a
    line.
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
        if attempts > 1:  # which events are those of one attempt is known only once the whole run is
            belongs = whole.attempt_of()
            events = (each for each in read_events(journal, found, clock=clock) if belongs(each) == number)
            own, latest = _folded(events)
            shown = whole.at_attempt(number, own)
    now = clock.now_ms()
    conditions = observed.conditions if number == attempts else ()
    if output == "json":
        write_json(RunDetails.of_attempt(whole, shown, now_ms=now, attempt=number, observed=conditions))
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
    )
    terminal.show(lines)
    if left_out:
        remark(f"{left_out:,} more calls; --all shows them.")


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
) -> tuple[list[StyledLine], int]:
    """Everything that is shown of a run, and how many calls were left out. Without calls: its last events."""
    lines = header(run, now_ms=now_ms, width=width, zone=zone, attempt=attempt, observed=observed)
    tree, left_out = waterfall(run, now_ms=now_ms, width=width, most=most)
    lines.append([Segment("")])
    if tree:
        return [*lines, *tree], left_out
    dated = need_dates(latest, now_ms=now_ms, zone=zone)
    lines += [event_line(event, width=width, dated=dated, zone=zone) for event in latest]
    return lines, 0


def _read(journal: Journal, found: RunSummary, clock: Clock) -> tuple[Run, list[Event]]:
    whole, latest = _folded(read_counted(journal, found, clock=clock))
    if whole is None:
        raise RunNotFound(f"Every event of run {found.run_id!r} has expired.")
    has_gaps = UNREADABLE in whole.counts
    return replace(whole, summary=_completed(whole.summary, found, has_gaps=has_gaps)), latest


def _folded(events: Iterator[Event]) -> tuple[Run | None, list[Event]]:
    """What the events say together, and the last of them."""
    run: Run | None = None
    latest: list[Event] = []
    for group in _groups(events):
        run = fold(group, run)
        latest = heapq.nlargest(LATEST_EVENTS, [*latest, *group], key=lambda event: event.order)
    return run, latest[::-1]


def _completed(told: RunSummary, known: RunSummary, *, has_gaps: bool) -> RunSummary:
    """What the events tell, and what the journal remembers of events that have expired since."""
    origin = known.origin if told.origin.inferred and not known.origin.inferred else told.origin
    started_at = min(told.started_at, known.started_at)
    # An unreadable event may be the one that ended the run: what the journal kept of it then still holds.
    lifecycle = told.lifecycle.merged(known.lifecycle) if has_gaps else told.lifecycle
    return replace(
        told,
        origin=origin,
        started_at=started_at,
        lifecycle=lifecycle,
        expired_before=known.expired_before,
    )


def _groups(events: Iterator[Event]) -> Iterator[list[Event]]:
    while group := list(islice(events, FOLD_EVENTS)):
        yield group
