from __future__ import annotations

import subprocess
import sys

import click
import pytest

from longwatch.cli.main import COMMANDS, cli, describe_error, run
from longwatch.errors import InvalidInput, InvalidSettings, MissingExtra, TableProblem, Unreachable

HEAVY = (
    "boto3",
    "rich",
    "sqlite3",
    "longwatch.settings",
    "longwatch.journal",
    "longwatch.model.run",
    "asyncio",
)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_of_commands_has_the_summary_of_each_command(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)

    assert command is not None
    assert command.get_short_help_str(200).rstrip(".") == COMMANDS[name][1].rstrip(".")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_takes_a_short_help_option(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([name, "-h"]) == 0
    assert f"Usage: longwatch {name}" in capsys.readouterr().out


def test_help_imports_no_command_and_nothing_heavy() -> None:
    code = (
        "import sys; from longwatch.cli.main import run; run(['--help']); "
        "print(*sorted(sys.modules), file=sys.stderr)"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    modules = done.stderr.split()
    assert [name for name in modules if name in HEAVY] == []
    assert [name for name, (module, _) in COMMANDS.items() if module in modules] == []


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["shw"], "No such command 'shw'. Did you mean 'show'?"),
        (["--jornal", "x"], "Did you mean '--journal'?"),
        (["runs", "--sinse", "1h"], "'--since'?"),
        (["show"], "Missing argument 'RUN'."),
        (["runs", "--since", "soon"], "10m, 2h or 3d (ago)"),
        (["runs", "--journal", "mysql://x"], "sqlite:///path/to/file.db"),
        (["tail", "latest", "--journal", "sqlite:///none.db"], "none.db yet. Record a run"),
        (["record", "note", "novalue"], "Use KEY=VALUE"),
        (["record", "note", "n:=x"], "Invalid JSON"),
        (["record", "note", "--data", "[1]"], "must be a JSON object"),
        (["record", "note", "--data", "@missing.json"], "Cannot read"),
        (["import", "missing.jsonl"], "missing.jsonl cannot be read"),
        (["prune", "--older-than", "long"], "30d, 12h, 90m or 45s"),
        (
            ["executions", "close", "x", "--reason", "y"],
            "'--as'. Choose from: succeeded, partial,",
        ),
        (["executions", "set-waves", "x", f"{10**21}", "--reason", "y"], "1<=x<=10000"),
    ],
)
def test_a_mistake_is_reported_in_one_line_with_the_next_step(
    arguments: list[str], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(arguments)

    captured = capsys.readouterr()
    assert code == 2
    assert captured.out == ""
    assert captured.err.startswith("longwatch: ")
    assert captured.err.count("\n") == 1
    assert hint in captured.err


@pytest.mark.parametrize(
    ("error", "message", "code"),
    [
        (InvalidInput("Bad line."), "longwatch: Bad line.", 2),
        (Unreachable("No answer."), "longwatch: No answer.", 3),
        (TableProblem("unreachable", "No answer."), "longwatch: No answer.", 3),
        (TableProblem("not-found", "No table."), "longwatch: No table.", 2),
        (InvalidSettings(["a is wrong"]), "longwatch: a is wrong", 2),
        (
            InvalidSettings(["a is wrong", "b too"]),
            "longwatch: 2 mistakes in the settings:\n  a is wrong\n  b too",
            2,
        ),
        (
            MissingExtra("A table", "aws"),
            "longwatch: A table needs the 'aws' extra. "
            "Install it in a checkout of longwatch: pip install '.[aws]'",
            2,
        ),
        (
            KeyError("x"),
            "longwatch: unexpected KeyError: 'x'. This is a bug in longwatch; --debug prints the traceback.",
            1,
        ),
    ],
)
def test_every_kind_of_error_has_its_message_and_its_exit_code(
    error: Exception, message: str, code: int
) -> None:
    assert describe_error(error) == (message, code)


def test_the_traceback_is_shown_only_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    run(["runs", "--since", "soon"])
    assert "Traceback" not in capsys.readouterr().err

    run(["runs", "--since", "soon", "--debug"])
    assert "Traceback" in capsys.readouterr().err


def test_an_interrupt_has_its_own_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("longwatch.cli.main._invoke", interrupted)

    assert run(["runs"]) == 130
