"""`longwatch run`, as installed: exit codes, signals, pipes and the terminal."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.patience import PATIENCE_SECONDS

LONGWATCH = str(Path(sys.executable).with_name("longwatch"))
PYTHON = sys.executable

# Prints when it is ready, and each signal that it gets; then continues or ends.
STUBBORN = "import signal, sys\nsignal.signal(signal.SIG{0}, lambda *_: print('signalled', flush=True))\n"
WAITS = "print('ready', flush=True)\nwhile True: signal.pause()\n"


@pytest.fixture(autouse=True)
def _journal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LONGWATCH_JOURNAL", f"sqlite:///{tmp_path}/journal.db")


def longwatch(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [LONGWATCH, *words], input=stdin, capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )


def start(*words: str) -> subprocess.Popen[str]:
    """Start `longwatch run` and wait until the command reports that it is ready."""
    process = subprocess.Popen(
        [LONGWATCH, "run", "--run-id", "wf-1", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    stdout, _ = process.communicate(timeout=PATIENCE_SECONDS)
    return process.returncode, stdout


def ending() -> dict[str, object]:
    """The payload of the run's terminal event."""
    lines = longwatch("export", "wf-1").stdout.splitlines()
    events = [json.loads(line) for line in lines]
    ends = [event for event in events if event["type"] in ("workflow_complete", "workflow_error")]
    assert len(ends) == 1
    payload = ends[0]["payload"]
    assert isinstance(payload, dict)
    return payload


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["true"], 0),
        ([PYTHON, "-c", "raise SystemExit(3)"], 3),
        ([PYTHON, "-c", "import os; os.kill(os.getpid(), 9)"], 137),
        (["./nowhere"], 127),
        (["/dev/null"], 126),
    ],
)
def test_the_exit_code_is_the_commands_own(command: Sequence[str], code: int) -> None:
    assert longwatch("run", "--", *command).returncode == code


def test_output_stays_on_its_channel_and_remarks_are_on_standard_error() -> None:
    result = longwatch("run", "--run-id", "wf-1", "--name", "greeting", "cat", stdin="hello\n")

    assert result.stdout == "hello\n"
    first, last = result.stderr.splitlines()
    assert first == "longwatch: recording greeting as run wf-1"
    assert last.startswith("longwatch: greeting succeeded after")
    assert last.endswith("longwatch show wf-1")


def test_quiet_prints_nothing_and_records_all_the_same() -> None:
    result = longwatch("run", "-q", "--run-id", "wf-1", "--", "echo", "hello")

    assert (result.stdout, result.stderr) == ("", "")
    assert '"text":"hello"' in longwatch("export", "wf-1").stdout


def test_options_after_the_command_belong_to_the_command() -> None:
    assert longwatch("run", "echo", "--name", "-q", "--", "x").stdout == "--name -q -- x\n"


def test_without_a_command_there_is_an_example() -> None:
    result = longwatch("run")

    assert result.returncode == 2
    assert "longwatch run -- python flow.py" in result.stderr


def test_an_invalid_journal_or_run_id_is_reported_before_anything_runs(tmp_path: Path) -> None:
    made = tmp_path / "made"

    results = [
        longwatch("run", "--journal", "nosql://x", "--", "touch", str(made)),
        longwatch("run", "--run-id", "longwatch#x", "--", "touch", str(made)),
    ]

    assert [result.returncode for result in results] == [2, 2]
    assert not made.exists()


