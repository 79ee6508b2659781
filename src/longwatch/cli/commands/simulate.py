"""`longwatch simulate cadence`: what a cadence would cost, played against the executions in the journal."""

from __future__ import annotations

from collections.abc import Sequence

import click

from longwatch.cli.options import Invocation, common_options, output_option, pass_invocation
from longwatch.cli.render.styles import Segment
from longwatch.cli.render.table import Column, table
from longwatch.cli.render.terminal import Terminal, remark, write_document
from longwatch.cli.resolve import open_for_reading
from longwatch.executions.cadence.history import DurationHistory, Sample, read_history
from longwatch.executions.cadence.simulation import (
    FIXED,
    PLAIN,
    Comparison,
    RecordedExecutions,
    Score,
    compare,
)
from longwatch.executions.model import Mode

COLUMNS = (
    Column("POLLING", 9, 13),
    Column("CALLS", 8, 5, right=True),
    Column("AGAINST 30 S", 5, 6, right=True),
    Column("DELAY", 7, 6, right=True),
    Column("P95", 4, 6, right=True),
    Column("WORST", 3, 6, right=True),
    Column("END", 2, 6, right=True),
    Column("AGAINST 45/15/30", 6, 6, right=True),
)


@click.group()
def command() -> None:
    """Simulate polling of executions."""


@command.command()
@click.option(
    "--recorded", is_flag=True, help="Use the durations recorded in the journal. This is the default."
)
@click.option("--source", help="Only executions of this source, such as drs.")
@click.option(
    "--mode",
    type=click.Choice([mode.value for mode in Mode], case_sensitive=False),
    help="Only executions of this mode.",
)
@click.option("--plan", help="Only executions of this plan.")
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
@output_option()
@common_options
@pass_invocation
def cadence(
    invocation: Invocation,
    recorded: bool,
    source: str | None,
    mode: str | None,
    plan: str | None,
    runs: int,
    history: int,
    seed: int,
    output: str,
) -> None:
    """Compare calls and delays of fixed, phased and learned polling.

    Each way of polling is played against the same executions of the journal. CALLS is the mean of one
    execution. DELAY is the mean time from a change to the poll that sees it, END that of the last change
    alone. The learned cadence learns from one half of the executions and is played against the other.
    """
    with open_for_reading(invocation) as journal:
        samples = choose_samples(read_history(journal), source=source, mode=mode, plan=plan)
    comparison = compare(RecordedExecutions(samples), runs=runs, history=history, seed=seed)
    if output != "text":
        write_document(comparison_view(comparison, runs=runs, seed=seed), output)
        return
    terminal = Terminal.of_stdout()
    rows = [score_row(name, each, comparison) for name, each in comparison.scores.items()]
    terminal.show(table(COLUMNS, rows, width=terminal.columns))
    if comparison.plain:
        remark(
            f"Nothing learned for {', '.join(comparison.plain)}: too few past durations, or too different."
        )


def choose_samples(
    history: DurationHistory, *, source: str | None, mode: str | None, plan: str | None
) -> Sequence[Sample]:
    """The samples of the requested kind; of several kinds, those of the one with the most."""
    kinds = [
        kind
        for kind in history.kinds()
        if source in (None, kind.source)
        and (mode is None or mode.upper() == kind.mode.upper())
        and plan == kind.plan_id
    ]
    return max((history.samples(kind) for kind in kinds), key=len, default=())


def score_row(name: str, score: Score, comparison: Comparison) -> list[Segment]:
    return [
        Segment(name),
        Segment(f"{score.calls:.1f}"),
        Segment(f"{comparison.call_ratio(name, FIXED) - 1:+.0%}"),
        Segment(f"{score.delay:.1f} s"),
        Segment(f"{score.delay_p95:.1f} s"),
        Segment(f"{score.delay_worst:.1f} s"),
        Segment(f"{score.end_delay:.1f} s"),
        Segment(f"{comparison.delay_ratio(name, PLAIN):.2f} ×"),
    ]


def comparison_view(comparison: Comparison, *, runs: int, seed: int) -> dict[str, object]:
    """The comparison as JSON."""
    return {
        "runs": runs,
        "seed": seed,
        "learned_phases": [phase.value for phase in comparison.learned],
        "policies": [
            {
                "name": name,
                "calls": round(each.calls, 3),
                "calls_against_every_30_s": round(comparison.call_ratio(name, FIXED), 4),
                "delay_seconds": round(each.delay, 3),
                "delay_p95_seconds": round(each.delay_p95, 3),
                "delay_worst_seconds": round(each.delay_worst, 3),
                "end_delay_seconds": round(each.end_delay, 3),
                "delay_against_45_15_30": round(comparison.delay_ratio(name, PLAIN), 4),
            }
            for name, each in comparison.scores.items()
        ],
    }
