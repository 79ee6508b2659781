"""Forked children and workers of multiprocessing store their own events and end no run of their parent."""

from __future__ import annotations

import sys

import pytest

from longwatch.journal.verify import Completeness
from tests.integration.recording.processes import STEPS_PREAMBLE, Workspace, verification_of


@pytest.mark.skipif(sys.platform == "win32", reason="os.fork is missing on Windows")
def test_a_forked_child_has_a_producer_of_its_own_and_doubles_nothing(workspace: Workspace) -> None:
    done = workspace.run(
        STEPS_PREAMBLE
        + """
with longwatch.run(run_id="wf-1"):
    steps(300)  # most of them still wait when the process forks
    child = os.fork()
    if child == 0:
        longwatch.record("child", pid=os.getpid())
        sys.exit(0)  # leaves the block as well, but the run is the parent's
    _, status = os.waitpid(child, 0)
    longwatch.record("parent", status=status)
"""
    )

    events = workspace.events("wf-1")
    types = [event.type for event in events if event.type not in ("step", "producer_closed")]
    assert (done.returncode, done.stderr) == (0, "")
    assert [event.payload["n"] for event in events if event.type == "step"] == list(range(300))
    assert types == ["workflow_start", "process_joined", "child", "parent", "workflow_complete"]
    by_type = {event.type: event for event in events}
    assert by_type["child"].producer != by_type["parent"].producer
    assert by_type["parent"].payload["status"] == 0
    assert verification_of(events).answer is Completeness.COMPLETE


def test_ending_a_worker_by_signal_does_not_end_its_parent_s_run(workspace: Workspace) -> None:
    done = workspace.run(
        STEPS_PREAMBLE
        + """
with longwatch.run(run_id="wf-1"):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        longwatch.record("child")
        os.write(writing, b"x")
        wait()
    os.read(reading, 1)
    os.kill(child, signal.SIGTERM)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGTERM
    longwatch.record("parent")
"""
    )

    events = workspace.events("wf-1")
    assert (done.returncode, done.stderr) == (0, "")
    assert {"child", "parent", "workflow_complete"} <= {event.type for event in events}
    assert "workflow_error" not in {event.type for event in events}
    assert verification_of(events).answer is Completeness.COMPLETE


FORKING = """
stop = threading.Event()

def busy():
    while not stop.is_set():
        longwatch.record("busy", text="x" * 2000)
        time.sleep(0.001)  # busy all the time, at a rate that the writer can store

with longwatch.run(run_id="wf-1"):
    thread = threading.Thread(target=busy, daemon=True)
    thread.start()
    for number in range(100):
        child = os.fork()
        if child == 0:
            longwatch.record("child", n=number)
            assert longwatch.flush(20)
            sys.exit(0) if number % 2 else os._exit(0)
        _, status = os.waitpid(child, 0)
        assert status == 0, status
    stop.set()
    thread.join()
"""


def test_forking_while_the_writer_is_busy_never_hangs(workspace: Workspace) -> None:
    # The queue may be full at the end, and a busy machine may take longer than the usual 5 s to store it.
    done = workspace.run(STEPS_PREAMBLE + FORKING, LONGWATCH_EXIT_TIMEOUT_SECONDS="60")

    events = workspace.events("wf-1")
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(event.payload["n"] for event in events if event.type == "child") == list(range(100))  # type: ignore[type-var]
    producers = {each.producer: each.answer for each in verification_of(events).producers}
    assert len(producers) == 101
    assert set(producers.values()) <= {Completeness.COMPLETE, Completeness.OPEN}  # `os._exit` closes nothing


OTHER = """
import sys
from pathlib import Path
from longwatch.model.event import Event
from longwatch.journal.sqlite import SqliteJournal

with SqliteJournal(Path(sys.argv[1])) as journal:
    journal.append([Event(run_id="wf-other", event_id=sys.argv[2], type="note", occurred_at=1)])
"""
OUTLIVED = """
import subprocess

path, other = sys.argv[1:]
with longwatch.run(run_id="wf-1"):
    steps(1)
    assert longwatch.flush(20)
    gone, held = os.pipe()
    if os.fork() == 0:
        os.close(held)
        longwatch.record("child", n=0)
        assert longwatch.flush(20)
        os.read(gone, 1)  # until the parent has ended
        for number in range(1, 6):
            subprocess.run([sys.executable, "-c", other, path, str(number)], check=True)
            longwatch.record("child", n=number)
            assert longwatch.flush(20)
        os._exit(0)
    os.close(gone)
"""


