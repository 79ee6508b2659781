"""How a process is identified, and which observer may report that it is gone."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from longwatch.model.process import (
    Presence,
    ProcessIdentity,
    Surroundings,
    has_ended,
    open_pidfd,
    probe,
    process_of,
    process_started,
    this_process,
    this_surroundings,
)

ME = this_process()
HERE = Surroundings(machine="m1", boot="b1", namespace="pid:[1]", boot_at=5_000)
THERE = ProcessIdentity("h", 7, 70, "pid:[1]", machine="m1", boot="b1")

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="start times are read from /proc")


@pytest.mark.parametrize(
    ("field", "process"),
    [
        ({"host": "h", "pid": 7, "started": 5}, ProcessIdentity("h", 7, 5, id="h////7/5")),
        ({"host": "h", "pid": 7, "started": None}, ProcessIdentity("h", 7, id="h////7/")),
        (
            {"host": "h", "pid": 7, "namespace": "pid:[1]"},
            ProcessIdentity("h", 7, None, "pid:[1]", id="h///pid:[1]/7/"),
        ),
        ({"host": "h", "pid": 7, "id": "ab" * 8}, ProcessIdentity("h", 7, id="ab" * 8)),
        ({"host": "h", "pid": 0}, None),
        ({"host": "h", "pid": -1}, None),
        ({"host": "h", "pid": "7"}, None),
        ({"host": "", "pid": 7}, None),
        ({"pid": 7}, None),
        ("a text", None),
        (None, None),
    ],
)
def test_a_process_is_read_from_the_field_of_an_event(field: object, process: ProcessIdentity | None) -> None:
    assert ProcessIdentity.of(field) == process


def test_a_process_survives_the_journal() -> None:
    named = replace(THERE, role="wrapper", outbox="/tmp/outbox.db")

    assert ProcessIdentity.of(named.fields) == named


def test_two_observers_give_one_process_the_same_id() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    as_seen_here, again = process_of(child.pid), process_of(child.pid, role="command")
    child.communicate(b"\n")

    assert as_seen_here.id == again.id != ME.id


def test_the_machine_id_itself_is_never_recorded() -> None:
    try:
        machine_id = Path("/etc/machine-id").read_text().strip()
    except OSError:
        pytest.skip("this machine has no machine id")

    assert ME.machine is None or (machine_id not in str(ME.fields) and len(ME.machine) == 16)


@pytest.mark.parametrize(
    ("process", "here", "is_judgeable"),
    [
        (THERE, HERE, True),
        (replace(THERE, boot="b0"), HERE, True),  # this machine was started again
        (replace(THERE, boot="b0", namespace="pid:[2]"), HERE, False),  # a container image may bake in the id
        (replace(THERE, boot="b0", machine="m2"), HERE, False),
        (replace(THERE, boot="b0", machine=None), HERE, False),
        (replace(THERE, machine="m2"), HERE, True),  # one boot id, one kernel
        (replace(THERE, namespace="pid:[2]"), HERE, False),
        (replace(THERE, namespace=None), HERE, False),
        (replace(THERE, boot=None), HERE, False),
        (THERE, replace(HERE, boot=None), False),
        (THERE, replace(HERE, can_judge=False), False),  # Lambda
        (ProcessIdentity("h", 7, 70), HERE, False),  # as older versions named it
    ],
)
def test_only_an_observer_that_shares_the_boot_and_the_namespace_may_judge(
    process: ProcessIdentity, here: Surroundings, is_judgeable: bool
) -> None:
    assert process.is_judgeable(here) is is_judgeable
    if not is_judgeable:
        assert process.presence(here) is Presence.UNKNOWN


def test_after_a_reboot_every_process_of_before_is_gone_and_ended_before_it() -> None:
    before = replace(THERE, boot="b0", pid=os.getpid())

    assert before.presence(HERE) is Presence.GONE
    assert before.gone_by(9_000, HERE) == 5_000
    assert THERE.gone_by(9_000, HERE) == 9_000


@on_linux
def test_this_process_is_alive() -> None:
    assert ME.presence() is Presence.ALIVE
    assert this_surroundings().boot


@on_linux
def test_a_pid_that_is_used_again_belongs_to_another_process() -> None:
    assert ME.started is not None

    assert probe(ME.pid, ME.started - 1) is Presence.GONE


@on_linux
def test_a_process_is_gone_before_and_after_its_parent_has_collected_it() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process = process_of(child.pid)
    assert process.presence() is Presence.ALIVE

    assert child.stdin is not None
    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    as_zombie = process.presence()
    child.wait()

    assert as_zombie is Presence.GONE
    assert process.presence() is Presence.GONE


LEADER_ENDS = """
import ctypes, sys, threading
def work():
    print("working", flush=True)
    sys.stdin.readline()
    import os; os._exit(0)
