"""Senders in the background of another command: a thread while it runs, and one more pass at its end."""

from __future__ import annotations

import json
import threading
from pathlib import Path

from longwatch.clock import SYSTEM_CLOCK
from longwatch.journal.base import Journal
from longwatch.journal.sqlite import SqliteJournal
from longwatch.notifications.compose import notifying, open_notifier
from longwatch.settings import Settings, sqlite_url
from tests.contract.events import event


def settings_of(folder: Path, *, rules: bool = True) -> Settings:
    rule = {
        "name": "failures",
        "trigger": "failed",
        "channel": "command",
        "command": ["tee", "-a", str(folder / "sent.jsonl")],
    }
    return Settings(journal=sqlite_url(folder / "events.db"), notify=[rule] if rules else [])


def fail_a_run(journal: Journal) -> None:
    now = SYSTEM_CLOCK.now_ms()
    journal.append([event("wf-1", now, "workflow_start"), event("wf-1", now + 1, "workflow_error")])


def test_what_happened_at_the_end_of_a_command_is_sent_before_it_exits(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    with SqliteJournal(tmp_path / "events.db") as journal:
        with open_notifier(settings, journal) as first:
            first.run_once()  # from now on the rule reports

        with notifying(settings, journal, at_end=True):
            fail_a_run(journal)

        sent = [json.loads(each)["title"] for each in (tmp_path / "sent.jsonl").read_text().splitlines()]
        stated = [each.type for each in journal.read("wf-1").events]
    assert sent == ["wf-1 failed"]
    assert stated == ["workflow_start", "workflow_error", "notified"]
    assert not any(each.name == "longwatch-notifier" for each in threading.enumerate())


def test_without_rules_nothing_is_opened(tmp_path: Path) -> None:
    with (
        SqliteJournal(tmp_path / "events.db") as journal,
        notifying(settings_of(tmp_path, rules=False), journal) as notifier,
    ):
        assert notifier is None
