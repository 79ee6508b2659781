"""`longwatch turn`, as installed: a command as the executor of a turn."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from longwatch.cli.render.times import run_duration_text
from longwatch.journal.claims import ending_id
from longwatch.journal.factory import open_journal
from longwatch.model.process import find_leftovers
from longwatch.model.run import fold
from longwatch.turns import Conversations, TurnDetails, TurnState
from tests.contract.events import read_all
from tests.contract.turn_lines import assistant, line, result, text, tool_result, tool_use
from tests.patience import PATIENCE_SECONDS

LONGWATCH = str(Path(sys.executable).with_name("longwatch"))
PYTHON = sys.executable

AGENT = """
import json, os, sys
say = lambda **said: print(json.dumps(said), flush=True)
say(type="assistant", message={"content": [{"type": "text", "text": "asked: " + sys.stdin.read()}]})
say(type="assistant", message={"content": "in " + os.environ["LONGWATCH_SESSION"]})
say(type="result", subtype="success")
"""
# Prints its process id, then waits to be stopped; the last line after a signal comes too late.
PATIENT = """
import json, os, signal, sys
say = lambda **said: print(json.dumps(said), flush=True)
def on_signal(number, frame):
    say(type="assistant", message={"content": "stopping"})
    say(type="result", is_error=True, result="stopped")
    sys.exit(0)
