"""`longwatch verify` and `prune`: complete, damaged and expired runs."""

from __future__ import annotations

from pathlib import Path

from longwatch.cli.commands.verify import verification_lines
from longwatch.cli.render.styles import paint
from longwatch.journal.verify import Verifier
from longwatch.testing.clock import FakeClock
from tests.unit.cli.invocation import invoke
from tests.unit.cli.samples import START_MS


def test_verify_reports_damage_by_its_exit_code(file: str, tmp_path: Path) -> None:
    lines = invoke("export", "wf-1a", "--journal", file).stdout.splitlines()
    (tmp_path / "holes.jsonl").write_text("\n".join(lines[:3] + lines[5:]), encoding="utf-8")
    invoke("import", "holes.jsonl", "--journal", "sqlite:///holes.db")

    whole = invoke("verify", "wf-1a", "--journal", file)
    holes = invoke("verify", "latest", "--journal", "sqlite:///holes.db")

    assert (whole.return_value, whole.stdout.splitlines()[0]) == (0, "✓ complete  wf-1a2b3c4d")
    assert holes.return_value == 1
    assert holes.stdout == "✗ missing  wf-1a2b3c4d\n  missing 4–5 of producer p-3c4d\n"


def test_a_producers_name_cannot_steer_the_terminal() -> None:
    from tests.unit.cli.samples import Story

    story = Story(producer="\x1b[2J")
    story.add("note")
    verifier = Verifier()
    verifier.add(story.events[0])

    lines = [paint(line, colour=False) for line in verification_lines("wf-1", verifier.report(START_MS))]

    assert lines[1] == "  open: 1 event of producer \\x1b[2J"


def test_old_events_are_pruned_and_then_reported_as_expired(file: str) -> None:
    clock = FakeClock(START_MS + 600_000)

    dry = invoke("prune", "--older-than", "9m57s", "--dry-run", "--journal", file, clock=clock)
    done = invoke("prune", "--older-than", "9m57s", "--journal", file, clock=clock)
    verified = invoke("verify", "wf-1a", "--journal", file, clock=clock)

    assert dry.stdout.startswith("1 run with events from before ")
    assert dry.stdout.endswith(". Nothing was deleted.\n")
    assert done.stdout == "7 events deleted.\n"
    assert verified.return_value == 0
    assert "✗" not in verified.stdout
    assert verified.stdout.startswith("○ expired")
