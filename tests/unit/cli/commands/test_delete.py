"""`longwatch delete`: confirmation, refusals, and what the other commands say about a deleted run."""

from __future__ import annotations

import json

import click
import pytest

from longwatch.errors import InvalidInput, RunDeleted
from longwatch.journal.factory import open_journal
from tests.unit.cli.invocation import invoke
from tests.unit.cli.samples import Story


def test_a_run_is_deleted_and_every_command_says_so(file: str) -> None:
    done = invoke("delete", "wf-1a", "--yes", "--journal", file)

    assert (done.return_value, done.stdout) == (0, "1 run deleted, 16 events removed.\n")
    assert "wf-1a2b3c4d" in done.stderr
    for command in ("show", "tail", "export"):
        with pytest.raises(RunDeleted, match="Run 'wf-1a2b3c4d' was deleted at "):
            invoke(command, "wf-1a2b3c4d", "--journal", file)
    verified = invoke("verify", "wf-1a2b3c4d", "--journal", file)
    assert verified.return_value == 0
    assert verified.stdout.startswith("○ deleted  wf-1a2b3c4d\n  deleted at ")
    assert "16 events removed, digest " in verified.stdout
    answer = json.loads(invoke("verify", "wf-1a2b3c4d", "-o", "json", "--journal", file).stdout)
    assert (answer["answer"], answer["deleted"]["events"]) == ("deleted", 16)
    assert "wf-1a2b3c4d" not in invoke("runs", "--journal", file).stdout


def test_a_dry_run_and_a_missing_confirmation_delete_nothing(file: str) -> None:
    dry = invoke("delete", "wf-1a", "--dry-run", "--journal", file)
    with pytest.raises(click.UsageError, match="confirm the deletion with --yes"):
        invoke("delete", "wf-1a", "--journal", file)

    assert dry.stdout == "1 run with 16 events would be deleted. Nothing was deleted.\n"
    document = invoke("delete", "wf-1a", "--dry-run", "-o", "jsonl", "--journal", file).stdout
    assert json.loads(document) == {"runs": [{"run_id": "wf-1a2b3c4d", "events": 16}], "dry_run": True}
    assert "wf-1a2b3c4d" in invoke("runs", "--journal", file).stdout


def test_an_open_run_needs_force_and_nothing_else_is_deleted_meanwhile(file: str) -> None:
    story = Story(run_id="wf-open", producer="p-open")
    story.add("workflow_start")
    with open_journal(file) as journal:
        journal.append(story.events)

    with pytest.raises(InvalidInput, match="delete it with --force"):
        invoke("delete", "wf-1a", "wf-open", "--yes", "--journal", file)
    forced = invoke("delete", "wf-1a", "wf-open", "--yes", "--force", "--journal", file)

    assert forced.stdout.startswith("2 runs deleted, ")