threading.Thread(target=work).start()
ctypes.CDLL(None).pthread_exit(None)
"""


@on_linux
def test_a_process_whose_main_thread_has_ended_is_alive_while_another_works() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", LEADER_ENDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    process = process_of(child.pid)
    assert child.stdout is not None
    assert child.stdout.readline() == "working\n"
    while _state(child.pid) != "Z":
        os.sched_yield()

    while_working = process.presence()
    child.communicate("\n")

    assert while_working is Presence.ALIVE
    assert process.presence() is Presence.GONE


LEADER_ENDS_BEFORE_MANY = """
import ctypes, sys, threading
def work():
    print("working", flush=True)
    sys.stdin.readline()
    import os; os._exit(0)
def relay():
    threading.Thread(target=relay, daemon=True).start()
threading.Thread(target=work).start()
for _ in range(4):
    threading.Thread(target=relay, daemon=True).start()
ctypes.CDLL(None).pthread_exit(None)
"""


@on_linux
def test_threads_that_come_and_go_do_not_make_a_process_without_main_thread_gone() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", LEADER_ENDS_BEFORE_MANY],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    process = process_of(child.pid)
    assert child.stdout is not None
    assert child.stdout.readline() == "working\n"
    while _state(child.pid) != "Z":
        os.sched_yield()

    seen = {process.presence() for _ in range(2_000)}
    child.communicate("\n")

    assert seen <= {Presence.ALIVE, Presence.UNKNOWN}


IN_A_NAMESPACE = """
import ctypes, os, sys
from longwatch.model.process import process_of, this_process, this_surroundings

outside = this_surroundings().namespace
libc = ctypes.CDLL(None)
if libc.unshare(0x20000000) and libc.unshare(0x30000000):  # CLONE_NEWPID, with CLONE_NEWUSER for other users
    sys.exit(77)
if os.fork() == 0:
    here, me = this_surroundings(), this_process()
    other = os.fork()
    if other == 0:
        os._exit(0)
    os.waitid(os.P_PID, other, os.WEXITED | os.WNOWAIT)
    print(me.pid, me.started, me.namespace != outside, here.can_judge, process_of(other).presence())
    sys.stdout.flush()
    os._exit(0)
os.wait()
"""


@on_linux
def test_nothing_is_judged_in_a_namespace_whose_processes_are_not_in_proc() -> None:
    done = subprocess.run([sys.executable, "-c", IN_A_NAMESPACE], capture_output=True, text=True, check=False)
    if done.returncode == 77:
        pytest.skip("this user may not create pid namespaces")

    assert (done.stdout, done.stderr) == ("1 None True False unknown\n", "")


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@on_linux
def test_a_process_of_another_user_is_never_called_gone() -> None:
    assert probe(1, process_started(1)) is not Presence.GONE


def test_a_number_that_can_not_be_a_pid_is_not_judged() -> None:
    assert probe(2**70, None) is Presence.UNKNOWN


@on_linux
@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="this Python has no pidfd_open")
def test_a_pidfd_reports_the_end_of_the_process_it_was_opened_for() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process = process_of(child.pid)
    pidfd = open_pidfd(process)
    assert pidfd is not None
    before = has_ended(pidfd)

    child.communicate(b"\n")

    assert (before, has_ended(pidfd)) == (False, True)
    os.close(pidfd)
    assert open_pidfd(replace(process, pid=os.getpid())) is None  # another start time: another process
