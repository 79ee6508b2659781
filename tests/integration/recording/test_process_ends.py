"""However a process ends, what it recorded is stored."""

from __future__ import annotations

import os
import signal

import pytest

from longwatch.journal.verify import Completeness
from tests.integration.recording.processes import STEPS_PREAMBLE, Workspace, finished, verification_of


def test_sigterm_stores_everything_and_records_the_run_as_interrupted(workspace: Workspace) -> None:
    process = workspace.start(
        STEPS_PREAMBLE
        + """
with longwatch.run("waits", run_id="wf-1"):
    steps(500)
    print("ready", flush=True)
    wait()
"""
    )
    assert process.stdout is not None
    process.stdout.readline()

    process.send_signal(signal.SIGTERM)
    _, stderr = finished(process)

    events = workspace.events("wf-1")
    assert (process.returncode, stderr) == (-signal.SIGTERM, "")
    assert [event.payload["n"] for event in events if event.type == "step"] == list(range(500))
    last = events[-2]
    assert (last.type, last.payload["status"]) == ("workflow_error", "interrupted")
    assert last.payload["error_message"] == "ended by SIGTERM"
    assert verification_of(events).answer is Completeness.COMPLETE


def test_sigterm_at_any_moment_loses_nothing_that_was_recorded(workspace: Workspace) -> None:
    process = workspace.start(
        STEPS_PREAMBLE
        + """
counts = os.open("counts", os.O_RDWR | os.O_CREAT)
signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGTERM))
for number in range(30):
    child = os.fork()
    if child == 0:
        recorded = 0
        with longwatch.run(run_id=f"wf-{number}"):
            signal.setitimer(signal.ITIMER_REAL, 0.0005 + number / 1000)
            while True:
                longwatch.record("step", n=recorded, text="x" * 5000)
                recorded += 1
                os.pwrite(counts, recorded.to_bytes(4, "big"), number * 4)
                if recorded % 50 == 0:
                    longwatch.flush()
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGTERM, status
"""
    )

    out, stderr = finished(process)

    counts = (workspace.folder / "counts").read_bytes()
    assert (process.returncode, out, stderr) == (0, "", "")
    for number in range(30):
        recorded = int.from_bytes(counts[number * 4 : number * 4 + 4], "big")
        events = workspace.events(f"wf-{number}")
        steps = [event.payload["n"] for event in events if event.type == "step"]
        assert steps == list(range(len(steps)))
        assert len(steps) >= recorded
        assert [event.type for event in events][-2:] == ["workflow_error", "producer_closed"]
        assert verification_of(events).answer is Completeness.COMPLETE


def test_sigterm_during_an_import_does_not_keep_the_writer_from_importing(workspace: Workspace) -> None:
    done = workspace.run(
        STEPS_PREAMBLE
        + """
class Finder:
    def find_spec(name, path=None, target=None):  # called with the lock of all imports held
        if name == "terminated":
            os.kill(os.getpid(), signal.SIGTERM)
sys.meta_path.insert(0, Finder)
with longwatch.run(run_id="wf-1"):
    try:
        import terminated
    except ImportError:
        signal.pause()
"""
    )

    assert (done.returncode, done.stderr) == (-signal.SIGTERM, "")
    assert [event.type for event in workspace.events("wf-1")][-2:] == ["workflow_error", "producer_closed"]


def test_a_handler_of_the_program_s_own_is_left_alone(workspace: Workspace) -> None:
    process = workspace.start(
        STEPS_PREAMBLE
        + """
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
with longwatch.run(run_id="wf-1"):
    steps()
    print("ready", flush=True)
    wait()
"""
    )
    assert process.stdout is not None
    process.stdout.readline()

    process.send_signal(signal.SIGTERM)
    finished(process)

    events = workspace.events("wf-1")
    assert process.returncode == 7
    assert len([event for event in events if event.type == "step"]) == 50
    assert events[-2].payload["error_message"] == "SystemExit: 7"


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("pass", 0),
        ("sys.exit(3)", 3),
        ("raise RuntimeError('unhandled')", 1),
        ("threading.Thread(target=lambda: (time.sleep(0.05), steps())).start()", 0),
    ],
    ids=["end of the script", "sys.exit", "unhandled exception", "a thread that outlives the script"],
)
def test_everything_is_stored_when_the_interpreter_ends(workspace: Workspace, ending: str, code: int) -> None:
    done = workspace.run(
        STEPS_PREAMBLE
        + f"""
from longwatch.recording.recorder import get_recorder
with longwatch.run(run_id="wf-1"):
    steps()
    {ending}
"""
    )

    events = workspace.events("wf-1")
    threads = 50 if "Thread" in ending else 0
    assert done.returncode == code
    assert len([event for event in events if event.type == "step"]) == 50 + threads
    assert verification_of(events).answer is Completeness.COMPLETE
    assert ("workflow_complete" in {event.type for event in events}) == (code == 0)


def test_events_that_exit_handlers_record_after_ours_has_run_are_stored_too(workspace: Workspace) -> None:
    done = workspace.run(
        """
import atexit
def last_words():
    recorder.record("wf-1", "last words", {})
atexit.register(last_words)  # registered first, so called last
from longwatch.recording.recorder import get_recorder
recorder = get_recorder()
recorder.record("wf-1", "step", {})
"""
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert [event.type for event in workspace.events("wf-1")] == [
        "process_joined",
        "step",
        "producer_closed",
        "process_joined",
        "last words",
    ]


def test_a_generator_that_is_open_when_python_ends_causes_no_message(workspace: Workspace) -> None:
    done = workspace.run(
        """
import longwatch
@longwatch.tool
def numbers():
    yield 1
    yield 2
run = longwatch.run("count", run_id="wf-1")
with run:
    opened = numbers()
    next(opened)
"""
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert verification_of(workspace.events("wf-1")).answer is Completeness.COMPLETE


def test_events_that_could_not_be_stored_are_reported_on_stderr_at_the_end(workspace: Workspace) -> None:
    workspace.path.write_text("this is no database, however hard one looks")
    workspace.outbox.write_text("nor is this one, and it was never meant to be")

    done = workspace.run(
        """
from longwatch.recording.recorder import get_recorder
recorder = get_recorder()
for n in range(5):
    recorder.record("wf-1", "step", {})
assert recorder.flush(0.3) is False
"""
    )

    assert done.returncode == 0
    assert "6 events could not be stored before the process ended" in done.stderr
    assert "is not a SQLite database" in done.stderr


def test_sigterm_reaches_a_process_of_longwatch_run_that_makes_no_run_itself(workspace: Workspace) -> None:
    process = workspace.start(
        STEPS_PREAMBLE
        + """
steps(200)
print("ready", flush=True)
wait()
""",
        LONGWATCH_RUN_ID="wf-given",
    )
    assert process.stdout is not None
    process.stdout.readline()

    process.send_signal(signal.SIGTERM)
    finished(process)

    assert process.returncode == -signal.SIGTERM
    assert len([event for event in workspace.events("wf-given") if event.type == "step"]) == 200


def test_ctrl_c_is_recorded_as_an_interruption(workspace: Workspace) -> None:
    process = workspace.start(
        STEPS_PREAMBLE
        + """
with longwatch.run(run_id="wf-1"):
    steps()
    print("ready", flush=True)
    wait()
"""
    )
    assert process.stdout is not None
    process.stdout.readline()

    os.kill(process.pid, signal.SIGINT)
    finished(process)

    events = workspace.events("wf-1")
    assert process.returncode == -signal.SIGINT
    assert events[-2].payload["status"] == "interrupted"
    assert verification_of(events).answer is Completeness.COMPLETE
