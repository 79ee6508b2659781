"""A real process under supervision: its output on both channels becomes one history."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from longwatch.errors import JournalUnusable, Unreachable
from longwatch.journal.base import Journal
from longwatch.journal.factory import open_journal
from longwatch.journal.verify import Completeness
from longwatch.model.event import Event
from longwatch.model.run import Status, fold
from longwatch.recording.outbox import Outbox
from tests.integration.process.conftest import ATTEMPT, RUN, TRACE, Bench

PRINTS_EVENTS = """
import json, os, time
run_id, at = os.environ["WORKFLOW_ID"], int(time.time() * 1000)
def tell(type, offset=0, **fields):
    print(json.dumps({"event_type": type, "workflow_id": run_id, "timestamp": at + offset, **fields}))
"""
# Writes to the journal as a producer of another make does: without our ids, producers and numbers.
STORES_EVENTS = (
    PRINTS_EVENTS
    + """
from longwatch.model.event import Event
from longwatch.journal.factory import open_journal
journal = open_journal(os.environ["LONGWATCH_JOURNAL"])
def store(type, offset=0, agent_name=None, **payload):
    name = f"{type}-{offset}-{agent_name}-{payload}"
    journal.append([Event(run_id=run_id, event_id=name, type=type, occurred_at=at + offset,
                          agent_name=agent_name, payload=payload)])
"""
)


def test_events_output_and_broken_lines_are_recorded_and_the_end_is_written_for_the_process(
    bench: Bench,
) -> None:
    outcome = bench.run(
        PRINTS_EVENTS
        + """
import sys
print("hello")
tell("agent_start", agent_name="Ada")
print('{"event_type": "x')
print("a word of warning", file=sys.stderr)
"""
    )

    assert (outcome.exit_code, outcome.status) == (0, Status.SUCCEEDED)
    assert sorted(bench.types()) == sorted(
        ["workflow_start", "output", "agent_start", "parse_error", "output", "workflow_complete"]
    )
    assert {(event.payload["stream"], event.payload["text"]) for event in bench.of_type("output")} == {
        ("stdout", "hello"),
        ("stderr", "a word of warning"),
    }
    assert bench.of_type("parse_error")[0].payload["text"] == '{"event_type": "x'
    assert bench.of_type("agent_start")[0].agent_name == "Ada"
    assert bench.of_type("workflow_complete")[0].payload["written_for"] is True
    assert {event.trace_id for event in bench.events()} == {TRACE}


def test_the_wrapper_and_the_command_are_both_named(bench: Bench) -> None:
    bench.run_command([sys.executable, "-c", "import os; print(os.getpid())"])

    start, joined = bench.named_processes()
    assert [each["role"] for each in (start, joined)] == ["wrapper", "command"]
    assert start["pid"] == os.getpid()
    assert str(joined["pid"]) == bench.of_type("output")[0].payload["text"]
    assert joined["started"] is not None
    assert bench.of_type("workflow_complete")[0].payload["attempt"] == ATTEMPT


def test_the_start_hides_the_secrets_of_the_command(bench: Bench) -> None:
    bench.run_command([sys.executable, "-c", "import os; print(os.getpid())", "--token", "hunter2"])

    start = bench.of_type("workflow_start")[0].payload
    assert start["command"] == [
        sys.executable,
        "-c",
        "import os; print(os.getpid())",
        "--token",
        "[redacted]",
    ]
    assert start["name"] == "flow"


def test_a_failure_keeps_the_code_and_the_last_lines_of_standard_error(bench: Bench) -> None:
    outcome = bench.run("for n in range(50): print(n, file=__import__('sys').stderr)\nraise SystemExit(3)")

    ending = bench.of_type("workflow_error")[0].payload
    assert (outcome.exit_code, outcome.status) == (3, Status.FAILED)
    assert ending["exit_code"] == 3
    assert ending["stderr"] == [str(n) for n in range(30, 50)]
    assert ending["error_message"] == "exit code 3: 49"


def test_a_process_that_dies_by_a_signal_is_recorded_as_such(bench: Bench) -> None:
    outcome = bench.run("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")

    assert outcome.exit_code == 137
    ending = bench.of_type("workflow_error")[0].payload
    assert (ending["signal"], ending["forwarded"]) == ("SIGKILL", False)


def test_a_terminal_event_of_its_own_on_standard_output_is_enough(bench: Bench) -> None:
    outcome = bench.run(PRINTS_EVENTS + "tell('workflow_complete', status='partial')")

    assert outcome.status is Status.PARTIAL
    assert bench.types() == ["workflow_start", "workflow_complete"]


@pytest.mark.parametrize("script", ["", "tell('workflow_complete', 500, status='partial')"])
def test_the_printed_duration_is_the_one_of_the_stored_run(bench: Bench, script: str) -> None:
    outcome = bench.run(PRINTS_EVENTS + script)

    run = fold(bench.events())
    assert run is not None
    assert outcome.duration_ms == run.summary.duration_ms(0)
    if not script:
        assert outcome.duration_ms == bench.of_type("workflow_complete")[0].payload["execution_time_ms"]


def test_a_terminal_event_of_its_own_in_the_journal_is_enough(bench: Bench) -> None:
    outcome = bench.run(STORES_EVENTS + "store('workflow_error', error_message='boom')")

    assert (outcome.exit_code, outcome.status) == (0, Status.FAILED)
    assert bench.types() == ["workflow_start", "workflow_error"]


def test_a_process_that_records_with_longwatch_joins_the_run(bench: Bench) -> None:
    outcome = bench.run(
        """
import longwatch

@longwatch.tool
def search(query): return [query]

with longwatch.run("inner"):
    search("tides")
"""
    )

    run = fold(bench.events())
    assert run is not None
    assert outcome.status is run.status is Status.SUCCEEDED
    assert run.counts["workflow_complete"] == 1
    assert [call.name for call in run.tool_calls] == ["search"]
    assert {event.trace_id for event in bench.events()} == {TRACE}


def test_both_channels_together_store_every_event_once_and_every_chain_complete(bench: Bench) -> None:
    bench.run(
        STORES_EVENTS
        + """
for n in range(30):  # on both channels, in either order
    fields = {"agent_name": f"a{n % 3}", "n": n}
    if n % 2:
        store("note", n, **fields)
    tell("note", n, **fields)
    if not n % 2:
        store("note", n, **fields)
for n in range(30, 40):  # on one channel only
    (tell if n % 2 else store)("note", n, n=n)
for n in range(3):  # equal in all that can be compared, and all of them kept
    tell("node_stream", 50, node_id="x", data="la")
"""
    )

    assert sorted(str(event.payload["n"]) for event in bench.of_type("note")) == sorted(map(str, range(40)))
    assert len(bench.of_type("node_stream")) == 3
    assert bench.answer() is Completeness.COMPLETE


def test_a_line_that_waited_in_vain_is_recorded_while_the_process_still_runs(bench: Bench) -> None:
    bench.run(
        PRINTS_EVENTS
        + """
from longwatch.journal.factory import open_journal
tell("note")
with open_journal(os.environ["LONGWATCH_JOURNAL"]) as journal:
    while not any(event.type == "note" for event in journal.read(run_id).events):
        time.sleep(0.02)
print("seen")
"""
    )

    assert len(bench.of_type("note")) == 1
    assert bench.of_type("output")[0].payload["text"] == "seen"


def test_lines_that_longwatch_wrote_pass_unchanged_and_once(bench: Bench) -> None:
    bench.run(
        """
import os
from longwatch.model.event import START
from longwatch.journal.codec import to_line
from longwatch.journal.memory import MemoryJournal
from longwatch.journal.factory import open_journal
from longwatch.recording.recorder import Recorder
from longwatch.settings import load_settings

memory, run_id = MemoryJournal(), os.environ["LONGWATCH_RUN_ID"]
recorder = Recorder(memory, settings=load_settings())
for n in range(5):
    recorder.record(run_id, "note", {"n": n})
recorder.close()
events = memory.read(run_id).events
with open_journal(os.environ["LONGWATCH_JOURNAL"]) as journal:
    journal.append(events[:3])
for event in events:
    print(to_line(event))
"""
    )

    assert [event.payload["n"] for event in bench.of_type("note")] == list(range(5))
    assert bench.answer() is Completeness.COMPLETE


def test_events_of_another_run_belong_to_the_run_they_name(bench: Bench) -> None:
    bench.run(
        STORES_EVENTS + "run_id = 'wf-other'\nstore('note')\ntell('note')\ntell('workflow_complete', 1)"
    )

    assert bench.types("wf-other") == ["note", "workflow_complete"]
    assert bench.types() == ["workflow_start", "workflow_complete"]
    assert bench.of_type("workflow_complete")[0].payload["written_for"] is True


def test_the_end_of_an_earlier_run_under_the_same_id_does_not_count(bench: Bench) -> None:
    with open_journal(bench.url) as journal:
        journal.append([Event(run_id=RUN, event_id="old", type="workflow_complete", occurred_at=1000)])

    outcome = bench.run("raise SystemExit(1)", run_is_new=False)

    assert outcome.status is Status.FAILED
    assert bench.types()[-1] == "workflow_error"


def test_output_is_passed_on_unchanged(bench: Bench) -> None:
    source, sink = os.pipe()
    received = bytearray()

    def read() -> None:
        while chunk := os.read(source, 65_536):
            received.extend(chunk)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        bench.run(
            "import sys; sys.stdout.buffer.write(bytes(range(256)) * 2000 + b'no newline')",
            sinks=(sink, None),
            record_output=False,
        )
    finally:
        os.close(sink)
        reader.join()
        os.close(source)

    assert bytes(received) == bytes(range(256)) * 2000 + b"no newline"
    assert bench.types() == ["workflow_start", "workflow_complete"]


def test_a_grandchild_that_holds_the_pipes_open_does_not_block_us(bench: Bench) -> None:
    outcome = bench.run(
        """
import subprocess, sys
print(subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"]).pid)
"""
    )

    os.kill(
        int(str(bench.of_type("output")[0].payload["text"])), signal.SIGKILL
    )  # it lives, and did not hold us
    assert outcome.exit_code == 0


@pytest.mark.parametrize("error", [JournalUnusable("no right to read"), Unreachable("no answer")])
def test_an_unreadable_journal_is_reported_once_and_every_line_is_recorded(
    bench: Bench, error: Exception
) -> None:
    def refuse() -> Journal:
        raise error

    bench.run(PRINTS_EVENTS + "for n in range(5): tell('note', n)", opened=refuse)

    assert len(bench.of_type("note")) == 5
    assert len(bench.warnings) == 1
    assert str(error) in bench.warnings[0]


@pytest.mark.filterwarnings("default")
def test_a_failing_journal_changes_nothing_for_the_command(bench: Bench) -> None:
    bench.url = sqlite_nowhere(bench)

    outcome = bench.run("print('hi')\nraise SystemExit(4)")

    waiting = Outbox(bench.folder / "outbox.db")
    assert outcome.exit_code == 4
    assert [batch.events for batch in waiting.pending()] == [5]
    waiting.close()


def sqlite_nowhere(bench: Bench) -> str:
    (bench.folder / "file").write_text("not a directory")
    return f"sqlite:///{bench.folder}/file/journal.db"


@pytest.mark.parametrize(("command", "code"), [("./nowhere", 127), (os.devnull, 126)])
def test_a_command_that_cannot_be_started_leaves_a_run_with_the_reason(
    bench: Bench, command: str, code: int
) -> None:
    outcome = bench.run_command([command])

    assert (outcome.exit_code, outcome.status, outcome.started) == (code, Status.FAILED, False)
    assert bench.types() == ["workflow_start", "workflow_error"]
    assert bench.of_type("workflow_error")[0].payload["error_message"] == outcome.description


def test_no_thread_descriptor_or_process_is_left_behind(bench: Bench) -> None:
    bench.run("print('warm up')")
    gc.collect()  # what earlier tests of this worker left behind is not counted
    threads = threading.active_count()
    descriptors = set(Path("/dev/fd").iterdir())

    bench.run("import os; print(os.getpid())")

    assert threading.active_count() == threads
    assert len(set(Path("/dev/fd").iterdir())) <= len(descriptors)
    pid = int(str(bench.of_type("output")[-1].payload["text"]))
    with pytest.raises(ChildProcessError):  # collected already, so no zombie
        os.waitpid(pid, os.WNOHANG)