signal.signal(signal.SIGTERM, on_signal)
say(type="assistant", message={"content": f"{os.getpid()}"})
while True: signal.pause()
"""
STUBBORN = PATIENT.replace(
    "def on_signal(number, frame):", "def on_signal(number, frame): return\ndef never():"
)


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/journal.db"
    monkeypatch.setenv("LONGWATCH_JOURNAL", url)
    return url


@pytest.fixture
def all_(url: str) -> Iterator[Conversations]:
    with open_journal(url) as journal:
        yield Conversations(journal)


def longwatch(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [LONGWATCH, *words], input=stdin, capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )


def prints(tmp_path: Path, *lines: str, exit_code: int = 0) -> list[str]:
    """A command that prints these lines."""
    (tmp_path / "lines").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return ["sh", "-c", f"cat {tmp_path / 'lines'}; echo 'trouble ahead' >&2; exit {exit_code}"]


@contextmanager
def executing(*words: str) -> Iterator[subprocess.Popen[str]]:
    """Start `longwatch turn` in session s, and wait until its command is at work."""
    process = subprocess.Popen(
        [LONGWATCH, "turn", "--session", "s", "-o", "jsonl", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        agent = int(json.loads(process.stdout.readline())["payload"]["text"])
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.kill(agent, signal.SIGKILL)  # no other process ends it where the executor was killed
    finally:
        process.kill()
        process.communicate()


def the_turn(all_: Conversations, session: str = "s") -> TurnState:
    return all_.turns("default", session)[-1]


def test_the_printed_duration_is_the_one_of_the_stored_turn(all_: Conversations, url: str) -> None:
    done = longwatch("turn", "--session", "s", "--", PYTHON, "-c", AGENT)

    turn = the_turn(all_)
    with open_journal(url) as journal:
        events, _ = read_all(journal, turn.turn_id)
    run = fold(events)
    assert run is not None
    assert turn.duration_ms == run.summary.duration_ms(0)
    assert f"succeeded after {run_duration_text(run.summary, 0)}. See it" in done.stderr


def test_the_output_of_the_agent_becomes_blocks_of_a_turn(all_: Conversations, tmp_path: Path) -> None:
    lines = [
        assistant(text("Let me look."), tool_use("u1", command="ls")),
        tool_result("u1", "a b"),
        result(),
    ]

    done = longwatch("turn", "--session", "s", "--", *prints(tmp_path, "Loading…", *lines))

    turn = TurnDetails.of(the_turn(all_))
    assert done.returncode == 0, done.stderr
    assert (turn.status, turn.number, turn.prompt) == ("completed", 1, None)
    assert [block.type for block in turn.blocks] == ["content", "tool_use", "tool_result"]
    assert "content: Let me look." in done.stdout
    assert "  Loading…\n" in done.stdout
    assert f"{turn.id} succeeded" in done.stderr
    assert "trouble ahead" in done.stderr


def test_the_command_finds_its_prompt_on_standard_input(all_: Conversations) -> None:
    done = longwatch(
        "turn",
        "--session",
        "s",
        "--prompt",
        "Mend\nthe roof",
        "-q",
        "--",
        PYTHON,
        "-c",
        AGENT,
        stdin="not this",
    )

    turn = the_turn(all_)
    assert (done.returncode, done.stdout) == (0, "")
    assert [block.content["text"] for block in turn.blocks] == ["asked: Mend\nthe roof", "in s"]
    assert turn.wire_status == "completed"


@pytest.mark.parametrize("arguments", [["--prompt", "-"], []])
def test_a_prompt_can_be_piped(all_: Conversations, arguments: list[str]) -> None:
    longwatch("turn", "--session", "s", *arguments, "--", PYTHON, "-c", AGENT, stdin="from a pipe")

    turn = the_turn(all_)
    assert turn.creation is not None
    assert turn.blocks[0].content["text"] == "asked: from a pipe"
    assert turn.creation.prompt == ("from a pipe" if arguments else None)


def test_a_prompt_too_long_for_a_variable_is_still_given(all_: Conversations) -> None:
    count = [PYTHON, "-c", "import json, sys; print(json.dumps({'type': 'x', 'n': len(sys.stdin.read())}))"]
    longwatch("turn", "--session", "s", "--prompt", "-", "--", *count, stdin="x" * 300_000)

    with open_journal(os.environ["LONGWATCH_JOURNAL"]) as journal:
        events, _ = read_all(journal, the_turn(all_).turn_id)
    assert [event.payload["line"] for event in events if event.type == "turn_line"] == [
        {"type": "x", "n": 300_000}
    ]


def test_a_command_that_fails_without_a_report_fails_its_turn_with_its_last_output(
    all_: Conversations, tmp_path: Path
) -> None:
    done = longwatch("turn", "--session", "s", "--", *prints(tmp_path, assistant(text("hi")), exit_code=3))

    turn = the_turn(all_)
    assert done.returncode == 1
    assert (turn.wire_status, turn.block_count) == ("failed", 1)
    assert turn.error == "exit code 3: trouble ahead"


# Lines of Codex are synthetic, after the published format.
CODEX = {
    "well": [line(type="turn.started"), line(type="turn.completed", usage={"output_tokens": 3})],
    "badly": [line(type="turn.started"), line(type="turn.failed", error={"message": "no credit"})],
    "aborted": [line(type="turn.started"), line(type="turn.aborted", reason="interrupted")],
    "silent": [line(type="turn.started")],
}


@pytest.mark.parametrize(
    ("lines", "exit_code", "status", "error"),
    [
        ([result("out of credit", is_error=True), "afterwards"], 0, "failed", "out of credit"),
        ([result("fine")], 0, "succeeded", None),
        ([result("fine")], 3, "failed", "the agent reported success; then exit code 3: trouble ahead"),
        ([assistant(text("hi"))], 0, "unknown", "the agent reported no result (exit code 0)"),
        (CODEX["well"], 0, "succeeded", None),
        (CODEX["badly"], 0, "failed", "no credit"),
        (CODEX["well"], 1, "failed", "the agent reported success; then exit code 1: trouble ahead"),
        (CODEX["silent"], 0, "unknown", "the agent reported no result (exit code 0)"),
        ([*CODEX["well"], *CODEX["badly"]], 0, "failed", "no credit"),
        ([*CODEX["aborted"], *CODEX["well"]], 0, "failed", "the agent aborted the turn: interrupted"),
    ],
)
def test_a_turn_succeeds_only_if_report_and_exit_agree(
    all_: Conversations, tmp_path: Path, lines: list[str], exit_code: int, status: str, error: str | None
) -> None:
    done = longwatch("turn", "--session", "s", "--", *prints(tmp_path, *lines, exit_code=exit_code))

    turn = the_turn(all_)
    assert (turn.status, turn.error) == (status, error)
    assert done.returncode == (0 if status == "succeeded" else 1)


def test_an_agent_that_crashes_after_its_report_has_failed(all_: Conversations, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text(result("fine") + "\n", encoding="utf-8")

    longwatch("turn", "--session", "s", "--", "sh", "-c", f"cat {tmp_path}/lines; kill -SEGV $$")

    assert the_turn(all_).error == "the agent reported success; then ended by SIGSEGV"


@pytest.mark.parametrize("kills", [False, True])
def test_a_turn_ends_after_its_report_although_the_process_continues(
    all_: Conversations, tmp_path: Path, kills: bool
) -> None:
    (tmp_path / "lines").write_text(result("fine") + "\n", encoding="utf-8")
    agent = f"echo $$ > {tmp_path}/pid; cat {tmp_path}/lines; exec sleep 600"
    options = ["--kill-leftover"] if kills else []

    done = longwatch("turn", "--session", "s", "--exit-wait", "0.2", *options, "--", "sh", "-c", agent)

    pid = int((tmp_path / "pid").read_text())
    turn = the_turn(all_)
    assert (done.returncode, turn.wire_status) == (0, "completed")
    assert f"process {pid} " in done.stderr
    if kills:
        assert "was killed" in done.stderr
    else:
        assert "is still running" in done.stderr
        os.kill(pid, signal.SIGKILL)


def test_a_command_that_cannot_be_started_fails_its_turn(all_: Conversations) -> None:
    done = longwatch("turn", "--session", "s", "--", "./nowhere")

    assert done.returncode == 1
    assert "not found" in (the_turn(all_).error or "")
    assert "not found" in done.stderr
    assert ".. See it" not in done.stderr


def test_lines_of_json_are_the_events_as_stored(url: str, all_: Conversations, tmp_path: Path) -> None:
    done = longwatch(
        "turn", "--session", "s", "-q", "-o", "jsonl", "--", *prints(tmp_path, assistant(text("hi")))
    )

    (printed,) = done.stdout.splitlines()
    (block,) = the_turn(all_).blocks
    assert json.loads(printed)["event_id"] == block.id
    assert done.stderr == "trouble ahead\n"


def test_an_interrupted_turn_stops_its_command(all_: Conversations) -> None:
    with executing("--", PYTHON, "-c", PATIENT) as process:
        turn = the_turn(all_).turn_id

        all_.interrupt("default", "s", turn, "enough")
        _, stderr = process.communicate(timeout=PATIENCE_SECONDS)

    found = all_.turn("default", "s", turn)
    assert process.returncode == 1
    assert (found.wire_status, found.error, found.block_count) == ("failed", "enough", 1)
    assert "cancelled after" in stderr


def test_a_newer_turn_stops_a_command_that_ignores_signals(all_: Conversations, tmp_path: Path) -> None:
    with executing("--grace", "0.2", "--", PYTHON, "-c", STUBBORN) as process:
        done = longwatch("turn", "--session", "s", "-q", "--", *prints(tmp_path, result()))
        process.communicate(timeout=PATIENCE_SECONDS)

    old, new = all_.turns("default", "s")
    assert (done.returncode, process.returncode) == (0, 1)
    assert (old.wire_status, new.wire_status) == ("failed", "completed")
    assert new.turn_id in (old.error or "")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 1)])
def test_a_signal_is_passed_on_and_ends_the_turn(all_: Conversations, number: int, code: int) -> None:
    with executing(
        "--", PYTHON, "-c", PATIENT.replace("SIGTERM, on_signal", "SIGTERM, signal.SIG_DFL")
    ) as process:
        process.send_signal(number)
        process.communicate(timeout=PATIENCE_SECONDS)

    turn = the_turn(all_)
    assert process.returncode == code
    assert turn.wire_status == "failed"
    assert f"interrupted by {signal.Signals(number).name}" in (turn.error or "")


def test_a_turn_whose_executor_was_killed_ends_for_every_watcher(all_: Conversations) -> None:
    with executing("--", PYTHON, "-c", PATIENT) as process:
        turn = the_turn(all_).turn_id
        process.kill()
        process.wait()

        watched = longwatch("watch", turn)

    found = all_.turn("default", "s", turn)
    assert watched.returncode == 5
    assert (found.status, found.wire_status) == ("died", "failed")
    assert f"Process {process.pid}" in (found.error or "")
    assert found.ending is not None
    assert found.ending.order[3] == ending_id(turn)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what a process was started with")
def test_an_agent_that_outlives_its_killed_executor_is_reported(all_: Conversations) -> None:
    with executing("--", PYTHON, "-c", PATIENT) as process:
        turn = the_turn(all_).turn_id
        process.kill()
        process.wait()

        shown = longwatch("show", turn, "-o", "json")
        watched = longwatch("watch", turn)

        left = find_leftovers(turn)
        assert json.loads(shown.stdout)["error"].endswith(f"Process {left[0]} of the turn is still running.")
        found = all_.turn("default", "s", turn)
        assert watched.returncode == 5
        assert len(left) == 1
        assert (found.error or "").endswith(f"Process {left[0]} of the turn is still running.")
        os.kill(left[0], signal.SIGKILL)


def test_a_turn_created_elsewhere_is_executed_once(all_: Conversations) -> None:
    all_.create_project("p")
    all_.create_conversation("p", "here")
    turn = all_.create_turn("p", "here", "from the page").turn_id

    first = longwatch("turn", "--turn", turn, "-q", "--", PYTHON, "-c", AGENT)
    second = longwatch("turn", "--turn", turn, "--", PYTHON, "-c", AGENT)

    found = all_.turn("p", "here", turn)
    assert (first.returncode, second.returncode) == (0, 2)
    assert [block.content["text"] for block in found.blocks] == ["asked: from the page", "in here"]
    assert "has ended" in second.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "No command to run"),
        (["--turn", "turn-x", "--prompt", "y", "--", "true"], "Remove --prompt"),
        (["--turn", "turn-x", "--", "true"], "No turn"),
        (["--turn", "wf-1", "--", "true"], "Invalid turn id"),
        (["--project", "../up", "--", "true"], "Invalid project id"),
    ],
)
def test_an_impossible_turn_is_refused_before_anything_runs(
    url: str, arguments: list[str], words: str
) -> None:
    done = longwatch("turn", *arguments)

    assert done.returncode == 2
    assert words in done.stderr


def test_runs_are_listed_without_projects_and_conversations(all_: Conversations, tmp_path: Path) -> None:
    longwatch("turn", "--session", "s", "--prompt", "Mend the roof", "--", *prints(tmp_path, result()))

    work = ids(longwatch("runs", "-o", "json").stdout)
    listing = ids(longwatch("runs", "--kind", "conversation", "-o", "json").stdout)
    shown = longwatch("show", "latest").stdout

    assert work == [the_turn(all_).turn_id]
    assert listing == ["conversation:default:s"]
    assert "Mend the roof" in shown
    assert "part of   conversation:default:s" in shown


def test_a_tool_is_a_call_in_the_tree_of_a_turn(tmp_path: Path, url: str) -> None:
    lines = [assistant(tool_use("u1", "WebSearch")), tool_result("u1", "nothing", is_error=True), result()]
    longwatch("turn", "--", *prints(tmp_path, *lines))

    assert "✗ WebSearch" in longwatch("show", "latest").stdout


def ids(output: str) -> list[str]:
    runs: list[dict[str, Any]] = json.loads(output)
    return [run["run_id"] for run in runs]
