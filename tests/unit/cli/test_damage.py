"""Commands on damaged files: what is affected, what to do about it, and the exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from longwatch.cli.main import cli
from longwatch.cli.options import Invocation
from longwatch.journal.sqlite import SqliteJournal
from longwatch.recording.outbox import CLAIM_MS, Outbox
from longwatch.settings import load_settings
from longwatch.testing.clock import FakeClock
from tests.integration.sqlite import damage
from tests.unit.cli.samples import START_MS, research

JOURNAL = "sqlite:///journal.db"


def invoke(*arguments: str) -> Result:
    invocation = Invocation(clock=FakeClock(START_MS + 600_000))
    return CliRunner().invoke(
        cli, list(arguments), obj=invocation, catch_exceptions=False, standalone_mode=False
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal in which one event cannot be decoded."""
    path = tmp_path / "journal.db"
    damage.make(path)
    damage.not_json(path, "run-b", 5)
    return path


@pytest.mark.parametrize("options", [(), ("--full",)])
def test_doctor_exits_with_1_and_names_the_run_and_the_remedy(path: Path, options: tuple[str, ...]) -> None:
    found = invoke("doctor", "--journal", JOURNAL, "-o", "json", *options)

    part = json.loads(found.stdout)["parts"]["integrity"]
    assert found.return_value == 1
    assert part["problems"][0] == "1 event of run run-b cannot be read: `longwatch verify run-b`."
    assert f"`longwatch recover {path} --to NEW.db`" in part["problems"][1]


def test_doctor_decodes_only_a_sample_of_many_events_unless_full(tmp_path: Path) -> None:
    events = damage.chain("run-a", 4_100)
    with SqliteJournal(tmp_path / "journal.db") as journal:
        journal.append(events)

    sample, full = (
        {fact["name"]: fact["value"] for fact in json.loads(found.stdout)["parts"]["integrity"]["facts"]}
        for found in (
            invoke("doctor", "--journal", JOURNAL, "-o", "json", *more) for more in ((), ("--full",))
        )
    )

    assert sample["decoded"] == "2,050 events"
    assert full["decoded"] == "4,100 events"


