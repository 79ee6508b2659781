"""`longwatch notify`: test a rule, send what is due, show the queue, and queue dead letters again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from longwatch.cli.main import describe_error
from longwatch.errors import InvalidInput, InvalidSettings
from longwatch.journal.sqlite import SqliteJournal
from longwatch.model.event import Event
from longwatch.testing import FakeClock
from tests.unit.cli.invocation import invoke
from tests.unit.cli.samples import START_MS

RULES = """
journal = "sqlite:///events.db"

[[notify]]
name = "failures"
trigger = "failed"
channel = "command"
command = ["tee", "-a", "sent.jsonl"]

[[notify]]
name = "broken"
trigger = "failed"
channel = "command"
command = ["false"]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LONGWATCH_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("LONGWATCH_JOURNAL", raising=False)
    (tmp_path / "longwatch.toml").write_text(RULES)
    return tmp_path


def fail_a_run(folder: Path, clock: FakeClock, run_id: str = "wf-1") -> None:
    with SqliteJournal(folder / "events.db") as journal:
        now = clock.now_ms()
        start = Event(run_id=run_id, event_id=f"{run_id}-1", type="workflow_start", occurred_at=now)
        end = Event(run_id=run_id, event_id=f"{run_id}-2", type="workflow_error", occurred_at=now + 1)
        journal.append([start, end])


def clock_at(seconds: float = 0) -> FakeClock:
    return FakeClock(START_MS + round(seconds * 1000))


def test_a_rule_is_tested_at_once(folder: Path) -> None:
    result = invoke("notify", "test", "failures")

    assert result.stdout.startswith("failures: command accepted msg_test_")
    assert json.loads((folder / "sent.jsonl").read_text())["title"] == "Test message: example run failed"
    assert not (folder / "events.db").exists()


def test_the_response_to_a_test_message_is_printed_as_json(folder: Path) -> None:
    response = json.loads(invoke("notify", "test", "failures", "-o", "jsonl").stdout)

    assert response.pop("delivery_id").startswith("msg_test_")
    assert response == {"rule": "failures", "channel": "command", "status": "exit 0"}


def test_a_rule_that_cannot_send_states_why(folder: Path) -> None:
    result = invoke("notify", "test", "broken")

    assert result.return_value == 1
    assert result.stderr == "longwatch: broken could not send: false exited with 1\n"


def test_an_unknown_rule_is_an_error_that_names_the_rules(folder: Path) -> None:
    with pytest.raises(InvalidInput, match=r"No rule 'x' in the settings. The rules are failures, broken"):
        invoke("notify", "test", "x")


def test_without_rules_a_command_says_where_to_add_them(folder: Path) -> None:
    (folder / "longwatch.toml").write_text("")

    for arguments in (("run", "--once"), ("test", "x")):
        with pytest.raises(InvalidInput, match=r"Add \[\[notify\]\] tables to longwatch.toml"):
            invoke("notify", *arguments)
    assert "No rules." in invoke("notify", "status").stderr


def test_a_mistake_in_a_rule_names_the_file_the_key_and_the_value(folder: Path) -> None:
    (folder / "longwatch.toml").write_text(RULES.replace('"failed"', '"faild"', 1))

    with pytest.raises(InvalidSettings) as raised:
        invoke("notify", "status")

    message, code = describe_error(raised.value)
    assert message.endswith(
        "longwatch.toml: notify rule 'failures': trigger 'faild' is unknown; did you mean 'failed'?"
    )
    assert code == 2


def test_one_pass_sends_what_is_due_and_states_what_is_left(folder: Path) -> None:
    invoke("notify", "run", "--once", clock=clock_at())
    fail_a_run(folder, clock_at(1))

    result = invoke("notify", "run", "--once", clock=clock_at(2))

    assert result.return_value == 1
    assert "Sent 1 message, 1 left in the queue." in result.stderr
    assert json.loads((folder / "sent.jsonl").read_text())["count"] == 1


def test_the_status_has_rules_queue_and_deliveries(folder: Path) -> None:
    invoke("notify", "run", "--once", clock=clock_at())
    fail_a_run(folder, clock_at(1))
    invoke("notify", "run", "--once", clock=clock_at(2))

    text = invoke("notify", "status", clock=clock_at(3)).stdout
    document = json.loads(invoke("notify", "status", "-o", "json", clock=clock_at(3)).stdout)
    lines = invoke("notify", "status", "-o", "jsonl", clock=clock_at(3)).stdout.splitlines()

    assert "wf-1 failed" in text
    assert [each["name"] for each in document["rules"]] == ["failures", "broken"]
    assert document["queue"][0]["problem"] == "false exited with 1"
    assert document["deliveries"][0]["response"] == "exit 0"
    assert [json.loads(each)["state"] for each in lines] == ["queued", "delivered"]


def test_dead_letters_are_shown_and_queued_again(folder: Path) -> None:
    invoke("notify", "run", "--once", clock=clock_at())
    fail_a_run(folder, clock_at(1))
    invoke("notify", "run", "--once", clock=clock_at(2))
    for hours in range(1, 26):
        invoke("notify", "run", "--once", clock=clock_at(hours * 3600))
    status = invoke("notify", "status", clock=clock_at(26 * 3600))
    dead = json.loads(invoke("notify", "status", "-o", "json").stdout)["dead_letters"]

    with pytest.raises(InvalidInput, match="No dead letter 'x'"):
        invoke("notify", "retry", "x")
    result = invoke("notify", "retry", dead[0]["delivery_id"], clock=clock_at(26 * 3600))

    assert "dead" in status.stdout
    assert "`longwatch notify retry`" in status.stderr
    assert result.stderr == "Queued 1 message again.\n"
    after = json.loads(invoke("notify", "status", "-o", "json").stdout)
    assert (len(after["queue"]), after["dead_letters"]) == (1, [])
