"""Two processes and eight threads write to one file: nothing is lost or doubled."""

from __future__ import annotations

from longwatch.journal.verify import Completeness
from tests.integration.recording.processes import Workspace, finished, verification_of

EVENTS = 250
CALL = ("started", "completed")

WRITING = """
import sys, threading
import longwatch

name = sys.argv[1]

@longwatch.tool
def step(thread, n):
    return n

def work(thread):
    for n in range(int(sys.argv[2])):
        step(thread, n)

with longwatch.run(name, run_id="wf-shared") as run:
    threads = [threading.Thread(target=work, args=(f"{name}{each}",)) for each in range(8)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
assert longwatch.flush(30)
"""


def test_two_processes_and_eight_threads_lose_and_double_nothing(workspace: Workspace) -> None:
    processes = [workspace.start(WRITING, name, str(EVENTS)) for name in ("a", "b")]
    for process in processes:
        _, stderr = finished(process)
        assert (process.returncode, stderr) == (0, "")

    events = workspace.events("wf-shared")

    calls = {status: [e for e in events if e.payload.get("status") == status] for status in CALL}
    by_thread: dict[object, list[object]] = {}
    for event in calls["started"]:
        given = event.payload["input"]
        assert isinstance(given, dict)
        by_thread.setdefault(given["thread"], []).append(given["n"])
    assert {thread: sorted(numbers) for thread, numbers in by_thread.items()} == {  # type: ignore[type-var]
        f"{name}{each}": list(range(EVENTS)) for name in ("a", "b") for each in range(8)
    }
    begun, ended = ({event.call_id for event in calls[status] if event.call_id} for status in CALL)
    assert begun == ended
    assert len(begun) == 16 * EVENTS
    assert len({event.event_id for event in events}) == len(events)
    report = verification_of(events)
    assert report.answer is Completeness.COMPLETE
    assert len(report.producers) == 2
