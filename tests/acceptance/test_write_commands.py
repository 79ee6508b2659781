"""Writing and moving events: init, record, export, import, ship, prune, completion."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from longwatch.recording.outbox import Outbox
from tests.acceptance.conftest import Longwatch
from tests.unit.cli.samples import research

HERE = "sqlite:///here.db"


def test_init_writes_a_file_once(longwatch: Longwatch, tmp_path: Path) -> None:
    first, second = longwatch("init"), longwatch("init")
    forced = longwatch("init", "--force")

    assert (first.returncode, first.stdout) == (0, "longwatch.toml\n")
    assert (second.returncode, second.stderr) == (
        2,
        "longwatch: longwatch.toml already exists. Overwrite it with --force.\n",
    )
    assert forced.returncode == 0
    assert "# capture = " in (tmp_path / "longwatch.toml").read_text(encoding="utf-8")


def test_a_script_records_a_run_event_by_event(longwatch: Longwatch) -> None:
    started = longwatch("record", "workflow_start", "name=nightly import", "--journal", HERE)
    run_id = started.stdout.strip()

    longwatch("record", "note", "rows:=3", "--run", run_id, "--agent", "loader", "--journal", HERE)
    longwatch("record", "note", "--data", "-", "--journal", HERE, stdin='{"a": 1}', LONGWATCH_RUN_ID=run_id)
    ended = longwatch("record", "workflow_complete", "--run", run_id, "-o", "json", "--journal", HERE)

    shown = json.loads(longwatch("show", run_id, "-o", "json", "--journal", HERE).stdout)
    assert run_id.startswith("wf-")
    assert len(run_id) == len("wf-") + 12
    assert json.loads(ended.stdout) == {"run_id": run_id, "stored_in": "journal"}
    assert (shown["name"], shown["status"], shown["agents"]) == ("nightly import", "succeeded", ["loader"])
    assert longwatch("verify", run_id, "--journal", HERE).stdout.startswith("✓ complete")


def test_an_event_that_its_journal_refuses_waits_and_is_shipped_later(
    longwatch: Longwatch, tmp_path: Path
) -> None:
    blocked = tmp_path / "here.db"
    blocked.write_text("this is no database " * 50, encoding="utf-8")

    recorded = longwatch("record", "note", "--journal", HERE)
    waiting = longwatch("doctor", "--journal", "sqlite:///other.db")
    in_vain = longwatch("ship", "--once")
    blocked.unlink()
    shipped = longwatch("ship", "--once")

    assert recorded.returncode == 0
    assert recorded.stderr.count("\n") == 1
    assert "waits in the outbox" in recorded.stderr
    assert "Deliver them with `longwatch ship`" in waiting.stdout
    assert (in_vain.returncode, in_vain.stdout) == (3, "0 shipped, 3 still waiting.\n")
    assert (shipped.returncode, shipped.stdout) == (0, "3 shipped.\n")
    assert recorded.stdout.strip() in longwatch("runs", "--journal", HERE).stdout


def test_an_empty_outbox_is_not_a_failure(longwatch: Longwatch) -> None:
    done = longwatch("ship")

    assert (done.returncode, done.stdout) == (0, "The outbox is empty.\n")


def test_a_run_moves_from_one_journal_to_another(longwatch: Longwatch, journal: str) -> None:
    exported = longwatch("export", "wf-1a", "wf-1b", "--journal", journal)
    imported = longwatch("import", "-", "--journal", HERE, stdin=exported.stdout)

    assert exported.stderr == "Exported 21 events of 2 runs.\n"
    assert (imported.returncode, imported.stderr) == (0, "Imported 21 events.\n")
    assert longwatch("export", "wf-1a", "wf-1b", "--journal", HERE).stdout == exported.stdout


def test_invalid_lines_are_named_and_nothing_is_imported_partially(
    longwatch: Longwatch, journal: str
) -> None:
    good = longwatch("export", "wf-1b", "--journal", journal).stdout
    bad = "not json\n" + good + '{"run_id": "x"}\n'

    refused = longwatch("import", "-", "--journal", HERE, stdin=bad)
    partial = longwatch("import", "-", "--keep-going", "--journal", HERE, stdin=bad)

    assert refused.returncode == 2
    assert "line 1: not JSON" in refused.stderr
    assert "line 7: field event_id is missing" in refused.stderr
    assert partial.returncode == 1
    assert partial.stderr.endswith("Imported 5 events. 2 invalid lines skipped.\n")


def test_old_events_are_deleted_on_demand(longwatch: Longwatch, journal: str) -> None:
    done = longwatch("prune", "--older-than", "2m", "--journal", journal)

    assert (done.returncode, done.stdout) == (0, "16 events deleted.\n")
    assert longwatch("show", "wf-1a2b3c4d", "--journal", journal).returncode == 2


def test_a_journal_that_expires_by_itself_is_not_pruned(longwatch: Longwatch) -> None:
    done = longwatch("prune", "--older-than", "30d", "--journal", "dynamodb://events?region=eu-west-1")

    assert done.returncode == 2
    assert "expire by themselves" in done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_and_how_to_use_it(longwatch: Longwatch, shell: str) -> None:
    done = longwatch("completion", shell)

    assert done.returncode == 0
    assert "longwatch" in done.stdout
    assert f"longwatch completion {shell}" in done.stderr


def test_commands_and_run_ids_are_completed(longwatch: Longwatch, journal: str) -> None:
    def completed(words: str, word: str) -> list[str]:
        done = longwatch(
            _LONGWATCH_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=word, LONGWATCH_JOURNAL=journal
        )
        return [line.partition(",")[2] for line in done.stdout.splitlines()]

    assert completed("longwatch ve", "1") == ["verify"]
    assert completed("longwatch show wf-1", "2") == ["wf-1b00ffee", "wf-1a2b3c4d"]


def test_events_for_an_unreachable_journal_stay_in_the_outbox(longwatch: Longwatch, tmp_path: Path) -> None:
    outbox = Outbox(Path(os.environ["LONGWATCH_DATA"]) / "outbox.db")
    outbox.put(f"sqlite:///{tmp_path}/no/such/place.db", research())
    outbox.close()
    (tmp_path / "no").write_text("a file where a folder should be", encoding="utf-8")

    done = longwatch("ship", "--once")

    assert done.returncode == 3
    assert done.stdout == "0 shipped, 16 still waiting.\n"
    assert "Traceback" not in done.stderr
