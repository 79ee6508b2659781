"""Commands that read runs: runs, show, tail, verify, doctor."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from longwatch.cli.render.text import columns_of
from tests.acceptance.conftest import Longwatch, command, environment

FAILING_PROGRAM = """\
import longwatch

@longwatch.tool
def fetch_prices(day):
    request(day)

def request(day):
    raise TimeoutError("no answer")

with longwatch.run("prices"):
    fetch_prices("monday")
"""


def test_runs_lists_the_newest_first(longwatch: Longwatch, journal: str) -> None:
    done = longwatch("runs", "--journal", journal)

    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    assert lines[0].split() == [
        "RUN", "STATUS", "KIND", "NAME", "STARTED", "AGE", "DURATION", "EVENTS", "AGENTS",
        "LAST", "EVENT", "FAILURE",
    ]  # fmt: skip
    assert [line.split()[0] for line in lines[1:]] == ["●", "✗", "✓"]
    assert "research report" in lines[3]


def test_runs_speaks_json_to_programs(longwatch: Longwatch, journal: str) -> None:
    as_list = json.loads(longwatch("runs", "--journal", journal, "-o", "json").stdout)
    as_lines = longwatch("runs", "--journal", journal, "-o", "jsonl").stdout.splitlines()

    assert [run["status"] for run in as_list] == ["running", "failed", "succeeded"]
    assert [json.loads(line)["run_id"] for line in as_lines] == [run["run_id"] for run in as_list]


def test_show_draws_the_run_as_a_tree_with_bars(longwatch: Longwatch, journal: str) -> None:
    done = longwatch("show", "wf-1a", "--journal", journal)

    assert done.returncode == 0
    assert done.stdout.startswith("✓ succeeded  wf-1a2b3c4d  research report\n")
    assert "├─ ✗ web.search (try 1)" in done.stdout
    assert "│    TimeoutError: no answer in 3 s" in done.stdout
    assert "├─ ✓ web.search (try 2)" in done.stdout
    assert "███" in done.stdout


def test_show_prints_one_call_with_its_error_and_its_attempts(longwatch: Longwatch, journal: str) -> None:
    done = longwatch("show", "wf-1a", "t2", "--journal", journal)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("✗ failed  web.search\n")
    assert "\nError\n  TimeoutError: no answer in 3 s\n" in done.stdout
    assert "\ncalled by   researcher (agent, a2)\n" in done.stdout
    assert "\nattempt     1 of 2\n" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("  ✓ t3  web.search  1.3 s")


def test_show_prints_the_traceback_of_a_recorded_call(longwatch: Longwatch, tmp_path: Path) -> None:
    program = tmp_path / "prices.py"
    program.write_text(FAILING_PROGRAM)
    variables = {"LONGWATCH_JOURNAL": f"sqlite:///{tmp_path}/runs.db"}
    subprocess.run([sys.executable, program], env=environment(**variables), capture_output=True, check=False)

    done = longwatch("show", "latest", "fetch_prices", **variables)

    assert (done.returncode, done.stderr) == (0, "")
    assert "\nError\n  TimeoutError: no answer\n" in done.stdout
    assert done.stdout.partition("\nTraceback\n")[2].splitlines()[:6] == [
        "  Traceback (most recent call last):",
        f'    File "{program}", line 5, in fetch_prices',
        "      request(day)",
        f'    File "{program}", line 8, in request',
        '      raise TimeoutError("no answer")',
        "  TimeoutError: no answer",
    ]


def test_a_call_is_named_by_a_name_that_it_alone_has(longwatch: Longwatch, journal: str) -> None:
    done = longwatch("show", "wf-1a", "planner", "--journal", journal, "-o", "json")

    details = json.loads(done.stdout)
    assert details["call"]["call_id"] == "a1"
    assert [child["name"] for child in details["children"]] == ["outline"]
    assert [event["type"] for event in details["events"]] == ["agent_start", "agent_end"]


def test_an_ambiguous_name_lists_the_calls_with_it(longwatch: Longwatch, journal: str) -> None:
    done = longwatch("show", "wf-1a", "web.search", "--journal", journal)

    assert (done.returncode, done.stdout) == (2, "")
    assert [line.split()[0] for line in done.stderr.splitlines()[1:]] == ["t2", "t3"]


def test_latest_is_the_newest_run(longwatch: Longwatch, journal: str) -> None:
    for word in ("latest", "-"):
        assert longwatch("show", word, "--journal", journal).stdout.startswith("● running  session-")


def test_tail_prints_one_line_for_each_event(longwatch: Longwatch, journal: str) -> None:
    done = longwatch("tail", "wf-1a", "--since", "10m", "--journal", journal)

    assert len(done.stdout.splitlines()) == 16
    assert "three sources agree" in done.stdout
    assert "\x1b" not in done.stdout


def test_verify_reports_its_result_by_exit_code(longwatch: Longwatch, journal: str) -> None:
    done = longwatch("verify", "wf-1a", "--journal", journal)

    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "✓ complete  wf-1a2b3c4d")
    assert "detects damage" in longwatch("verify", "--help").stdout


def test_doctor_finds_no_problem(longwatch: Longwatch, journal: str) -> None:
    done = longwatch("doctor", "--journal", journal)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("Everything is in order.\n")


def test_doctor_reports_every_problem_and_exits_with_1(longwatch: Longwatch, tmp_path: Path) -> None:
    (tmp_path / "longwatch.toml").write_text('journal = 3\n[recording]\ncapture = "x"\n', encoding="utf-8")

    done = longwatch("doctor")

    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.count("fix or remove it.") == 2
    assert "2 problems." in done.stdout


@pytest.mark.parametrize(
    "arguments", [("runs",), ("show", "wf-1a"), ("show", "-"), ("tail", "wf-1a"), ("doctor",)]
)
def test_a_phone_shows_no_line_that_is_too_wide(
    longwatch: Longwatch, journal: str, arguments: tuple[str, ...]
) -> None:
    done = longwatch(*arguments, "--journal", journal, COLUMNS="40")

    assert max(columns_of(line) for line in done.stdout.splitlines()) <= 40


def test_escape_sequences_are_printed_only_where_wanted(longwatch: Longwatch, journal: str) -> None:
    def colours(**variables: str) -> bool:
        return "\x1b[" in longwatch("show", "wf-1a", "--journal", journal, **variables).stdout

    assert not colours()
    assert colours(FORCE_COLOR="1")
    assert not colours(FORCE_COLOR="1", NO_COLOR="1")


def seen_on_a_terminal(*arguments: str, **variables: str) -> str:
    screen, line = pty.openpty()
    process = subprocess.Popen(command(*arguments), stdout=line, stderr=line, env=environment(**variables))
    os.close(line)
    seen = b""
    try:
        while part := os.read(screen, 65536):
            seen += part
    except OSError:
        pass  # Linux ends a pseudo-terminal with an error rather than with nothing
    assert process.wait() == 0
    os.close(screen)
    return seen.decode()


def test_a_terminal_gets_colour_unless_it_is_turned_off(journal: str) -> None:
    assert "\x1b[32m" in seen_on_a_terminal("runs", "--journal", journal, TERM="xterm")
    assert "\x1b[" not in seen_on_a_terminal("runs", "--journal", journal, TERM="xterm", NO_COLOR="1")
    assert "\x1b[" not in seen_on_a_terminal("runs", "--journal", journal, TERM="dumb")


@pytest.mark.parametrize(
    "arguments", [("--journal", "sqlite:///runs.db", "runs"), ("runs", "--journal", "sqlite:///runs.db")]
)
def test_the_journal_may_be_named_before_or_after_the_command(
    longwatch: Longwatch, journal: str, arguments: tuple[str, ...]
) -> None:
    assert "wf-1a2b3c4d" in longwatch(*arguments).stdout


def test_the_journal_may_be_named_by_the_environment(longwatch: Longwatch, journal: str) -> None:
    assert "wf-1a2b3c4d" in longwatch("runs", LONGWATCH_JOURNAL=journal).stdout


def test_an_encoding_without_our_symbols_is_not_an_error(longwatch: Longwatch, journal: str) -> None:
    text = longwatch("show", "wf-1a", "--journal", journal, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    data = longwatch("show", "wf-1a", "--journal", journal, "-o", "json", PYTHONIOENCODING="ascii")

    assert text.returncode == 0
    assert "資料を読む" in [call["name"] for call in json.loads(data.stdout)["calls"]]


@pytest.mark.parametrize(("other", "code"), [("wf-1a2b3c4d", 0), ("wf-1b00ffee", 1)])
def test_the_exit_code_of_diff_states_whether_two_runs_differ(
    longwatch: Longwatch, journal: str, other: str, code: int
) -> None:
    done = longwatch("diff", "wf-1a", other, "--journal", journal)

    assert (done.returncode, done.stderr) == (code, "")
    assert done.stdout


def test_diff_is_quiet_when_its_reader_has_left(journal: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            command("diff", "wf-1a", "wf-1b00ffee", "--journal", journal),
            stdout=writing,
            stderr=subprocess.PIPE,
            env=environment(),
            check=False,
        )
    finally:
        os.close(writing)

    assert done.stderr == b""
