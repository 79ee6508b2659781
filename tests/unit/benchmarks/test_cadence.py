"""The best possible polling, executions with given durations, and `python -m benchmarks.cadence`."""

from __future__ import annotations

import pytest
from benchmarks.cadence.__main__ import BEST, compare_with_best, main, parse_share
from benchmarks.cadence.durations import DRILL, GivenDurations
from benchmarks.cadence.ideal import IdealPolicy, ideal_plan
from click.testing import CliRunner

from longwatch.errors import InvalidInput
from longwatch.executions.cadence.learned import Survival
from longwatch.executions.cadence.simulation import LEARNED, PLAIN, Phases, play
from longwatch.executions.due import ExecutionPhase

NAMES = ["every 30 s", "45/15/30", "every 60 s", "learned", "best possible"]


def run(*arguments: str) -> str:
    return CliRunner().invoke(main, arguments, catch_exceptions=False).stdout


def test_nothing_does_better_than_the_ideal() -> None:
    comparison, curve = compare_with_best(GivenDurations(DRILL, 0.25), runs=300, history=60, seed=2)

    best = comparison.scores[BEST]
    assert best.calls <= comparison.scores[PLAIN].calls
    assert best.delay < comparison.scores[LEARNED].delay < comparison.scores[PLAIN].delay
    assert [delay for _, delay in curve] == sorted((delay for _, delay in curve), reverse=True)


def test_the_ideal_polls_once_if_it_is_sure_of_the_moment() -> None:
    sure = Survival.of(lambda seconds: 1.0 if seconds < 100.0 else 1e-9, 120.0, 120)

    plan = ideal_plan(sure, price=10.0)

    assert plan.delay(0.0) == 100.0
    assert play(IdealPolicy({ExecutionPhase.PENDING: plan}), {ExecutionPhase.PENDING: 99.5}).calls == 1


@pytest.mark.parametrize(
    ("seconds", "spread"), [({}, 0.1), (DRILL, -0.1), (DRILL, 3.0), (DRILL, float("nan"))]
)
def test_impossible_executions_are_refused(seconds: Phases, spread: float) -> None:
    with pytest.raises(InvalidInput):
        GivenDurations(seconds, spread)


def test_policies_are_printed_as_a_table_and_a_plot() -> None:
    shown = run("compare", "--runs", "60", "--history", "40")

    assert [line[3:16].strip() for line in shown.splitlines()[1:6]] == NAMES
    assert "delay in seconds" in shown
    assert "calls of an execution" in shown


def test_the_seed_decides_everything() -> None:
    quick = ("compare", "--runs", "60", "--history", "40")

    assert run(*quick) == run(*quick, "--seed", "1")
    assert run(*quick) != run(*quick, "--seed", "2")


@pytest.mark.parametrize(("text", "share"), [("25%", 0.25), ("0.25", 0.25), ("0", 0.0), ("100%", 1.0)])
def test_a_spread_is_a_share(text: str, share: float) -> None:
    assert parse_share(text) == share


def test_a_spread_that_is_not_a_share_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"Use 25% or 0\.25"):
        parse_share("wide")


def test_the_saving_of_the_index_is_printed_for_tables_of_several_sizes() -> None:
    shown = run("index", "--open", "1", "--item-bytes", "4096")

    assert "100,000" in shown
    assert "2,500 times less from 2,499 closed executions on" in shown
    assert "4 more write units" in shown
