"""`longwatch tail RUN`: the events of a run in order, one line each."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

import click

from longwatch.cli.invocation import Invocation
from longwatch.cli.journals import find, read_events, reading
from longwatch.cli.lines import event_line, need_dates, tells_of_failure
from longwatch.cli.options import common_options, output_option, pass_invocation, run_argument
from longwatch.cli.terminal import Terminal, remark, write_data
from longwatch.cli.times import moment_ms
from longwatch.events import Event
from longwatch.journal.codec import to_line

LINES_AT_ONCE = 200  # printed in one piece, so that a closed pipe is noticed early


@click.command()
@run_argument
@click.option("--since", metavar="TIME", help="From TIME on: 10m, 2h, 3d, an ISO time or epoch ms.")
@click.option("-n", "--lines", type=click.IntRange(min=0), help="Only the last N.")
@click.option("--type", "types", multiple=True, metavar="TYPE", help="Only events of this type; repeatable.")
@click.option("--agent", "agents", multiple=True, metavar="NAME", help="Only this agent's; repeatable.")
@click.option("--errors", is_flag=True, help="Only what failed.")
@output_option()
@common_options
@pass_invocation
def command(
    invocation: Invocation,
    run: str,
    since: str | None,
    lines: int | None,
    types: tuple[str, ...],
    agents: tuple[str, ...],
    errors: bool,
    output: str,
) -> None:
    """Print a run's events, one line each.

    RUN is the id of a run, the beginning of one, or `latest`.
    """
    now = invocation.clock.now_ms()
    first = moment_ms(since, now_ms=now) if since else 0
    wanted = _filter(first, frozenset(types), frozenset(agents), errors)
    with reading(invocation) as journal:
        found = find(journal, run)
        events = _in_order(filter(wanted, read_events(journal, found, clock=invocation.clock)), lines)
    if output == "json":
        write_data(["[" + ",\n ".join(map(to_line, events)) + "]"])
    elif output == "jsonl":
        for group in _groups(events):
            write_data(map(to_line, group))
    else:
        terminal = Terminal.of_stdout()
        dated = need_dates(events, now_ms=now)
        for group in _groups(events):
            terminal.show(event_line(event, width=terminal.columns, dated=dated) for event in group)
    if not events:
        remark("No events." if not (since or types or agents or errors) else "No events like that.")


def _filter(
    first: int, types: frozenset[str], agents: frozenset[str], errors: bool
) -> Callable[[Event], bool]:
    def wanted(event: Event) -> bool:
        return (
            event.occurred_at >= first
            and (not types or event.type in types)
            and (not agents or event.agent_name in agents)
            and (not errors or tells_of_failure(event))
        )

    return wanted


def _in_order(events: Iterator[Event], last: int | None) -> list[Event]:
    if last is None:
        return sorted(events, key=lambda event: event.order)
    return heapq.nlargest(last, events, key=lambda event: event.order)[::-1]


def _groups(events: list[Event]) -> Iterator[list[Event]]:
    for start in range(0, len(events), LINES_AT_ONCE):
        yield events[start : start + LINES_AT_ONCE]
