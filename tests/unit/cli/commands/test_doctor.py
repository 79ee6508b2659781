"""`longwatch doctor` checks settings, journal, outbox and variables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from longwatch.cli.commands.doctor import finding_lines
from longwatch.cli.doctor_checks import Finding, misspelt_variables, run_check, size_text
from longwatch.cli.render.styles import line_columns
from longwatch.errors import JournalUnusable
from longwatch.recording.outbox import Outbox
from longwatch.settings import SETTINGS, load_settings
from tests.unit.cli.invocation import invoke
from tests.unit.cli.samples import research


def test_doctor_finds_no_problem(file: str) -> None:
    shown = invoke("doctor", "--journal", file, "-o", "json")

    report = json.loads(shown.stdout)
    facts = {fact["name"]: fact for fact in report["parts"]["settings"]["facts"]}
    journal = {fact["name"]: fact["value"] for fact in report["parts"]["journal"]["facts"]}
    assert report["ok"]
    assert facts["journal"]["value"].endswith("/runs.db")
    assert facts["journal"]["about"] == "--journal"
    assert facts["recording.capture"]["about"] == "default"
    assert set(facts) >= {setting.key for setting in SETTINGS}
    assert (journal["kind"], journal["runs"]) == ("SQLite", "3")


def test_doctor_reports_every_mistake_in_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGWATCH_CAPTURE", "some")
    monkeypatch.setenv("LONGWATCH_LAYOUT", "flat")

    shown = invoke("doctor")

    assert shown.return_value == 1
    assert "LONGWATCH_CAPTURE: recording.capture must be one of off, summary, full" in shown.stdout
    assert "2 problems." in shown.stdout
    assert "Versions" in shown.stdout


@pytest.mark.parametrize(
    "url", ["mysql://x", "sqlite://host/x.db", "sqlite:///broken.db", "dynamodb://t?x=1"]
)
def test_doctor_survives_a_journal_that_cannot_be_opened(url: str, tmp_path: Path) -> None:
    (tmp_path / "broken.db").write_text("no database " * 100, encoding="utf-8")

    shown = invoke("doctor", "--journal", url)

    assert shown.return_value == 1
    assert "problem" in shown.stdout


def test_doctor_shows_what_waits_in_the_outbox(file: str) -> None:
    outbox = Outbox(load_settings().outbox_path)
    outbox.put("dynamodb://events", research())
    outbox.close()

    shown = invoke("doctor", "--journal", file)

    assert shown.return_value == 0
    assert "16 events" in shown.stdout
    assert "longwatch ship" in shown.stdout


def test_a_part_that_breaks_is_a_problem_and_not_a_crash() -> None:
    def broken(finding: Finding) -> None:
        raise RuntimeError("out of order")

    def locked(finding: Finding) -> None:
        raise JournalUnusable("It is locked. Wait.")

    assert run_check("Journal", broken).problems == ["RuntimeError: out of order"]
    assert run_check("Journal", locked).problems == ["It is locked. Wait."]


def test_a_misspelt_variable_is_noticed() -> None:
    environment = {"LONGWATCH_JURNAL": "x", "LONGWATCH_JOURNAL": "y", "LONGWATCH_RUN_ID": "z", "HOME": "/"}

    assert misspelt_variables(environment) == [
        "Unknown variable LONGWATCH_JURNAL. Did you mean LONGWATCH_JOURNAL?"
    ]


def test_findings_fit_a_phone() -> None:
    finding = Finding("Journal", problems=["p" * 90], warnings=["a warning of several words " * 4])
    finding.add("a name that is long", "value " * 20, "about")

    assert max(line_columns(line) for line in finding_lines([finding], width=40)) <= 40


def test_sizes_are_rounded() -> None:
    assert [size_text(size) for size in (12, 65_536, 1_300_000)] == ["12 bytes", "64.0 KB", "1.2 MB"]
