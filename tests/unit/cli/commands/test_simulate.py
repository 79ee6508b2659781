from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from longwatch.cli.main import cli
from longwatch.cli.options import Invocation
from longwatch.errors import InvalidInput
from longwatch.executions.model import ItemState
from longwatch.journal.sqlite import SqliteJournal
from longwatch.testing.clock import FakeClock
from tests.unit.executions.cadence.samples import START_MS, story

NAMES = ["every 30 s", "45/15/30", "every 60 s", "learned"]


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


def test_policies_are_printed_as_a_table(file: str) -> None:
    shown = invoke("cadence", "--recorded", "--journal", file, "--runs", "60")

    lines = shown.stdout.splitlines()
    assert [line[:12].strip() for line in lines[1:]] == NAMES
    assert shown.stderr == ""


def test_phases_without_anything_to_learn_are_named(file: str) -> None:
    shown = invoke("cadence", "--recorded", "--journal", file, "--runs", "60", "--history", "3")

    assert "Nothing learned for pending, started, in_progress" in shown.stderr


def test_the_seed_decides_everything(file: str) -> None:
    quick = ("cadence", "--journal", file, "--runs", "60")

    assert invoke(*quick).stdout == invoke(*quick, "--recorded", "--seed", "1").stdout
    assert invoke(*quick).stdout != invoke(*quick, "--seed", "2").stdout


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
