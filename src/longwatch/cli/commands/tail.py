"""`longwatch tail RUN`: the events of a run in order, one line each; with -f also those to come."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

import click

from longwatch.cli.options import Invocation, common_options, output_option, pass_invocation, run_argument
from longwatch.cli.render.event_line import (
    event_line,
    is_of_another_day,
    need_dates,
    reports_failure,
)
from longwatch.cli.render.terminal import Terminal, batches, remark, write_data
from longwatch.cli.render.text import clean
from longwatch.cli.render.times import moment_ms
from longwatch.cli.resolve import open_for_reading, read_events
from longwatch.cli.sorted_lines import sorted_lines
from longwatch.clock import Clock
from longwatch.errors import JournalUnavailable
from longwatch.journal.arrivals import last_events
from longwatch.journal.base import Journal, ReadsLast
from longwatch.journal.codec import to_line
from longwatch.journal.run_lookup import find_run
from longwatch.model.event import UNREADABLE, Event
from longwatch.model.run import RunSummary

LINES_AT_ONCE = 200  # printed at once, so that a closed pipe is noticed early
LAST_EVENTS = 500  # of a run, read before the whole run for `-n`


@click.command()
@run_argument
@click.option("-f", "--follow", is_flag=True, help="Keep printing new events until the run has ended.")
@click.option("--since", metavar="TIME", help="Only events since TIME: 10m, 2h, 3d, an ISO time or epoch ms.")
@click.option("-n", "--lines", type=click.IntRange(min=0), help="Only the last N events.")
@click.option("--type", "types", multiple=True, metavar="TYPE", help="Only events of this type; repeatable.")
@click.option(
    "--agent", "agents", multiple=True, metavar="NAME", help="Only events of this agent; repeatable."
)
@click.option("--errors", is_flag=True, help="Only failures.")
@output_option()
@common_options
@pass_invocation
def command(
    invocation: Invocation,
    run: str,
    follow: bool,
    since: str | None,
    lines: int | None,
    types: tuple[str, ...],
    agents: tuple[str, ...],
    errors: bool,
    output: str,
) -> None:
    """Print a run's events, one line each.

    RUN is a run ID, the beginning of one, or `latest`. With -f, the history comes first, in order, then every
    event as it arrives, marked if it is late.
    """
    if follow and output == "json":
        raise click.UsageError("-o json cannot be combined with -f. Use -o jsonl.")
    now = invocation.clock.now_ms()
    first = moment_ms(since, now_ms=now) if since else 0
    wanted = _filter(first, frozenset(types), frozenset(agents), errors)
    with open_for_reading(invocation) as journal:
        found = find_run(journal, run)
        if follow:
            _follow(journal, found.run_id, wanted, lines, output, invocation.clock)
            return
        terminal = Terminal.of_stdout()
        if lines is None:
            moments = max(first, found.started_at), found.last_event_at
            dated = any(is_of_another_day(moment, now_ms=now) for moment in moments)
            events = filter(wanted, read_events(journal, found, clock=invocation.clock))
            printed = sorted_lines(events, text_of=_writer(output, terminal, dated=dated))
        else:
            newest = _last(journal, found, wanted, lines, invocation.clock)
            printed = map(_writer(output, terminal, dated=need_dates(newest, now_ms=now)), newest)
        first_line = next(printed, None)
        if first_line is not None:
            _print_lines(chain([first_line], printed), output, terminal)
    if first_line is None:
        if output == "json":
            write_data(["[]"])
        remark("No events." if not (since or types or agents or errors) else "No matching events.")


def _writer(output: str, terminal: Terminal, *, dated: bool) -> Callable[[Event], str]:
    """Writes an event as a line of the output."""
    if output != "text":
        return to_line
    return lambda event: terminal.paint(event_line(event, width=terminal.columns, dated=dated))


def _print_lines(lines: Iterator[str], output: str, terminal: Terminal) -> None:
    write = terminal.print_painted if output == "text" else write_data
    for part in batches(_json_array(lines) if output == "json" else lines, LINES_AT_ONCE):
        write(part)


def _json_array(lines: Iterator[str]) -> Iterator[str]:
    """The lines as the elements of one document, each still on a line."""
    begun = "["
    for number, line in enumerate(lines):
        if number:
            yield f"{begun},"
        begun = f"{' ' if number else '['}{line}"
    yield f"{begun}]"


def _follow(
    journal: Journal,
    run_id: str,
    wanted: Callable[[Event], bool],
    last: int | None,
    output: str,
    clock: Clock,
) -> None:
    """Print the history, then new events. The outcome of the run does not matter here, unlike in `watch`."""
    # Imported here: without -f, following is not needed.
    import asyncio

    from longwatch.cli.follow_run import follow_run
    from longwatch.cli.render.run_views import TailView, print_json_lines, text_printer

    if output == "jsonl":
        view = TailView(print_json_lines, wanted, last)
    else:
        view = TailView(text_printer(Terminal.of_stdout(), now_ms=clock.now_ms()), wanted, last)
    outcome = asyncio.run(follow_run(journal, run_id, view, clock=clock))
    if outcome.is_deleted:
        remark(f"longwatch: {clean(outcome.message or '')}")
    if outcome.lost_contact:
        raise JournalUnavailable(outcome.message or f"Run {run_id} can no longer be followed.")


def _filter(
    first: int, types: frozenset[str], agents: frozenset[str], errors: bool
) -> Callable[[Event], bool]:
    def wanted(event: Event) -> bool:
        return (
            event.occurred_at >= first
            and (not types or event.type in types)
            and (not agents or event.agent_name in agents)
            and (not errors or reports_failure(event))
        )

    return wanted


def _last(
    journal: Journal, run: RunSummary, wanted: Callable[[Event], bool], last: int, clock: Clock
) -> list[Event]:
    """The last matching events in order."""
    if last <= LAST_EVENTS and isinstance(journal, ReadsLast):
        newest = journal.read_last(run.run_id, LAST_EVENTS)
        matching = list(filter(wanted, newest))
        # The time of an unreadable event is uncertain: it may precede or follow all of these.
        is_certain = all(event.type != UNREADABLE for event in newest)
        if is_certain and (len(matching) >= last or len(newest) < LAST_EVENTS):
            return matching[-last:] if last else []
    return last_events(filter(wanted, read_events(journal, run, clock=clock)), last)