def test_a_child_that_outlives_its_parent_keeps_the_log_that_others_write_to(workspace: Workspace) -> None:
    done = workspace.run(STEPS_PREAMBLE + OUTLIVED, str(workspace.path), OTHER)

    stored = [event.payload["n"] for event in workspace.events("wf-1") if event.type == "child"]
    assert (done.returncode, done.stderr) == (0, "")
    assert stored == list(range(6))
    assert len(workspace.events("wf-other")) == 5


WORKERS = """
import multiprocessing
import longwatch

def work(n):
    with longwatch.run(f"worker {n}"):
        for each in range(20):
            longwatch.record("step", n=each)

def main():
    context = multiprocessing.get_context(METHOD)
    with longwatch.run("parent", run_id="wf-parent"):
        longwatch.record("before")
        processes = [context.Process(target=work, args=(n,)) for n in range(3)]
        for process in processes: process.start()
        for process in processes: process.join()
        assert [process.exitcode for process in processes] == [0, 0, 0]
        longwatch.record("after")

if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_multiprocessing_workers_store_everything_before_they_end(workspace: Workspace, method: str) -> None:
    script = workspace.folder / "workers.py"
    script.write_text(WORKERS.replace("METHOD", repr(method)))

    done = workspace.run(f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')")

    assert (done.returncode, done.stderr) == (0, "")
    with workspace.open() as journal:
        runs = {run.name: run for run in journal.find_runs().runs}
    assert {str(run.name): run.status.value for run in runs.values()} == {
        "parent": "succeeded",
        "worker 0": "succeeded",
        "worker 1": "succeeded",
        "worker 2": "succeeded",
    }
    for run in runs.values():
        assert verification_of(workspace.events(run.run_id)).answer is Completeness.COMPLETE
    if method == "fork":
        assert {runs[f"worker {n}"].parent_run_id for n in range(3)} == {"wf-parent"}


OPEN_IN_WORKER = """
import multiprocessing, threading
import longwatch

def leave_open():
    longwatch.run(run_id="wf-open").__enter__()

def raise_with_open_run():
    longwatch.run(run_id="wf-open").__enter__()
    raise SystemExit(3)

def end_in_thread():
    def work():
        with longwatch.run(run_id="wf-open"):
            began.set()
            threading._shutdown_started.wait()
            longwatch.record("step")
    began, threading._shutdown_started = threading.Event(), threading.Event()
    threading._register_atexit(threading._shutdown_started.set)  # called after all finalizers
    threading.Thread(target=work).start()
    began.wait()

def leave_open_beside_an_idle_pool():
    from concurrent.futures import ThreadPoolExecutor
    leave_open.pool = ThreadPoolExecutor(1)
    leave_open.pool.submit(leave_open).result()

if __name__ == "__main__":
    process = multiprocessing.get_context(METHOD).Process(target=TARGET)
    process.start()
    process.join()
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize(
    ("target", "ending"),
    [
        ("leave_open", ("workflow_error", "failed", "process_exited")),
        ("raise_with_open_run", ("workflow_error", "failed", "process_exited")),
        ("leave_open_beside_an_idle_pool", ("workflow_error", "failed", "process_exited")),
        ("end_in_thread", ("workflow_complete", "completed", None)),
    ],
)
def test_a_multiprocessing_child_that_exits_ends_its_open_runs_after_its_threads(
    workspace: Workspace, method: str, target: str, ending: tuple[str, str, str | None]
) -> None:
    script = workspace.folder / "worker.py"
    script.write_text(OPEN_IN_WORKER.replace("METHOD", repr(method)).replace("TARGET", target))

    done = workspace.run(f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')")

    ends = [
        event for event in workspace.events("wf-open") if event.type.startswith(("workflow_c", "workflow_e"))
    ]
    assert (done.returncode, done.stderr) == (0, "")
    assert [(each.type, each.payload["status"], each.payload.get("error_code")) for each in ends] == [ending]


def test_a_worker_pool_that_is_terminated_leaves_the_run_open(workspace: Workspace) -> None:
    done = workspace.run(
        STEPS_PREAMBLE
        + """
import multiprocessing
def work(n):
    longwatch.record("worked", n=n)
    return n
with longwatch.run(run_id="wf-1"):
    with multiprocessing.get_context("fork").Pool(2) as pool:  # leaving the block terminates it
        assert pool.map(work, range(8)) == list(range(8))
    longwatch.record("after")
"""
    )

    events = workspace.events("wf-1")
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(e.payload["n"] for e in events if e.type == "worked") == list(range(8))  # type: ignore[type-var]
    assert [event.type for event in events if "workflow" in event.type] == [
        "workflow_start",
        "workflow_complete",
    ]
