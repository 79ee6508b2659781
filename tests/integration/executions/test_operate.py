"""`longwatch executions close`, `stop-watching`, `add-wave` and `set-waves`, on a SQLite file."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from longwatch.cli.main import cli
from longwatch.cli.options import Invocation
from longwatch.errors import ExecutionNotFound, InvalidInput
from longwatch.executions.operators import Operator, Statement
from longwatch.executions.stores.sqlite import SqliteExecutionStore
from longwatch.journal.sqlite import SqliteJournal
from longwatch.model.run import Status
from longwatch.testing import FakeClock
from longwatch.testing.drs import DrsSimulator, drill

JOURNAL = "sqlite:///operated.db"
WHY = ("--reason", "the vendor confirmed it", "--operator", "ana")


class Shell:
    """Runs commands in this process, in virtual time, with one execution that is open."""

    def __init__(self, clock: FakeClock, drs: DrsSimulator) -> None:
        self.clock = clock
        self.job = drs.play(drill("s-1", pending=60, active=60))
        self.executions("add", "--plan", "p-1", "--id", "x-1", "--wave", f"db={self.job}")

    def __call__(self, *arguments: str) -> Result:
        return CliRunner().invoke(
            cli,
            ["--journal", JOURNAL, *arguments],
            obj=Invocation(clock=self.clock),
            catch_exceptions=False,
            standalone_mode=False,
        )

    def executions(self, *arguments: str) -> Result:
        return self("executions", *arguments)


@pytest.fixture
def shell(clock: FakeClock, drs: DrsSimulator, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("AWS_ENDPOINT_URL_DRS", drs.url)
    return Shell(clock, drs)


def test_a_closed_execution_shows_who_closed_it_and_why(shell: Shell) -> None:
    shell.executions("watch", "--once")

    closed = shell.executions("close", "x-1", "--as", "failed", *WHY)
    explained = shell.executions("explain", "x-1")
    watched = shell.executions("watch")
    run = json.loads(shell("show", "x-1", "-o", "json").stdout)
    log = shell("tail", "x-1")

    assert closed.stdout == "x-1\n"
    assert closed.stderr == "Execution x-1 is closed as failed.\n"
    assert "closed by ana: the vendor confirmed it" in explained.stdout
    assert watched.stdout == ""
    assert (run["status"], run["error"]) == ("failed", "closed by ana: the vendor confirmed it")
    assert "execution_closed" in log.stdout


def test_secrets_in_a_reason_are_redacted_before_they_are_journaled(shell: Shell) -> None:
    secret = "hunter2hunter2"

    shell.executions("close", "x-1", "--as", "failed", "--reason", f"password={secret}", "--operator", "ana")
    outputs = [shell("show", "x-1", "-o", "json"), shell("tail", "x-1"), shell.executions("explain", "x-1")]

    assert all(secret not in each.stdout for each in outputs)
    assert "password=" in outputs[2].stdout


def test_a_watch_reports_the_end_that_another_process_wrote(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleep = shell.clock.sleep

    def close_meanwhile(seconds: float) -> None:
        monkeypatch.setattr(shell.clock, "sleep", sleep)
        file = Path("operated.db")
        with (
            closing(SqliteExecutionStore(file, clock=shell.clock)) as store,
            closing(SqliteJournal(file, clock=shell.clock)) as journal,
        ):
            (found,) = store.open_executions()
            by = Operator(store, journal, clock=shell.clock)
            by.close(found, Status.FAILED, Statement("ana", "the vendor confirmed it"))
        sleep(seconds)

    monkeypatch.setattr(shell.clock, "sleep", close_meanwhile)
    watched = shell.executions("watch")

    assert watched.return_value == 1
    assert watched.stdout.count("x-1 failed: closed by ana: the vendor confirmed it") == 1


def test_an_execution_that_is_no_longer_watched_is_unknown(shell: Shell) -> None:
    stopped = shell.executions("stop-watching", "x-1", *WHY, "-o", "json")

    view = json.loads(stopped.stdout)
    assert (view["status"], view["verdict"]["evidence"][0]["fields"]["operator"]) == ("unknown", "ana")
    assert "x-1" in shell.executions("list", "--status", "unknown").stdout
    assert shell.executions("watch").stdout == ""


def test_an_added_wave_is_watched_until_it_ends(shell: Shell, drs: DrsSimulator) -> None:
    second = drs.play(drill("s-2", pending=60, active=60))

    added = shell.executions("add-wave", "x-1", f"web={second}", *WHY)
    watched = shell.executions("watch")

    assert added.stderr == "Execution x-1 has 2 of 2 waves.\n"
    assert watched.return_value == 0
    assert shell.executions("show", "x-1").stdout.count("launched") == 2


def test_a_wave_count_ends_an_execution_that_waited_for_one(shell: Shell) -> None:
    shell.executions("add", "--plan", "p-1", "--id", "x-2", "--wave", f"db={shell.job}", "--more-waves")

    counted = shell.executions("set-waves", "x-2", "1", *WHY)
    watched = shell.executions("watch")

    assert counted.stderr == "Execution x-2 has 1 of 1 waves.\n"
    assert watched.return_value == 0
    assert "x-2 succeeded" in watched.stdout


def test_the_operator_is_the_login_name_unless_another_is_named(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "berta")

    closed = shell.executions(
        "close", "x-1", "--as", "cancelled", "--reason", "drill called off", "-o", "json"
    )

    assert json.loads(closed.stdout)["verdict"]["message"] == "closed by berta: drill called off"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("close", "x-1", "--as", "failed", "--reason", " "), "The reason is empty"),
        (("add-wave", "x-1", "web", *WHY), "Invalid wave 'web'. Write NAME=JOB"),
        (("add-wave", "x-1", "db=drsjob-00000000000000009", *WHY), "already has a wave 'db'"),
        (("add-wave", "x-1", "web=j-9", *WHY), "Invalid DRS job id 'j-9'"),
        (("add-wave", "x-1", "web=", "--servers", "s-9", *WHY), "Invalid DRS source server id 's-9'"),
        (("add-wave", "x-1", "web=", *WHY), "Wave 'web' has no job and no server"),
    ],
)
def test_a_decision_that_cannot_be_made_changes_nothing(
    shell: Shell, words: tuple[str, ...], why: str
) -> None:
    with pytest.raises(InvalidInput, match=why):
        shell.executions(*words)

    assert "running" in shell.executions("list").stdout


def test_a_wave_is_added_with_ids_of_its_source_alone(shell: Shell) -> None:
    shell.executions(
        "add", "--plan", "p-1", "--id", "x-2", "--source", "http", "--wave", "one=https://ci.example/7"
    )

    with pytest.raises(InvalidInput, match="looks like a secret"):
        shell.executions("add-wave", "x-2", "two=https://ci.example/8?api_key=s3cret", *WHY)

    assert "1 of 1" in shell.executions("explain", "x-2").stdout


def test_an_unknown_execution_is_named(shell: Shell) -> None:
    with pytest.raises(ExecutionNotFound, match="x-9"):
        shell.executions("stop-watching", "x-9", *WHY)


@pytest.mark.parametrize("words", [("close", "x-1", "--as", "failed"), ("set-waves", "x-1", "2")])
def test_a_decision_without_a_reason_is_a_usage_error(shell: Shell, words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(cli, ["--journal", JOURNAL, "executions", *words])

    assert done.exit_code == 2
    assert "--reason" in done.stderr