def test_a_failing_journal_is_reported_and_the_command_runs(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    result = longwatch(
        "run", "--journal", f"sqlite:///{tmp_path}/file/x.db", "--", "sh", "-c", "echo hi; exit 5"
    )

    assert (result.returncode, result.stdout) == (5, "hi\n")
    assert "5 events wait in the outbox" in result.stderr


def test_switched_off_it_only_runs_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LONGWATCH_ENABLED", "false")

    result = longwatch("run", "--", "sh", "-c", "echo hi; exit 5")

    assert (result.returncode, result.stdout, result.stderr) == (5, "hi\n", "")
    assert not (tmp_path / "journal.db").exists()


def test_a_run_inside_a_run_knows_its_parent() -> None:
    longwatch("run", "--run-id", "wf-1", "--", LONGWATCH, "run", "--run-id", "wf-2", "--", "true")

    start = json.loads(longwatch("export", "wf-2").stdout.splitlines()[0])
    assert start["payload"]["parent_run_id"] == "wf-1"


def test_a_closed_output_ends_the_command_as_it_would_without_us() -> None:
    process = start(PYTHON, "-uc", "print('ready')\nwhile True: print('y' * 1000)")
    assert process.stdout is not None

    process.stdout.close()
    assert process.stderr is not None
    process.stderr.read()

    assert process.wait(PATIENCE_SECONDS) != 0
    process.stderr.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_is_passed_on_and_the_run_is_interrupted(number: signal.Signals) -> None:
    process = start("--", PYTHON, "-c", f"import signal\nsignal.signal({number:d}, signal.SIG_DFL)\n{WAITS}")

    process.send_signal(number)
    code, _ = finish(process)

    assert code == 128 + number
    ended = ending()
    assert (ended["status"], ended["signal"], ended["written_for"]) == ("interrupted", number.name, True)


def test_a_command_that_exits_on_the_signal_keeps_its_exit_code() -> None:
    script = "import signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n" + WAITS
    process = start("--", PYTHON, "-c", script)

    process.send_signal(signal.SIGTERM)
    code, _ = finish(process)

    assert code == 7
    assert (ending()["status"], ending()["exit_code"]) == ("interrupted", 7)


def test_a_command_that_does_not_stop_is_killed_after_its_grace_with_all_it_started() -> None:
    grandchild = f"[{PYTHON!r}, '-c', 'import signal; signal.signal(15, signal.SIG_IGN); signal.pause()']"
    script = f"import subprocess\nprint(subprocess.Popen({grandchild}).pid, file=__import__('sys').stderr)\n"
    process = start("--grace", "0.3", "--", PYTHON, "-c", script + STUBBORN.format("TERM") + WAITS)

    process.send_signal(signal.SIGTERM)
    stdout, stderr = process.communicate(timeout=PATIENCE_SECONDS)

    assert (process.returncode, stdout) == (137, "signalled\n")
    assert ending()["signal"] == "SIGKILL"
    assert is_gone(next(int(line) for line in stderr.splitlines() if line.isdigit()))


def test_processes_left_by_an_interrupted_command_are_killed_after_the_grace_period() -> None:
    grandchild = (
        f"[{PYTHON!r}, '-c', 'import signal; signal.signal(15, signal.SIG_IGN); print(1); signal.pause()']"
    )
    script = f"""
import signal, subprocess, sys
left = subprocess.Popen({grandchild}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
left.stdout.readline()
print(left.pid, file=sys.stderr)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
"""
    process = start("--grace", "2", "--", PYTHON, "-c", script + WAITS)

    process.send_signal(signal.SIGTERM)
    _, stderr = process.communicate(timeout=PATIENCE_SECONDS)

    assert process.returncode == 0
    assert is_gone(next(int(line) for line in stderr.splitlines() if line.isdigit()))


def test_a_second_interrupt_kills_at_once() -> None:
    process = start("--grace", "1000", "--", PYTHON, "-c", STUBBORN.format("INT") + WAITS)
    assert process.stdout is not None

    process.send_signal(signal.SIGINT)
    line = process.stdout.readline()
    process.send_signal(signal.SIGINT)
    code, _ = finish(process)

    assert (line, code) == ("signalled\n", 137)
    assert ending()["status"] == "interrupted"


def test_a_signal_that_we_were_started_to_ignore_is_ignored() -> None:
    command = f"trap '' HUP; exec {LONGWATCH} run --run-id wf-1 -- {PYTHON} -c \"{WAITS_FOR_INPUT}\""
    process = subprocess.Popen(
        ["sh", "-c", command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()

    process.send_signal(signal.SIGHUP)
    stdout, _ = process.communicate("go on\n", timeout=PATIENCE_SECONDS)

    assert (process.returncode, stdout) == (0, "go on\n")


WAITS_FOR_INPUT = "print('ready', flush=True); print(input())"


def test_on_a_terminal_the_command_reads_it_and_gets_one_interrupt() -> None:
    script = f"""
import os, signal
print("same group:", os.getpgrp() == os.getpgid(os.getppid()))
count = 0
def on_signal(*_):
    global count
    count += 1
signal.signal(signal.SIGINT, on_signal)
{WAITS_FOR_INPUT}
print("interrupts:", count)
"""
    terminal, theirs = pty.openpty()
    # The leader of a new session takes the terminal, so that Ctrl-C typed there is sent to its group.
    take = (
        "import fcntl, os, sys, termios;"
        "fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    command = [LONGWATCH, "run", "--run-id", "wf-1", "--", PYTHON, "-c", script]
    process = subprocess.Popen(
        [PYTHON, "-c", take, *command], stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    try:
        shown = read_until(terminal, b"ready")
        os.write(terminal, b"\x03")
        shown += read_until(terminal, b"^C")
        os.write(terminal, b"hello\n")
        shown += read_until(terminal, b"longwatch show")
        code = process.wait(PATIENCE_SECONDS)
    finally:
        os.close(terminal)

    assert b"same group: True" in shown
    assert b"interrupts: 1" in shown
    assert code == 0


def read_until(descriptor: int, wanted: bytes) -> bytes:
    shown = b""
    while wanted not in shown:
        shown += os.read(descriptor, 1024)
    return shown


def is_gone(pid: int) -> bool:
    """Whether a process has ended; one that its parent has not collected yet counts as ended too."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    state = Path(f"/proc/{pid}/stat")
    return state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z"
