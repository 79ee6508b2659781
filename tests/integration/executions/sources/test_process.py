"""Real processes, watched from beside them."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import IO

import pytest

from longwatch.executions.model import Execution, ItemState
from longwatch.executions.poller import Poller
from longwatch.executions.responses import SourceResponse
from longwatch.executions.sources.base import SourceProblem
from longwatch.executions.sources.process import ProcessSource, exit_text, job_id_of, process_of
from longwatch.executions.stores.memory import MemoryExecutionStore
from longwatch.model.process import ProcessIdentity, process_started, this_host, this_namespace
from longwatch.model.summary import Status
from longwatch.testing import FakeClock, MemoryJournal

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes are not watched on Windows")

# A parent that starts a child, prints its id, and collects its exit status only on request.
PARENT = """
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
child = os.fork()
if child == 0:
    signal.sigwait({signal.SIGUSR1})
    os._exit(int(sys.argv[1]))
print(child, flush=True)
sys.stdin.readline()
os.waitpid(child, 0)
print("asked", flush=True)
sys.stdin.readline()
"""


class Family:
    """A process that is not our child, and its parent."""

    def __init__(self, code: int) -> None:
        self.parent = subprocess.Popen(
            [sys.executable, "-c", PARENT, str(code)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.child = int(_pipe(self.parent.stdout).readline())

    def end_child(self) -> None:
        """It ends by itself, and its parent has not collected it yet."""
        os.kill(self.child, signal.SIGUSR1)
        self._wait()

    def kill_child(self) -> None:
        os.kill(self.child, signal.SIGKILL)
        self._wait()

    def collect(self) -> None:
        """The parent collects its exit status, after which nothing is left of it."""
        _pipe(self.parent.stdin).write("\n")
        _pipe(self.parent.stdin).flush()
        assert _pipe(self.parent.stdout).readline() == "asked\n"

    def _wait(self) -> None:
        descriptor = os.pidfd_open(self.child)
        try:
            assert select.select([descriptor], [], [], 30)[0]
        finally:
            os.close(descriptor)


@pytest.fixture
def families() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def family(stack: ExitStack, code: int = 0) -> Family:
    made = Family(code)
    stack.callback(made.parent.wait)
    stack.callback(_pipe(made.parent.stdout).close)
    stack.callback(_pipe(made.parent.stdin).close)
    stack.callback(made.parent.kill)
    return made


@pytest.fixture
def source() -> Iterator[ProcessSource]:
    source = ProcessSource(clock=FakeClock())
    yield source
    source.close()


def begun(source: ProcessSource, pid: int) -> Execution:
    execution = source.begin(str(pid))
    assert isinstance(execution, Execution), execution
    return execution


def seen(source: ProcessSource, execution: Execution) -> tuple[ItemState, str | None]:
    result = source.poll([execution])[execution.key]
    assert isinstance(result, SourceResponse), result
    (job,) = result.jobs.values()
    return job.items[0].state, job.source_status


linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells others how a process ended")


@linux
@pytest.mark.parametrize(
    ("code", "expected"),
    [(0, (ItemState.DONE, "exited with 0")), (3, (ItemState.FAILED, "exited with 3"))],
)
def test_the_exit_status_is_read_before_the_parent_has_collected_it(
    source: ProcessSource, families: ExitStack, code: int, expected: tuple[ItemState, str]
) -> None:
    watched = family(families, code)
    execution = begun(source, watched.child)
    before = seen(source, execution)

    watched.end_child()

    assert before == (ItemState.IN_PROGRESS, "running")
    assert seen(source, execution) == expected


@linux
def test_a_process_whose_exit_status_was_read_is_not_held_open(
    source: ProcessSource, families: ExitStack
) -> None:
    watched = family(families, 3)
    before = len(list(Path("/proc/self/fd").iterdir()))
    execution = begun(source, watched.child)
    watched.end_child()

    ends = [seen(source, execution) for _ in range(2)]

    assert ends == [(ItemState.FAILED, "exited with 3")] * 2
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@linux
def test_a_process_that_was_killed_has_failed_with_the_signal(
    source: ProcessSource, families: ExitStack
) -> None:
    watched = family(families)
    execution = begun(source, watched.child)

    watched.kill_child()

    assert seen(source, execution) == (ItemState.FAILED, "killed by SIGKILL")


@linux
def test_after_its_parent_has_collected_it_the_exit_status_comes_from_the_kernel_or_is_unknown(
    source: ProcessSource, families: ExitStack
) -> None:
    watched = family(families, 3)
    execution = begun(source, watched.child)
    seen(source, execution)
    watched.end_child()

    watched.collect()

    release = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])
    found = seen(source, execution)
    if release >= (6, 15):
        assert found == (ItemState.FAILED, "exited with 3")
    else:
        assert found == (ItemState.ENDED, "ended")


@linux
def test_an_exit_that_was_not_observed_is_reported_as_unknown(families: ExitStack) -> None:
    watched = family(families, 0)
    clock, store, journal = FakeClock(), MemoryExecutionStore(), MemoryJournal()
    first = ProcessSource(clock=clock)
    execution = begun(first, watched.child)
    store.add(execution)
    first.close()
    watched.end_child()
    watched.collect()
    later = ProcessSource(clock=clock)

    polled = Poller(store, journal, {"process": later}, clock=clock).poll(execution.execution_id)
    later.close()

    verdict = polled.execution.verdict
    assert verdict is not None
    assert verdict.status is Status.UNKNOWN
    assert "ended, exit status not readable" in (verdict.message or "")
    stored = store.get(execution.execution_id)
    assert stored is not None
    assert (stored.closed, stored.status) == (True, Status.UNKNOWN)


@linux
def test_another_process_with_the_same_pid_is_not_mistaken_for_it(source: ProcessSource) -> None:
    pid = os.getpid()
    execution = begun(source, pid)
    (wave,) = execution.stages
    earlier = ProcessIdentity(this_host(), pid, (process_started(pid) or 0) - 1, this_namespace())
    job = replace(wave.jobs[0], job_id=job_id_of(earlier))

    before_it = replace(execution, stages=(replace(wave, jobs=(job,)),))

    assert seen(source, before_it) == (ItemState.ENDED, "ended")
    assert seen(source, execution) == (ItemState.IN_PROGRESS, "running")


def test_a_process_of_another_machine_is_not_judged_from_here(source: ProcessSource) -> None:
    execution = begun(source, os.getpid())
    (wave,) = execution.stages
    job = replace(wave.jobs[0], job_id=job_id_of(ProcessIdentity("elsewhere", 1, 2, None)))

    results = source.poll([replace(execution, stages=(replace(wave, jobs=(job,)),))])

    (problem,) = results.values()
    assert isinstance(problem, SourceProblem)
    assert "runs on elsewhere" in problem.message


def test_a_process_is_named_by_its_pid_and_its_command(source: ProcessSource) -> None:
    execution = begun(source, os.getpid())

    assert execution.execution_id.startswith(f"pid:{os.getpid()}@")
    assert execution.source == "process"
    (job_id,) = execution.job_ids()
    assert process_of(job_id) == ProcessIdentity(
        this_host(), os.getpid(), process_started(os.getpid()), this_namespace()
    )


def test_a_process_is_polled_every_second(source: ProcessSource) -> None:
    execution = begun(source, os.getpid())

    result = source.poll([execution])[execution.key]

    assert isinstance(result, SourceResponse)
    assert result.next_at == result.at + 1000


@pytest.mark.parametrize("what", ["", "abc", "-1", "0", "1.5", "\u00b2", "2147483648", "9" * 30])
def test_an_invalid_pid_is_refused(source: ProcessSource, what: str) -> None:
    found = source.begin(what)

    assert isinstance(found, SourceProblem)
    assert found.lasting


def test_a_process_that_does_not_exist_is_missing(source: ProcessSource) -> None:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()

    assert source.begin(str(done.pid)) is None


def test_a_job_that_is_not_a_process_is_reported(source: ProcessSource) -> None:
    execution = begun(source, os.getpid())
    (wave,) = execution.stages
    odd = replace(execution, stages=(replace(wave, jobs=(replace(wave.jobs[0], job_id="demo:1"),)),))

    (problem,) = source.poll([odd]).values()

    assert isinstance(problem, SourceProblem)
    assert problem.lasting


@pytest.mark.parametrize(
    ("status", "statuses"),
    [
        (0, "exited with 0"),
        (0x0300, "exited with 3"),
        (9, "killed by SIGKILL"),
        (0x5F, "killed by signal 95"),
    ],
)
def test_an_exit_status_is_described(status: int, statuses: str) -> None:
    assert exit_text(status) == statuses


def _pipe(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream
