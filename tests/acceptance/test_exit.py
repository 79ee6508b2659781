"""How the command leaves: exit codes, one line for every mistake, closed pipes, Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from tests.acceptance.conftest import BIG_EVENTS, Longwatch, command, environment
from tests.patience import PATIENCE_SECONDS

NOBODY = "http://127.0.0.1:9"  # the discard port: nothing listens there


@pytest.mark.parametrize(
    ("arguments", "code", "hint"),
    [
        (("verfy",), 2, "Did you mean 'verify'?"),
        (("show", "--jurnal", "x", "y"), 2, "'--journal'?"),
        (("show", "wf-none"), 2, "No run 'wf-none'."),
        (("show", "wf-1a2b3c4e"), 2, "Did you mean wf-1a2b3c4d"),
        (("show", "wf-1"), 2, "is ambiguous: wf-1b00ffee, wf-1a2b3c4d"),
        (("tail", "latest", "--since", "soon"), 2, "10m, 2h or 3d"),
        (("runs", "--journal", "postgres://x"), 2, "sqlite:///"),
        (("runs", "--journal", "sqlite:///none.db"), 2, "No journal at"),
        (("runs", "--scan"), 2, "--scan needs a DynamoDB"),
        (("runs", "--status", "done"), 2, "succeeded"),
        (("runs", "--journal", f"dynamodb://t?region=eu-west-1&endpoint={NOBODY}"), 3, "127.0.0.1"),
    ],
)
def test_a_mistake_is_one_line_on_stderr_and_an_exit_code(
    longwatch: Longwatch, journal: str, arguments: tuple[str, ...], code: int, hint: str
) -> None:
    done = longwatch(*arguments, LONGWATCH_JOURNAL=journal)

    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith("longwatch: ")
    assert done.stderr.count("\n") == 1
    assert hint in done.stderr


def test_debug_adds_the_traceback(longwatch: Longwatch, journal: str) -> None:
    before = longwatch("--debug", "show", "none", "--journal", journal)
    after = longwatch("show", "none", "--journal", journal, "--debug")

    assert "Traceback" in before.stderr
    assert "Traceback" in after.stderr


def test_version_and_help_succeed(longwatch: Longwatch) -> None:
    assert longwatch("--version").stdout.startswith("longwatch ")
    assert "Commands:" in longwatch("-h").stdout
    assert longwatch().returncode == 2


@pytest.mark.parametrize("form", ["text", "jsonl"])
def test_a_reader_that_closes_the_pipe_early_causes_no_error(big_journal: str, form: str) -> None:
    process = subprocess.Popen(
        command("tail", "latest", "--journal", big_journal, "-o", form),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert process.stdout is not None
    assert process.stderr is not None

    first = process.stdout.readline()
    process.stdout.close()
    complaints = process.stderr.read()

    assert b"note" in first
    assert complaints == b""
    assert process.wait(PATIENCE_SECONDS) == 141
    process.stderr.close()


def test_head_ends_a_pipeline_quietly(big_journal: str) -> None:
    words = " ".join(f"'{word}'" for word in command("export", "latest", "--journal", big_journal))

    done = subprocess.run(
        ["bash", "-c", f"{words} | head -n 1"], capture_output=True, text=True, env=environment()
    )

    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""


def test_a_big_run_is_read_whole(longwatch: Longwatch, big_journal: str) -> None:
    done = longwatch("tail", "latest", "--journal", big_journal, "-o", "jsonl")

    assert len(done.stdout.splitlines()) == BIG_EVENTS


def test_ctrl_c_while_reading_leaves_with_130_and_without_a_traceback(journal: str) -> None:
    process = subprocess.Popen(
        command("import", "-", "--keep-going", "--journal", journal, "--debug"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(PYTHONUNBUFFERED="1"),
    )
    assert process.stdin is not None
    for _ in range(3000):  # more than a pipe holds, so it is known to be reading
        process.stdin.write(b" " * 100 + b"\n")
    process.stdin.flush()

    process.send_signal(signal.SIGINT)
    _, complaints = process.communicate(timeout=PATIENCE_SECONDS)

    assert process.returncode == 130
    assert complaints == b""


def test_ctrl_c_while_waiting_for_a_journal_leaves_with_130(longwatch: Longwatch, tmp_path: Path) -> None:
    (tmp_path / "here.db").write_text("this is no database " * 50, encoding="utf-8")
    longwatch("record", "note", "--journal", "sqlite:///here.db")
    process = subprocess.Popen(
        command("ship"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    )
    assert process.stderr is not None

    line = process.stderr.readline()
    process.send_signal(signal.SIGINT)
    rest = process.communicate(timeout=PATIENCE_SECONDS)[1]

    assert "next attempt in 1 s" in line
    assert process.returncode == 130
    assert "Traceback" not in rest
