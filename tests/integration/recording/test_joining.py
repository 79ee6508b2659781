"""Which processes worked on a run, and what becomes of it when they are gone."""

from __future__ import annotations

import os
import select
import signal
import sys

import pytest

from longwatch.following.observation import Observer
from longwatch.model.event import Event
from longwatch.model.run import RunSummary
from tests.integration.recording.processes import Workspace, finished

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are judged on Linux alone")

PREAMBLE = """
import os, signal, sys, threading
import longwatch
"""
HANG = 'print("ready", flush=True); sys.stdin.readline()\n'


def observed(workspace: Workspace, run_id: str = "wf-1") -> tuple[RunSummary, list[str]]:
    """The run as it stands for an observer on this machine, and its conditions."""
    with workspace.open() as journal:
        run = journal.find_run(run_id)
        assert run is not None
        (found,) = Observer(journal).observed([run])
    return found.run, [each.name for each in found.conditions]


def kill(pid: int) -> None:
    """Kill a process that is not ours to wait for, and return when it has ended."""
    pidfd = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    select.select([pidfd], [], [], 30.0)
    os.close(pidfd)


def of_type(events: list[Event], *types: str) -> list[Event]:
    return [event for event in events if event.type in types]


def test_a_run_whose_process_was_killed_has_died(workspace: Workspace) -> None:
    process = workspace.start(
        PREAMBLE + f'with longwatch.run(run_id="wf-1"):\n    longwatch.flush()\n    {HANG}'
    )
    assert process.stdout is not None
    process.stdout.readline()
    before = observed(workspace)

    process.kill()
    finished(process)

    assert (before[0].status, before[1]) == ("running", [])
    died = observed(workspace)[0]
    assert died.status == "died"
    assert died.ended_between is not None


def test_a_run_continues_in_a_forked_child_that_records_nothing(workspace: Workspace) -> None:
    process = workspace.start(
        PREAMBLE
        + """
with longwatch.run(run_id="wf-outer"), longwatch.run(run_id="wf-1"):
    longwatch.flush()
    if os.fork() == 0:
        longwatch.flush()
        print(os.getpid(), flush=True)
        sys.stdin.readline()  # computes for hours
        os._exit(0)
    os.wait()
    os._exit(0)
"""
    )
    assert process.stdout is not None
    child = int(process.stdout.readline())
    os.kill(process.pid, signal.SIGKILL)
    process.wait()

    unattended = [observed(workspace, run_id) for run_id in ("wf-1", "wf-outer")]
    kill(child)
    finished(process)

    assert [(run.status, conditions) for run, conditions in unattended] == [("running", ["unattended"])] * 2
    joined = of_type(workspace.events("wf-1"), "workflow_start", "process_joined")
    assert [event.payload["process"]["pid"] for event in joined] == [process.pid, child]  # type: ignore[index]
    assert len({event.payload["attempt"] for event in joined}) == 1
    assert observed(workspace)[0].status == "died"


def test_a_child_forked_outside_a_run_does_not_join_it(workspace: Workspace) -> None:
    done = workspace.run(
        PREAMBLE
        + """
def work():
    with longwatch.run(run_id="wf-1"):
        begun.set(); over.wait()
begun, over = threading.Event(), threading.Event()
thread = threading.Thread(target=work)
thread.start(); begun.wait()
if (child := os.fork()) == 0:
    longwatch.flush(); os._exit(0)
os.waitpid(child, 0)
over.set()
thread.join()
"""
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert of_type(workspace.events("wf-1"), "process_joined") == []
    assert observed(workspace)[0].status == "succeeded"


def test_a_run_that_is_started_again_after_a_kill_is_a_new_attempt(workspace: Workspace) -> None:
    script = PREAMBLE + 'with longwatch.run(run_id="wf-1"):\n    longwatch.flush()\n'
    killed = workspace.run(script + "    os.kill(os.getpid(), signal.SIGKILL)\n")
    before = observed(workspace)[0].status

    again = workspace.run(script)

    assert (killed.returncode, again.returncode) == (-signal.SIGKILL, 0)
    run = observed(workspace)[0]
    assert (before, run.status) == ("died", "succeeded")
    assert [each.status for each in run.lifecycle.attempts] == ["unknown", "succeeded"]


@pytest.mark.parametrize("end", ["", "sys.exit(3)", 'raise RuntimeError("elsewhere")'])
def test_a_program_that_exits_with_an_open_run_reports_it(workspace: Workspace, end: str) -> None:
    done = workspace.run(
        PREAMBLE
        + f"""
def work():
    with longwatch.run(run_id="wf-1"):
        begun.set()
        threading.Event().wait()
begun = threading.Event()
threading.Thread(target=work, daemon=True).start()
begun.wait()
{end}
"""
    )

    run = observed(workspace)[0]
    (ending,) = of_type(workspace.events("wf-1"), "workflow_error")
    assert done.returncode == {"": 0, "sys.exit(3)": 3}.get(end, 1)
    assert run.status == "failed"
    assert ending.payload["error_code"] == "process_exited"
    assert "exited while the run was open" in str(run.error)
    assert (
        ending.payload["attempt"] == of_type(workspace.events("wf-1"), "workflow_start")[0].payload["attempt"]
    )


def test_a_forked_child_that_exits_does_not_end_its_parent_s_run(workspace: Workspace) -> None:
    done = workspace.run(
        PREAMBLE
        + """
run = longwatch.run(run_id="wf-1")
run.__enter__()
if (child := os.fork()) == 0:
    sys.exit(0)  # with the run open: it is the parent's
os.waitpid(child, 0)
run.__exit__(None, None, None)
"""
    )

    assert (done.returncode, done.stderr) == (0, "")
    types = [event.type for event in workspace.events("wf-1")]
    assert types.count("workflow_error") == 0
    assert observed(workspace)[0].status == "succeeded"


@pytest.mark.parametrize("forks", [1, 2], ids=["a child", "a grandchild whose parent is gone"])
def test_a_run_stays_open_when_its_process_exits_before_a_forked_child(
    workspace: Workspace, forks: int
) -> None:
    process = workspace.start(
        PREAMBLE
        + f"""
run = longwatch.run(run_id="wf-1")
run.__enter__()
for number in range({forks}):
    child = os.fork()
    if child and {forks} == 2:
        os.waitpid(child, 0) if number == 0 else os._exit(0)
    if child:
        sys.exit(0)
longwatch.flush()
print(os.getpid(), flush=True)
sys.stdin.readline()
os._exit(0)
"""
    )
    assert process.stdout is not None
    child = int(process.stdout.readline())
    assert process.wait(30) == 0

    run, conditions = observed(workspace)
    kill(child)
    finished(process)

    assert (run.status, conditions) == ("running", ["unattended"])
    assert observed(workspace)[0].status == "died"


def test_a_run_ends_with_its_process_if_its_forked_children_are_gone_or_left_it(workspace: Workspace) -> None:
    done = workspace.run(
        PREAMBLE
        + """
run = longwatch.run(run_id="wf-1")
run.__enter__()
left, leaves = os.pipe()
if (gone := os.fork()) == 0:
    os._exit(0)
os.waitpid(gone, 0)
if (child := os.fork()) == 0:
    run.__exit__(None, None, None)
    os.write(leaves, b".")
    sys.stdin.readline()
    os._exit(0)
os.read(left, 1)
"""
    )

    assert done.returncode == 0
    (ending,) = of_type(workspace.events("wf-1"), "workflow_error")
    assert ending.payload["error_code"] == "process_exited"
