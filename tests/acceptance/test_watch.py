"""`longwatch watch` and `longwatch tail -f`, on runs that another process is writing at the same time."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.conftest import Longwatch, command, environment
from tests.acceptance.writer import Writer
from tests.contract.tables import new_table
from tests.patience import PATIENCE_SECONDS


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'watched.db'}"


@pytest.fixture
def writer(url: str) -> Iterator[Writer]:
    """A run that has begun and continues."""
    writer = Writer(url, "wf-dig")
    writer.send("note first")
    yield writer
    writer.end()


class Started:
    """The command, while it runs."""

    def __init__(self, *arguments: str, **variables: str) -> None:
        self._process = subprocess.Popen(
            command(*arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            env=environment(**variables),
        )
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self.stdout, self.stderr = self._process.stdout, self._process.stderr

    def read_until(self, words: str) -> str:
        """What it prints up to the line with these words."""
        read = ""
        while words not in read:
            line = self.stdout.readline()
            assert line, f"{words!r} was never printed, but {read!r}"
            read += line
        return read

    def interrupt(self, number: int = signal.SIGINT) -> None:
        self._process.send_signal(number)

    def ends(self) -> tuple[int, str, str]:
        """Exit code, the rest of standard output, standard error."""
        if self.stdout.closed:
            complaints = self.stderr.read()
            self.stderr.close()
            return self._process.wait(PATIENCE_SECONDS), "", complaints
        rest, complaints = self._process.communicate(timeout=PATIENCE_SECONDS)
        return self._process.returncode, rest, complaints


def test_a_watch_prints_what_another_process_records_and_exits_with_its_outcome(
    url: str, writer: Writer
) -> None:
    watch = Started("watch", "wf-d", "--journal", url)
    before = watch.read_until("first")

    writer.send("note second")
    live = watch.read_until("second")
    writer.end()

    code, rest, stderr = watch.ends()
    assert "workflow_start" in before
    assert live.count("\n") == 1
    assert "workflow_complete" in rest
    assert (code, stderr) == (0, "longwatch: run wf-dig succeeded\n")


def test_a_watch_fails_with_its_run_and_prints_the_error(url: str, writer: Writer) -> None:
    watch = Started("watch", "latest", "--journal", url)
    watch.read_until("first")

    writer.order("fail no shovel")

    code, _, stderr = watch.ends()
    assert (code, stderr) == (1, "longwatch: run wf-dig failed: ValueError: no shovel\n")


def test_a_run_whose_process_was_killed_died(url: str, writer: Writer) -> None:
    watch = Started("watch", "wf-dig", "--journal", url)
    watch.read_until("first")

    writer.process.kill()

    code, rest, stderr = watch.ends()
    assert code == 5
    assert stderr.startswith("longwatch: run wf-dig died ")
    assert f"Process {writer.process.pid} on" in stderr
    assert "workflow_error" in rest
    assert " died between " in rest


def test_a_late_event_is_marked(url: str, writer: Writer) -> None:
    watch = Started("watch", "wf-dig", "--journal", url)
    watch.read_until("first")

    writer.send("late from before")

    assert watch.read_until("from before").endswith("from before  (late)\n")
    writer.end()
    assert watch.ends()[0] == 0


@pytest.mark.parametrize(("run", "code"), [("wf-1a2b", 0), ("wf-1b00", 1)])
def test_a_run_that_has_already_ended_is_reported_at_once(
    longwatch: Longwatch, journal: str, run: str, code: int
) -> None:
    assert longwatch("watch", run, "--journal", journal).returncode == code


def test_a_timeout_does_not_fail_a_running_run(longwatch: Longwatch, url: str, writer: Writer) -> None:
    done = longwatch("watch", "wf-dig", "--journal", url, "--timeout", "100ms")

    assert done.returncode == 4
    assert done.stderr.startswith("longwatch: run wf-dig is still running; watched for ")
    assert json.loads(longwatch("runs", "--journal", url, "-o", "json").stdout)[0]["status"] == "running"


def test_at_the_timeout_the_journal_is_read_once_more(longwatch: Longwatch, journal: str) -> None:
    done = longwatch("watch", "wf-1a2b3c4d", "--journal", journal, "--timeout", "0s", "-o", "jsonl")

    assert (done.returncode, done.stderr) == (0, "longwatch: run wf-1a2b3c4d succeeded\n")
    assert len(done.stdout.splitlines()) == 16


def test_a_silent_run_is_given_up_and_stays_open(longwatch: Longwatch, url: str, writer: Writer) -> None:
    done = longwatch("watch", "wf-dig", "--journal", url, "--silent-after", "200ms")

    assert done.returncode == 3
    assert "stopped watching run wf-dig: no event for" in done.stderr
    assert "the run stays open" in done.stderr
    assert json.loads(longwatch("runs", "--journal", url, "-o", "json").stdout)[0]["status"] == "running"


def test_a_missing_run_is_an_error_unless_the_watch_waits_for_it(longwatch: Longwatch, journal: str) -> None:
    missing = longwatch("watch", "wf-later", "--journal", journal)
    waited = longwatch("watch", "wf-later", "--journal", journal, "--wait", "--timeout", "100ms")

    assert missing.returncode == 2
    assert "No run 'wf-later'." in missing.stderr
    assert "Use --wait" in missing.stderr
    assert waited.returncode == 4
    assert "run wf-later has not started after" in waited.stderr


@pytest.mark.parametrize("run", ["latest", "wf-later"])
def test_a_run_is_waited_for_before_its_journal_exists(url: str, run: str) -> None:
    watch = Started("watch", run, "--journal", url, "--wait")
    assert "waiting for" in watch.stderr.readline()

    writer = Writer(url, "wf-later")
    writer.send("note here")
    watch.read_until("here")
    writer.end()

    assert watch.ends()[0] == 0


def test_json_lines_are_the_events_as_they_are_exported(
    longwatch: Longwatch, url: str, writer: Writer
) -> None:
    watch = Started("watch", "wf-dig", "--journal", url, "-o", "jsonl")
    read = watch.read_until("first")

    writer.end()

    code, rest, _ = watch.ends()
    assert code == 0
    assert read + rest == longwatch("export", "wf-dig", "--journal", url).stdout


def test_ctrl_c_leaves_a_watch_with_130_and_the_run_alone(
    longwatch: Longwatch, url: str, writer: Writer
) -> None:
    watch = Started("watch", "wf-dig", "--journal", url)
    watch.read_until("first")

    watch.interrupt()

    assert watch.ends() == (
        130,
        "",
        "longwatch: watching stopped, run wf-dig continues; resume with: longwatch watch wf-dig\n",
    )
    writer.end()
    assert longwatch("watch", "wf-dig", "--journal", url).returncode == 0


def test_a_tail_begins_with_the_last_lines_and_ends_with_the_run(url: str, writer: Writer) -> None:
    writer.send("note second")
    tail = Started("tail", "-f", "latest", "-n", "1", "--journal", url)
    first = tail.read_until("second")

    writer.order("fail no shovel")

    code, rest, stderr = tail.ends()
    assert first.count("\n") == 1
    assert "no shovel" in rest
    assert (code, stderr) == (0, "")


def test_a_tail_keeps_its_filters_while_it_follows(url: str, writer: Writer) -> None:
    tail = Started("tail", "-f", "latest", "--type", "note", "-o", "jsonl", "--journal", url)
    before = tail.read_until("first")

    writer.send("note second")
    writer.end()

    code, rest, _ = tail.ends()
    events = [json.loads(line) for line in (before + rest).splitlines()]
    assert code == 0
    assert [event["payload"]["message"] for event in events] == ["first", "second"]


@pytest.mark.parametrize("verb", [("watch",), ("tail", "-f")])
def test_a_reader_that_closes_the_pipe_ends_an_idle_watch_quietly(
    url: str, writer: Writer, verb: tuple[str, ...]
) -> None:
    following = Started(*verb, "wf-dig", "--journal", url)
    following.read_until("first")

    following.stdout.close()

    assert following.ends() == (141, "", "")
    assert writer.process.poll() is None


def test_a_tail_that_has_no_end_cannot_be_one_document(longwatch: Longwatch, journal: str) -> None:
    done = longwatch("tail", "-f", "latest", "-o", "json", "--journal", journal)

    assert (done.returncode, done.stdout) == (2, "")
    assert "-o jsonl" in done.stderr


class Screen:
    """A terminal of this size in which the command runs."""

    def __init__(self, *arguments: str, columns: int, lines: int) -> None:
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            command(*arguments),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment(COLUMNS=str(columns), LINES=str(lines), TERM="xterm", NO_COLOR="1"),
        )
        os.close(theirs)
        self.drawn = ""

    def draws(self, *words: str) -> bool:
        """Whether a picture comes that has all of these words."""
        while not all(word in self.drawn for word in words):
            if not self._read():
                return False
        return True

    def press(self, key: str) -> None:
        """Press a key, and forget what was drawn before."""
        self.drawn = ""
        os.write(self._ours, key.encode())

    def ends(self) -> int:
        while self._read():
            pass
        os.close(self._ours)
        return self.process.wait(PATIENCE_SECONDS)

    def _read(self) -> bool:
        if not select.select([self._ours], [], [], PATIENCE_SECONDS)[0]:
            return False
        try:
            new = os.read(self._ours, 65_536)
        except OSError:  # Linux reports this when the other side has gone
            return False
        self.drawn += new.decode(errors="replace")
        return bool(new)


@pytest.mark.parametrize(("columns", "lines"), [(100, 40), (44, 20)])
def test_on_a_terminal_agents_and_tools_are_drawn_while_they_work(
    url: str, writer: Writer, columns: int, lines: int
) -> None:
    screen = Screen("watch", "wf-dig", "--journal", url, columns=columns, lines=lines)
    writer.order("agent")

    assert screen.draws("● Ada", "● dig", "live · ", "dig for it")
    writer.order("return")
    assert screen.draws("✓ Ada", "✓ dig")
    writer.end()

    assert screen.ends() == 0
    assert "✓ succeeded  wf-dig" in screen.drawn
    assert screen.drawn.rstrip().endswith("longwatch: run wf-dig succeeded")


@pytest.mark.parametrize(("columns", "lines"), [(100, 24), (40, 12)])
def test_all_open_runs_are_shown_and_a_key_opens_one(
    url: str, writer: Writer, columns: int, lines: int
) -> None:
    writer.order("agent")
    screen = Screen("watch", "--journal", url, columns=columns, lines=lines)

    assert screen.draws("1 open run", "dig …")
    screen.press("\r")
    assert screen.draws("● Ada", "Backspace: all runs")
    screen.press("\x7f")
    assert screen.draws("1 open run", "q: quit")
    screen.press("q")
    assert screen.ends() == 0


def test_without_a_terminal_the_open_runs_are_named(longwatch: Longwatch, url: str, writer: Writer) -> None:
    writer.order("agent")

    done = longwatch("watch", "--journal", url)

    assert (done.returncode, done.stdout) == (2, "")
    assert "Open now: wf-dig" in done.stderr


def test_ctrl_c_on_a_terminal_leaves_the_last_picture(url: str, writer: Writer) -> None:
    writer.order("agent")
    screen = Screen("watch", "wf-dig", "--journal", url, columns=80, lines=24)
    assert screen.draws("● dig")

    screen.process.send_signal(signal.SIGINT)

    assert screen.ends() == 130
    assert "Traceback" not in screen.drawn
    after_last_erasure = screen.drawn.rpartition("\x1b[2K")[2]
    assert "● dig" in after_last_erasure
    assert "\x1b[?25h" in after_last_erasure  # the cursor is back


def test_ctrl_c_on_a_terminal_leaves_the_executions_and_one_line(longwatch: Longwatch, url: str) -> None:
    job = ["--source", "http", "--wave", "a=http://127.0.0.1:1/job"]  # nothing responds there
    done = longwatch("executions", "add", "--plan", "p", "--id", "x-1", *job, "--journal", url)
    assert done.returncode == 0, done.stderr
    screen = Screen("executions", "watch", "--journal", url, columns=80, lines=24)
    assert screen.draws("● x-1", "waiting for")

    screen.process.send_signal(signal.SIGINT)

    assert screen.ends() == 130
    after_last_erasure = screen.drawn.rpartition("\x1b[2K")[2]
    assert after_last_erasure.count("x-1") == 1
    assert after_last_erasure.rstrip().endswith("longwatch: watching stopped, the executions continue")


@pytest.mark.needs_ministack
def test_a_run_in_a_table_is_watched_to_its_end(ministack_url: str) -> None:
    with new_table(ministack_url, "workflow") as table:
        url = f"dynamodb://{table.table}?region={table.region}&endpoint={table.endpoint}"
        writer = Writer(url, "wf-dig")
        writer.send("note first")
        watch = Started("watch", "wf-dig", "--journal", url)
        watch.read_until("first")

        writer.send("note second")
        watch.read_until("second")
        writer.end()

        code, rest, stderr = watch.ends()
        assert "workflow_complete" in rest
        assert (code, stderr.splitlines()[-1]) == (0, "longwatch: run wf-dig succeeded")