def test_doctor_does_not_report_pruned_events_as_damage(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with SqliteJournal(path) as journal:
        journal.append(damage.chain("run-a", 4_100))
    damage.change(path, "DELETE FROM events WHERE number < 3000")

    found = invoke("doctor", "--journal", JOURNAL, "-o", "json")

    assert json.loads(found.stdout)["parts"]["integrity"]["problems"] == []


def test_doctor_names_the_remedy_for_a_damaged_page(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    damage.make(path)
    pages = damage.leaf_pages(path, b"run-b")
    damage.overwrite_page(path, pages[len(pages) // 2])

    found = invoke("doctor", "--journal", JOURNAL)

    assert found.return_value == 1
    assert "SQLite reports" in found.stdout
    assert "longwatch recover" in found.stdout


@pytest.mark.parametrize("command", [("export",), ("export", "--html"), ("show",), ("show", "-o", "jsonl")])
def test_an_event_that_an_index_hides_is_not_left_out_silently(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    path = tmp_path / "journal.db"
    damage.make(path)
    damage.hide_last(path, "run-a")

    found, verified, doctor = (
        invoke(*each, "--journal", JOURNAL)
        for each in ((*command, "run-a"), ("verify", "run-a"), ("doctor",))
    )

    assert "1 of 40 events of run run-a were not found. `longwatch verify run-a`" in found.stderr
    assert verified.return_value == 1
    assert "missing" in verified.stdout
    assert verified.stderr == ""
    assert doctor.return_value == 1
    assert "missing from index events_by_run" in doctor.stdout


def test_recover_reads_tables_rather_than_indexes(tmp_path: Path) -> None:
    path, new = tmp_path / "journal.db", tmp_path / "new.db"
    runs = damage.make(path)
    damage.hide_last(path, "run-a")

    found = invoke("recover", str(path), "--to", str(new))

    assert found.return_value == 0
    with SqliteJournal(new) as journal:
        assert journal.read("run-a").events == runs["run-a"]


def test_recover_salvages_the_rest_into_a_new_file_and_reports_counts(path: Path, tmp_path: Path) -> None:
    before = path.read_bytes()

    done = invoke("recover", "journal.db", "--to", "new.db", "-o", "json")
    again = invoke("doctor", "--journal", "sqlite:///new.db", "--full", "-o", "json")

    report = json.loads(done.stdout)
    assert done.return_value == 1
    assert (report["salvaged"], report["unreadable"], report["runs"]) == (3 * damage.EVENTS - 1, 1, 3)
    assert report["affected_runs"] == ["run-b"]
    assert path.read_bytes() == before
    assert not json.loads(again.stdout)["parts"]["integrity"]["problems"]
    assert invoke("verify", "run-b", "--journal", "sqlite:///new.db").return_value == 1
    assert invoke("verify", "run-a", "--journal", "sqlite:///new.db").return_value == 0


def test_last_events_of_a_producer_are_missing_in_the_recovered_file(
    tmp_path: Path,
) -> None:
    path = tmp_path / "journal.db"
    damage.make(path)
    for number in (damage.EVENTS - 1, damage.EVENTS):
        damage.not_json(path, "run-b", number)

    invoke("recover", "journal.db", "--to", "new.db")
    verified = invoke("verify", "run-b", "--journal", "sqlite:///new.db")
    listed = invoke("runs", "--journal", "sqlite:///new.db", "-o", "json")

    assert verified.return_value == 1
    assert "missing" in verified.stdout
    assert "2 fewer events than the journal counted" in verified.stdout
    assert {run["status"] for run in json.loads(listed.stdout)} == {"succeeded"}


def test_recover_of_a_sound_file_exits_with_0(tmp_path: Path) -> None:
    damage.make(tmp_path / "journal.db")

    done = invoke("recover", "journal.db", "--to", "new.db")

    assert done.return_value == 0
    assert done.stdout.startswith(f"{3 * damage.EVENTS} events of 3 runs salvaged to {tmp_path}/new.db; ")


def test_show_tail_and_export_return_the_rest_and_mark_the_gap(path: Path) -> None:
    shown, exported = (
        invoke(command, "run-b", "--journal", JOURNAL, *more)
        for command, more in (("show", ()), ("export", ()))
    )
    tailed = invoke("tail", "run-b", "--journal", JOURNAL)

    assert "1 event cannot be read" in shown.stdout
    assert exported.stdout.count("\n") == damage.EVENTS
    assert exported.stdout.count('"unreadable_event"') == 1
    assert tailed.stdout.count("unreadable_event") == 1


def test_ship_reports_why_events_are_left_behind_and_exits_with_3(tmp_path: Path) -> None:
    clock = FakeClock(START_MS + 600_000)
    outbox = Outbox(load_settings().outbox_path, clock=clock)
    outbox.put("sqlite:///journal.db", research())
    outbox.close()
    file = load_settings().outbox_path
    damage.change(file, "UPDATE waiting SET claimed_until = ?", clock.now_ms() + CLAIM_MS)

    done = invoke("ship", "--once")

    assert done.return_value == 3
    assert done.stdout == "0 shipped, 16 still waiting.\n"
    assert "16 events are left: another process has claimed 16" in done.stderr


def test_doctor_reports_what_waits_in_the_outbox(tmp_path: Path) -> None:
    outbox = Outbox(load_settings().outbox_path, clock=FakeClock(START_MS))
    outbox.put("sqlite:///journal.db", research())
    outbox.close()

    found = invoke("doctor", "-o", "json")

    part = json.loads(found.stdout)["parts"]["outbox"]
    assert {"name": "waiting", "value": "16 events", "about": ""} in part["facts"]
    assert part["warnings"] == ["Events wait in the outbox. Deliver them with `longwatch ship`."]
