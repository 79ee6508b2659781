"""First use at an awkward moment: the event is stored or its loss is reported, and the program continues."""

from __future__ import annotations

import pytest

from tests.integration.recording.processes import Workspace

RECORD = """
def work():
    import longwatch
    with longwatch.run(run_id="wf-1"):
        longwatch.record("step")
    print("done")
"""
LATE_USES = {
    "an exit handler": "import longwatch, atexit; atexit.register(work)",
    "an exit handler that runs after longwatch's": "import atexit; atexit.register(work); import longwatch",
    "an exit handler that loads longwatch": "import atexit; atexit.register(work)",
    "an exit handler that loads threading and longwatch": """
import atexit
def load_and_work():
    import threading
    work()
atexit.register(load_and_work)
""",
    "a partial as exit handler": "import atexit, functools; atexit.register(functools.partial(work))",
    "a method as exit handler": """
import atexit
class Job:
    def end(self): work()
atexit.register(Job().end)
""",
    "an object as exit handler": """
import atexit
class Job:
    def __call__(self): work()
atexit.register(Job())
""",
    "a finalizer at exit": """
import weakref
class Job: pass
job = Job()
weakref.finalize(job, work)
""",
    "a thread that outlives main": """
import longwatch, threading
threading.Thread(target=lambda: (threading.main_thread().join(), work())).start()
""",
    "a thread that outlives main and loads longwatch": """
import threading
threading.Thread(target=lambda: (threading.main_thread().join(), work())).start()
""",
}
OUT_OF_FILES = """
import os, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
held = []
try:
    while True:
        held.append(os.open(os.devnull, os.O_RDONLY))
except OSError:
    pass
"""
AT_TEARDOWN = """
class Last:
    def __del__(self):
        with longwatch.run(run_id="wf-1"):
            longwatch.record("step")
        print("done")
last = Last()
"""


@pytest.mark.parametrize("use", LATE_USES.values(), ids=LATE_USES)
def test_an_event_that_is_first_recorded_late_is_stored(workspace: Workspace, use: str) -> None:
    done = workspace.run(RECORD + use)

    types = [event.type for event in workspace.events("wf-1")]
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
    assert types == ["workflow_start", "step", "workflow_complete", "producer_closed"]


EARLY_LOADS = {
    "a module": "import longwatch",
    "a function": "def load():\n    import longwatch\nload()",
    "a module that loads threading": "import threading, longwatch",
}


@pytest.mark.parametrize("load", EARLY_LOADS.values(), ids=EARLY_LOADS)
def test_loading_before_the_program_starts_is_not_mistaken_for_its_end(
    workspace: Workspace, load: str
) -> None:
    (workspace.folder / "sitecustomize.py").write_text(load)

    done = workspace.run(
        """
import sys
assert "longwatch" in sys.modules
import longwatch
from longwatch.recording import lifecycle
print(lifecycle.is_exiting())
longwatch.run(run_id="wf-1").__enter__()
""",
        PYTHONPATH=str(workspace.folder),
    )

    start, end, _ = workspace.events("wf-1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")
    assert (start.type, end.payload["error_code"]) == ("workflow_start", "process_exited")


@pytest.mark.parametrize("before", ["", "longwatch.record; longwatch.run; "], ids=["unloaded", "loaded"])
def test_in_a_del_while_modules_are_torn_down_the_loss_is_reported(workspace: Workspace, before: str) -> None:
    done = workspace.run(f"import longwatch; {before}{AT_TEARDOWN}")

    assert (done.returncode, done.stdout) == (0, "done\n")
    assert "Exception ignored" not in done.stderr
    assert "nothing is recorded" in done.stderr or "could not be recorded" in done.stderr


@pytest.mark.parametrize(
    "before",
    ["", "longwatch.record; longwatch.run; ", "longwatch.flush(); "],
    ids=["nothing loaded", "decorators loaded", "recorder loaded"],
)
def test_without_a_free_file_descriptor_the_loss_is_reported(workspace: Workspace, before: str) -> None:
    done = workspace.run(
        f"import longwatch; {before}{OUT_OF_FILES}{RECORD}work()", LONGWATCH_EXIT_TIMEOUT_SECONDS="0.2"
    )

    assert (done.returncode, done.stdout) == (0, "done\n")
    reports = ("nothing is recorded", "could not be recorded", "4 events could not be stored")
    assert any(report in done.stderr for report in reports), done.stderr


def test_once_file_descriptors_are_free_again_the_events_are_stored(workspace: Workspace) -> None:
    done = workspace.run(
        f"""
import longwatch
longwatch.flush()
with longwatch.run(run_id="wf-0"):
    longwatch.record("step")
longwatch.flush()
{OUT_OF_FILES}
{RECORD}
work()
for each in held:
    os.close(each)
"""
    )

    assert (done.returncode, done.stdout) == (0, "done\n")
    assert len(workspace.events("wf-1")) == 4
