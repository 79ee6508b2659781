from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from longwatch.cli.commands.simulate import share_of
from longwatch.cli.main import cli, run
from longwatch.cli.options import Invocation
from longwatch.errors import InvalidInput
from longwatch.executions.model import ItemState
from longwatch.journal.sqlite import SqliteJournal
from longwatch.testing.clock import FakeClock
from tests.unit.executions.cadence.samples import START_MS, story

NAMES = ["every 30 s", "45/15/30", "every 60 s", "learned", "best possible"]
QUICK = ("--runs", "60", "--history", "40")


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(
        cli,
        ["simulate", *arguments],
        obj=Invocation(clock=FakeClock(START_MS)),
        catch_exceptions=False,
        standalone_mode=False,
    )


@pytest.fixture
def file(tmp_path: Path) -> str:
    with SqliteJournal(tmp_path / "runs.db") as journal:
        for number in range(50):
            late = (number % 7) * 20
            journal.append(
                story(
                    (600 + late, (ItemState.IN_PROGRESS,)),
                    (700 + late, (ItemState.DONE,)),
                    ended=900 + 2 * late,
                    execution_id=f"ex-{number}",
                    started_at=START_MS + number * 3_600_000,
                )
            )
    return "sqlite:///runs.db"


def test_policies_are_told_in_a_table_and_in_a_plot() -> None:
    shown = invoke("cadence", *QUICK)

    lines = shown.stdout.splitlines()
    assert [line[3:16].strip() for line in lines[1:6]] == NAMES
    assert "delay in seconds" in shown.stdout
    assert "calls of an execution" in shown.stdout
    assert shown.stderr == ""


def test_a_program_gets_the_same_as_json() -> None:
    told = json.loads(invoke("cadence", *QUICK, "-o", "json").stdout)

    assert [each["name"] for each in told["policies"]] == NAMES
    assert told["learned_phases"] == ["pending", "started", "in_progress"]
    assert told["policies"][0]["calls_against_every_30_s"] == 1.0
    assert told["policies"][3]["delay_seconds"] < told["policies"][1]["delay_seconds"]


def test_the_seed_decides_everything() -> None:
    assert invoke("cadence", *QUICK).stdout == invoke("cadence", *QUICK, "--seed", "1").stdout
    assert invoke("cadence", *QUICK).stdout != invoke("cadence", *QUICK, "--seed", "2").stdout


def test_it_is_said_if_there_was_nothing_to_learn_from() -> None:
    shown = invoke("cadence", "--runs", "60", "--history", "3", "--started", "0s")

    assert "Nothing learned for pending, in_progress" in shown.stderr


def test_recorded_executions_are_played(file: str) -> None:
    shown = invoke("cadence", "--recorded", "--journal", file, "--runs", "60", "-o", "json")

    policies = {each["name"]: each for each in json.loads(shown.stdout)["policies"]}
    assert policies["every 30 s"]["calls"] == pytest.approx(960 / 30, abs=4)
    assert policies["learned"]["delay_seconds"] < policies["45/15/30"]["delay_seconds"]


@pytest.mark.parametrize("only", [("--source", "glue"), ("--mode", "RECOVERY"), ("--plan", "nobody's")])
def test_a_kind_without_executions_is_refused(file: str, only: tuple[str, str]) -> None:
    with pytest.raises(InvalidInput, match="0 ended executions"):
        invoke("cadence", "--recorded", "--journal", file, *only)


@pytest.mark.parametrize("only", [("--source", "drs"), ("--mode", "drill"), ("--plan", "plan-1")])
def test_a_kind_can_be_chosen(file: str, only: tuple[str, str]) -> None:
    shown = invoke("cadence", "--recorded", "--journal", file, *only, "--runs", "20", "-o", "json")

    assert json.loads(shown.stdout)["runs"] == 20


@pytest.mark.parametrize(("text", "share"), [("25%", 0.25), ("0.25", 0.25), ("0", 0.0), ("100%", 1.0)])
def test_a_spread_is_a_share(text: str, share: float) -> None:
    assert share_of(text) == share


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["--spread", "wide"], "write 25% or 0.25"),
        (["--spread", "500%"], "between 0% and 200%"),
        (["--pending", "long"], "Invalid duration"),
        (["--pending", "0s", "--started", "0s", "--in-progress", "0s"], "no phase takes any time"),
    ],
)
def test_a_mistake_is_answered_in_one_line(
    arguments: list[str], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(["simulate", "cadence", *arguments])

    told = capsys.readouterr().err
    assert code == 2
    assert hint in told
    assert told.count("\n") == 1


def test_what_the_index_saves_is_told_for_tables_of_several_sizes() -> None:
    shown = invoke("index", "--open", "1", "--item-bytes", "4096")

    assert "100,000" in shown.stdout
    assert "2,500 times less from 2,499 closed executions on" in shown.stdout
    assert "4 write units more" in shown.stdout


def test_the_index_is_told_to_programs_too() -> None:
    told = json.loads(invoke("index", "--open", "1", "--item-bytes", "4096", "-o", "json").stdout)

    assert told["closed_for_2500_times"] == 2499
    assert [each["times"] for each in told["lookups"]] == [101.0, 1001.0, 10001.0, 100001.0]
