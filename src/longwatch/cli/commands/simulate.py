"""`longwatch simulate`: what ways of watching cost, played rather than believed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from longwatch.cli.options import Invocation, common_options, output_option, pass_invocation
from longwatch.cli.render.scatter import Point, scatter
from longwatch.cli.render.styles import Segment, StyledLine
from longwatch.cli.render.table import Column, table
from longwatch.cli.render.terminal import Terminal, remark, write_json, write_text
from longwatch.cli.render.times import span_ms
from longwatch.cli.resolve import open_for_reading
from longwatch.errors import InvalidInput
from longwatch.executions.cadence.comparison import BEST, FIXED, FLOOR, LEARNED, PLAIN, Comparison, compare
from longwatch.executions.cadence.history import DurationHistory, Sample, read_history
from longwatch.executions.cadence.index_cost import Lookup, closed_for
from longwatch.executions.cadence.samples import KnownDurations, RecordedExecutions, SampleWorld
from longwatch.executions.due import ExecutionPhase
from longwatch.executions.model import Mode

if TYPE_CHECKING:
    from longwatch.executions.cadence.policies import Score

MARKS = {FIXED: "A", PLAIN: "B", FLOOR: "C", LEARNED: "L", BEST: "*"}
PLOT_TITLE = "delay in seconds (· is the best possible with other numbers of calls)"
CLOSED_SHOWN = (100, 1_000, 10_000, 100_000)
CLAIMED_TIMES = 2500  # what the DRS executions requirements expect of the index

COLUMNS = (
    Column("", 10, 1),
    Column("LOOKS", 9, 13),
    Column("CALLS", 8, 5, right=True),
    Column("AGAINST 30 S", 5, 6, right=True),
    Column("DELAY", 7, 6, right=True),
    Column("P95", 4, 6, right=True),
    Column("WORST", 3, 6, right=True),
    Column("END", 2, 6, right=True),
    Column("AGAINST 45/15/30", 6, 6, right=True),
)
LOOKUP_COLUMNS = (
    Column("CLOSED", 10, 7, right=True),
    Column("SCAN UNITS", 9, 7, right=True),
    Column("INDEX UNITS", 9, 7, right=True),
    Column("TIMES", 10, 5, right=True),
)


@click.group()
def command() -> None:
    """Play ways of watching against executions, and compare them."""


@command.command()
@click.option("--pending", default="13m28s", show_default=True, help="Average duration of the phase PENDING.")
@click.option(
    "--started",
    default="1m16s",
    show_default=True,
    help="Average duration of the phase STARTED; 0s to leave it out.",
)
@click.option(
    "--in-progress", default="5m", show_default=True, help="Average duration of the phase IN PROGRESS."
)
@click.option(
    "--spread",
    default="25%",
    show_default=True,
    help="Standard deviation of each duration, as a share of its average.",
)
@click.option("--recorded", is_flag=True, help="Use the durations recorded in the journal.")
@click.option("--source", help="With --recorded: only executions of this source, such as drs.")
@click.option(
    "--mode",
    type=click.Choice([mode.value for mode in Mode], case_sensitive=False),
    help="With --recorded: only executions of this mode.",
)
@click.option("--plan", help="With --recorded: only executions of this plan.")
@click.option(
    "--runs",
    type=click.IntRange(10, 100_000),
    default=1000,
    show_default=True,
    help="Number of executions to simulate.",
)
@click.option(
    "--history",
    type=click.IntRange(min=0),
    default=100,
    show_default=True,
    help="Number of past executions to learn from.",
)
@click.option(
    "--seed", type=int, default=1, show_default=True, help="Random seed; the same seed gives the same result."
)
@output_option("text", "json")
@common_options
@pass_invocation
def cadence(
    invocation: Invocation,
    pending: str,
    started: str,
    in_progress: str,
    spread: str,
    recorded: bool,
    source: str | None,
    mode: str | None,
    plan: str | None,
    runs: int,
    history: int,
    seed: int,
    output: str,
) -> None:
    """Calls against delay for fixed, phased and learned polling.

    Every way of looking is played against the same executions. CALLS is the mean for one execution; DELAY is
    the mean time from a change to the look that sees it, END that of the last change alone. The learned
    cadence knows only past executions as 45/15/30 would have seen them. The best possible knows the true
    distribution and when each phase began, and makes no more calls than 45/15/30.
    """
    world: SampleWorld
    if recorded:
        with open_for_reading(invocation) as journal:
            world = RecordedExecutions(chosen(read_history(journal), source=source, mode=mode, plan=plan))
    else:
        lengths = (pending, started, in_progress)
        seconds = {phase: span_ms(text) / 1000 for phase, text in zip(ExecutionPhase, lengths, strict=True)}
        world = KnownDurations(seconds, share_of(spread))
    comparison = compare(world, runs=runs, history=history, seed=seed)
    if output == "json":
        write_json(comparison_view(comparison, runs=runs, seed=seed))
        return
    terminal = Terminal.of_stdout()
    terminal.show(comparison_lines(comparison, width=terminal.columns))
    if comparison.plain:
        remark(
            f"Nothing learned for {', '.join(comparison.plain)}: too few past durations, or too different."
        )


@command.command()
@click.option(
    "--open",
    "open_",
    type=click.IntRange(min=0),
    default=4,
    show_default=True,
    help="Number of open executions.",
)
@click.option(
    "--item-bytes", type=click.IntRange(1, 400_000), default=4000, show_default=True, help="Of each."
)
@output_option("text", "json")
@common_options
def index(open_: int, item_bytes: int, output: str) -> None:
    """Read units to find the open executions, by scan and by index.

    The figures follow from the price list of DynamoDB: half a unit for each 4 KB that is read.
    """
    lookups = [Lookup(open_, closed, item_bytes) for closed in CLOSED_SHOWN]
    needed = closed_for(CLAIMED_TIMES, open=open_, item_bytes=item_bytes)
    if output == "json":
        write_json({"lookups": [lookup_view(each) for each in lookups], "closed_for_2500_times": needed})
        return
    terminal = Terminal.of_stdout()
    rows = [
        [
            Segment(f"{each.closed:,}"),
            Segment(f"{each.scan_units:,.1f}"),
            Segment(f"{each.query_units:,.1f}"),
            Segment(f"{each.times:,.0f}", "strong"),
        ]
        for each in lookups
    ]
    terminal.show(table(LOOKUP_COLUMNS, rows, width=terminal.columns))
    write_text(f"The index costs {CLAIMED_TIMES:,} times less from {needed:,} closed executions on.")
    write_text(f"Each change of an execution costs {lookups[0].index_write_units} write units more for it.")


def share_of(text: str) -> float:
    """A share such as `25%` or `0.25`."""
    try:
        return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise InvalidInput(f"{text!r} is no share; write 25% or 0.25") from None


def chosen(
    history: DurationHistory, *, source: str | None, mode: str | None, plan: str | None
) -> Sequence[Sample]:
    """The samples of the kind that was asked for, or of the one that has the most."""
    kinds = [
        kind
        for kind in history.kinds()
        if source in (None, kind.source)
        and (mode is None or mode.upper() == kind.mode.upper())
        and plan == kind.plan_id
    ]
    return max((history.samples(kind) for kind in kinds), key=len, default=())


def comparison_lines(comparison: Comparison, *, width: int | None) -> list[StyledLine]:
    """The table and the plot."""
    rows = [_row(name, each, comparison) for name, each in comparison.scores.items()]
    best = [Point(calls, delay, "·", "dim") for calls, delay in comparison.best]
    furthest = max(max(each.delay for each in comparison.scores.values()) * 1.2, 1.0)
    points = [point for point in best if point.y <= furthest]
    points += [
        Point(each.calls, each.delay, MARKS[name], "strong") for name, each in comparison.scores.items()
    ]
    plot = scatter(points, x_title="calls of an execution", y_title=PLOT_TITLE, width=width)
    return [*table(COLUMNS, rows, width=width), [], *plot]


def _row(name: str, score: Score, comparison: Comparison) -> list[Segment]:
    return [
        Segment(MARKS[name], "strong"),
        Segment(name),
        Segment(f"{score.calls:.1f}"),
        Segment(f"{comparison.calls_against(name, FIXED) - 1:+.0%}"),
        Segment(f"{score.delay:.1f} s"),
        Segment(f"{score.delay_p95:.1f} s"),
        Segment(f"{score.delay_worst:.1f} s"),
        Segment(f"{score.end_delay:.1f} s"),
        Segment(f"{comparison.delay_against(name, PLAIN):.2f} ×"),
    ]


def comparison_view(comparison: Comparison, *, runs: int, seed: int) -> dict[str, object]:
    """The comparison for programs."""
    return {
        "runs": runs,
        "seed": seed,
        "learned_phases": [phase.value for phase in comparison.learned],
        "policies": [
            {
                "name": name,
                "calls": round(each.calls, 3),
                "calls_against_every_30_s": round(comparison.calls_against(name, FIXED), 4),
                "delay_seconds": round(each.delay, 3),
                "delay_p95_seconds": round(each.delay_p95, 3),
                "delay_worst_seconds": round(each.delay_worst, 3),
                "end_delay_seconds": round(each.end_delay, 3),
                "delay_against_45_15_30": round(comparison.delay_against(name, PLAIN), 4),
            }
            for name, each in comparison.scores.items()
        ],
        "best_possible": [
            {"calls": round(calls, 3), "delay_seconds": round(delay, 3)} for calls, delay in comparison.best
        ],
    }


def lookup_view(lookup: Lookup) -> dict[str, object]:
    """One search for programs."""
    return {
        "open": lookup.open,
        "closed": lookup.closed,
        "item_bytes": lookup.item_bytes,
        "scan_read_units": lookup.scan_units,
        "index_read_units": lookup.query_units,
        "times": round(lookup.times, 2),
        "index_write_units": lookup.index_write_units,
    }
