"""`longwatch show RUN`: the calls of a run as a tree with times."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import tzinfo
from functools import partial

import click

from longwatch.cli.options import Invocation, common_options, output_option, pass_invocation, run_argument
from longwatch.cli.render.call_details import call_lines
from longwatch.cli.render.event_line import event_line, need_dates
from longwatch.cli.render.header import COMPACT_ROWS, header
from longwatch.cli.render.styles import Segment, StyledLine
from longwatch.cli.render.terminal import Terminal, remark, write_data, write_json, write_json_lines
from longwatch.cli.render.text import count_text
from longwatch.cli.render.times import moment_ms
from longwatch.cli.render.waterfall import waterfall
from longwatch.cli.resolve import event_lines, open_for_reading, read_events
from longwatch.cli.run_reader import FoldedRun, RunReader
from longwatch.journal.call_views import CallDetails, event_ids_of
from longwatch.journal.run_lookup import find_run
from longwatch.journal.sqlite.stored_outlines import RunFacts
from longwatch.journal.views import RunDetails
from longwatch.model.call_lookup import find_call
from longwatch.model.call_outline import Outline
from longwatch.model.call_selection import OutlineOptions
from longwatch.model.event import Event
from longwatch.model.prices import NO_PRICES, Prices
from longwatch.model.run import Condition, Run
from longwatch.model.usage import Usage
from longwatch.storage.price_file import PriceList

MAX_LINES = 200  # of calls, if the output is not a terminal
COMPACT_COLUMNS = 72  # a narrower terminal shows short remarks
MIN_LINES = 4  # of calls, however low the terminal is
BELOW_ROWS = 2  # a remark and the prompt


@click.command()
@run_argument
@click.argument("call", metavar="[CALL]", required=False)
@click.option("--errors", is_flag=True, help="Only calls that failed, below their callers.")
@click.option("--last", type=click.IntRange(min=1), metavar="N", help="Only the N calls that began last.")
@click.option("--depth", type=click.IntRange(min=1), metavar="N", help="Only N levels, and the failing path.")
@click.option("--agent", metavar="NAME", help="Only calls of this agent.")
@click.option(
    "--since", metavar="TIME", help="Only calls open at TIME or later: 10m, an ISO time or epoch ms."
)
@click.option("--full", is_flag=True, help="Show every call on a line of its own.")
@click.option("--log-scale", is_flag=True, help="Draw durations on a logarithmic scale instead of times.")
@click.option("--attempt", type=int, metavar="N", help="Show attempt N of a restarted run, from 1.")
@output_option()
@common_options
@pass_invocation
def command(
    invocation: Invocation,
    run: str,
    call: str | None,
    errors: bool,
    last: int | None,
    depth: int | None,
    agent: str | None,
    since: str | None,
    full: bool,
    log_scale: bool,
    attempt: int | None,
    output: str,
) -> None:
    """Show a run: its agents, tools and times, or one call of it.

    RUN is a run ID, the beginning of one, or `latest`. Of a restarted run, the last attempt is shown.

    The calls fit the screen: those that repeat share a line, and the calls inside others are counted. The
    calls that lead to a failure are always shown.

    CALL is the ID of a call, the beginning of one, or a name that one call has. It is shown in full: its
    arguments, result and error, its attempts and the calls in it.

    -o json prints the whole run or the call as one object, -o jsonl its events, one per line.
    """
    from longwatch.following.observation import Observer

    clock = invocation.clock
    with open_for_reading(invocation) as journal:
        found = find_run(journal, run)
        if output == "jsonl" and call is None:
            write_data(event_lines(journal, found, clock=clock))
            return
        prices = PriceList(invocation.settings()).current()
        with closing(RunReader(journal, found, attempt=attempt, clock=clock)) as reader:
            is_outlined = call is None and output == "text"
            read: RunFacts | FoldedRun = reader.facts() if is_outlined else reader.folded
            [observed] = Observer(journal, clock=clock).observed([read.whole.summary])
            whole = replace(read.whole, summary=observed.run)
            attempts, number = len(observed.run.attempts), reader.number_in(observed.run)
            shown = whole.at_attempt(number, read.own)
            conditions = observed.conditions if number == attempts else ()
            if call is not None:
                chosen = find_call(shown.calls, call, run_id=found.run_id)
                wanted = event_ids_of(chosen)
                events = (
                    each for each in read_events(journal, found, clock=clock) if each.event_id in wanted
                )
                _show_call(CallDetails.of(shown, chosen, events, prices=prices), output)
                return
            now = clock.now_ms()
            if output == "json":
                write_json(
                    RunDetails.of_attempt(
                        whole, shown, now_ms=now, attempt=number, observed=conditions, prices=prices
                    )
                )
                return
            terminal = Terminal.of_stdout()
            options = OutlineOptions(
                errors=errors,
                agent=agent,
                since=moment_ms(since, now_ms=now) if since else None,
                last=last,
                depth=depth,
                full=full,
            )
            is_bounded = not (full or last or depth)
            assert isinstance(read, RunFacts)
            lines, outlined = run_lines(
                shown,
                read.latest,
                now_ms=now,
                width=terminal.columns,
                rows=terminal.rows if is_bounded else None,
                options=options if terminal.rows or not is_bounded else replace(options, lines=MAX_LINES),
                log_scale=log_scale,
                attempt=(number, attempts),
                observed=conditions,
                prices=prices,
                agents=read.agents,
                outlined=partial(reader.outline, shown.summary),
            )
    terminal.show(lines)
    remark_left_out(outlined, options, terminal)


def _show_call(details: CallDetails, output: str) -> None:
    if output == "json":
        write_json(details)
    elif output == "jsonl":
        write_json_lines(details.events)
    else:
        terminal = Terminal.of_stdout()
        terminal.show(call_lines(details, width=terminal.columns))


def run_lines(
    run: Run,
    latest: Sequence[Event],
    *,
    now_ms: int,
    width: int | None,
    rows: int | None = None,
    options: OutlineOptions | None = None,
    log_scale: bool = False,
    zone: tzinfo | None = None,
    attempt: tuple[int, int] | None = None,
    observed: Sequence[Condition] = (),
    prices: Prices = NO_PRICES,
    agents: Mapping[str, Usage] | None = None,
    outlined: Callable[[OutlineOptions], Outline] | None = None,
    below: int = BELOW_ROWS,
) -> tuple[list[StyledLine], Outline]:
    """The text view of a run, and the outline of its calls. A run without calls shows its last events.

    `agents` and `outlined` return what is known of the calls if the run lacks them. With the `rows` of a
    screen, the view fits it, with these rows `below`.
    """
    lines = header(
        run,
        now_ms=now_ms,
        width=width,
        zone=zone,
        attempt=attempt,
        observed=observed,
        prices=prices,
        rows=rows,
        agents=agents,
    )
    room = None if rows is None else max(MIN_LINES, rows - len(lines) - 1 - below)
    options = options or OutlineOptions()
    if room is not None:
        options = replace(options, lines=room)
    tree, found = waterfall(
        run,
        now_ms=now_ms,
        width=width,
        options=options,
        log_scale=log_scale,
        prices=prices,
        outlined=outlined,
    )
    if rows is None or rows >= COMPACT_ROWS:
        lines.append([Segment("")])
    if found.span is not None:
        return [*lines, *tree], found
    latest = latest if room is None else latest[-room:]
    dated = need_dates(latest, now_ms=now_ms, zone=zone)
    lines += [event_line(event, width=width, dated=dated, zone=zone) for event in latest]
    return lines, found


def remark_left_out(
    found: Outline, options: OutlineOptions, terminal: Terminal, *, command: str = ""
) -> None:
    """Report what the outline leaves out, and how to show it. `command` is what the options belong to."""
    if not found.rows and found.left_out:
        remark(f"None of {count_text(found.left_out, 'call')} matches these options.")
    elif found.folded:
        count = count_text(found.folded, "call")
        use = f"{command} --full".lstrip()
        if terminal.columns is not None and terminal.columns < COMPACT_COLUMNS:
            remark(f"{count} folded. For all: {use}")
            return
        some = "--last N" if options.errors else "--errors or --last N"
        remark(f"{count} folded. For all, use {use}; for some, {some}.")
