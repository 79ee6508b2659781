"""The Lambda function that notifies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from longwatch.aws.notifier import handler, open_parts
from longwatch.errors import InvalidSettings
from longwatch.journal.sqlite import SqliteJournal
from longwatch.settings import NOTIFY_VARIABLE, load_settings
from tests.contract.events import event


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    open_parts.cache_clear()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LONGWATCH_JOURNAL", f"sqlite:///{tmp_path}/events.db")
    monkeypatch.delenv(NOTIFY_VARIABLE, raising=False)
    yield tmp_path
    open_parts.cache_clear()


def test_each_invocation_is_one_pass(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = folder / "sent.jsonl"
    rule = {"name": "a", "trigger": "failed", "channel": "command", "command": ["tee", "-a", str(out)]}
    monkeypatch.setenv(NOTIFY_VARIABLE, json.dumps([rule]))
    first = handler({})
    now = open_parts()._clock.now_ms()
    with SqliteJournal(folder / "events.db") as journal:
        journal.append([event("wf-1", now, "workflow_start"), event("wf-1", now + 1, "workflow_error")])

    second = handler({})

    assert first == {"delivered": 0, "given_up": 0, "queued": 0}
    assert second == {"delivered": 1, "given_up": 0, "queued": 0}
    assert json.loads(out.read_text())["title"] == "wf-1 failed"


def test_without_rules_the_function_fails_with_the_name_of_the_variable(folder: Path) -> None:
    with pytest.raises(InvalidSettings, match="LONGWATCH_NOTIFY is not set"):
        handler({})


@pytest.mark.parametrize(
    ("text", "problem"),
    [("[", "LONGWATCH_NOTIFY: Expecting value"), ("{}", "LONGWATCH_NOTIFY must be a JSON")],
)
def test_rules_that_are_no_json_array_are_a_mistake(folder: Path, text: str, problem: str) -> None:
    with pytest.raises(InvalidSettings, match=problem):
        load_settings(environment={NOTIFY_VARIABLE: text})


def test_the_variable_replaces_the_rules_of_the_file(folder: Path) -> None:
    (folder / "longwatch.toml").write_text('[[notify]]\nname = "of the file"\n')

    settings = load_settings(environment={NOTIFY_VARIABLE: '[{"name": "x"}]'})

    assert list(settings.notify) == [{"name": "x"}]
