"""`python -m benchmarks.cadence compare|index`: what polling policies and the status index cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click
from benchmarks.cadence.durations import GivenDurations
from benchmarks.cadence.ideal import TRUTH_CELLS, best_curve, best_score
from benchmarks.cadence.index_cost import Lookup, closed_for
from benchmarks.cadence.scatter import Point, scatter

from longwatch.cli.commands.simulate import COLUMNS, score_row
from longwatch.cli.render.styles import Segment, StyledLine
from longwatch.cli.render.table import Column, table
from longwatch.cli.render.terminal import Terminal
from longwatch.cli.render.times import span_ms
from longwatch.errors import InvalidInput
from longwatch.executions.cadence.simulation import (
    FIXED,
    FLOOR,
    LEARNED,
    PLAIN,
    Comparison,
    Score,
    compare,
    draw_executions,
)
from longwatch.executions.due import ExecutionPhase

BEST = "best possible"
MARKS = {FIXED: "A", PLAIN: "B", FLOOR: "C", LEARNED: "L", BEST: "*"}
PLOT_TITLE = "delay in seconds (· is the best possible with other numbers of calls)"
CLOSED_SHOWN = (100, 1_000, 10_000, 100_000)
CLAIMED_TIMES = 2500  # what the DRS executions requirements expect of the index
LOOKUP_COLUMNS = (
    Column("CLOSED", 10, 7, right=True),
    Column("SCAN UNITS", 9, 7, right=True),
    Column("INDEX UNITS", 9, 7, right=True),
    Column("TIMES", 10, 5, right=True),
)


@click.group(help=__doc__)
def main() -> None:
    pass


@main.command("compare")
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
@click.option("--spread", default="25%", show_default=True, help="Standard deviation of each duration.")
@click.option("--runs", type=click.IntRange(10, 100_000), default=1000, show_default=True)
@click.option("--history", type=click.IntRange(min=0), default=100, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
def compare_command(
    pending: str, started: str, in_progress: str, spread: str, runs: int, history: int, seed: int
) -> None:
    """Compare fixed, phased and learned polling with the best possible.

    The best possible is given the true distribution and when each phase began, and makes no more calls than
    45/15/30.
    """
    lengths = (pending, started, in_progress)
    seconds = {phase: span_ms(text) / 1000 for phase, text in zip(ExecutionPhase, lengths, strict=True)}
    given = GivenDurations(seconds, parse_share(spread))
    comparison, curve = compare_with_best(given, runs=runs, history=history, seed=seed)
    terminal = Terminal.of_stdout()
    terminal.show(comparison_lines(comparison, curve, width=terminal.columns))


def compare_with_best(
    given: GivenDurations, *, runs: int, history: int, seed: int
) -> tuple[Comparison, list[tuple[float, float]]]:
    """The comparison with the best possible beside it, and calls and delays of the latter."""
    comparison = compare(given, runs=runs, history=history, seed=seed)
    executions = draw_executions(given, runs=runs, seed=seed)
    truth = given.survival(TRUTH_CELLS)
    best = best_score(truth, executions, calls=comparison.scores[PLAIN].calls)
    scores: Mapping[str, Score] = {**comparison.scores, BEST: best}
    return Comparison(scores, comparison.learned, comparison.plain), best_curve(truth, executions)


def comparison_lines(
    comparison: Comparison, curve: Sequence[tuple[float, float]], *, width: int | None
) -> list[StyledLine]:
    """The table and the plot."""
    rows = [
        [Segment(MARKS[name], "strong"), *score_row(name, each, comparison)]
        for name, each in comparison.scores.items()
    ]
    furthest = max(max(each.delay for each in comparison.scores.values()) * 1.2, 1.0)
    points = [Point(calls, delay, "·", "dim") for calls, delay in curve if delay <= furthest]
    points += [
        Point(each.calls, each.delay, MARKS[name], "strong") for name, each in comparison.scores.items()
    ]
    plot = scatter(points, x_title="calls of an execution", y_title=PLOT_TITLE, width=width)
    return [*table((Column("", 10, 1), *COLUMNS), rows, width=width), [], *plot]


@main.command()
@click.option("--open", "open_", type=click.IntRange(min=0), default=4, show_default=True)
@click.option("--item-bytes", type=click.IntRange(1, 400_000), default=4000, show_default=True)
def index(open_: int, item_bytes: int) -> None:
    """Read units to find the open executions, by scan and by index.

    The figures follow from the price list of DynamoDB: half a unit for each 4 KB that is read.
    """
    lookups = [Lookup(open_, closed, item_bytes) for closed in CLOSED_SHOWN]
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
    needed = closed_for(CLAIMED_TIMES, open=open_, item_bytes=item_bytes)
    click.echo(f"The index costs {CLAIMED_TIMES:,} times less from {needed:,} closed executions on.")
    click.echo(
        f"Each change of an execution costs {lookups[0].index_write_units} more write units because of it."
    )


def parse_share(text: str) -> float:
    """Parse a share such as `25%` or `0.25`."""
    try:
        return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise InvalidInput(f"Invalid share {text!r}. Use 25% or 0.25.") from None


if __name__ == "__main__":
    main()
