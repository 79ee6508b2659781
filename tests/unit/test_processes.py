"""Processes of this machine, and whether they are still there."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from longwatch.processes import Process, process_started, this_host, this_namespace

ME = Process(this_host(), os.getpid(), process_started(os.getpid()))

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="start times are read from /proc")


@pytest.mark.parametrize(
    ("said", "process"),
    [
        ({"host": "h", "pid": 7, "started": 5}, Process("h", 7, 5)),
        ({"host": "h", "pid": 7, "started": None}, Process("h", 7)),
        ({"host": "h", "pid": 7, "namespace": "pid:[1]"}, Process("h", 7, None, "pid:[1]")),
        ({"host": "h", "pid": 0}, None),
        ({"host": "h", "pid": -1}, None),
        ({"host": "h", "pid": "7"}, None),
        ({"host": "", "pid": 7}, None),
        ({"pid": 7}, None),
        ("a text", None),
        (None, None),
    ],
)
def test_a_process_is_read_from_what_an_event_says(said: object, process: Process | None) -> None:
    assert Process.of(said) == process


def test_this_process_is_not_gone() -> None:
    assert ME.is_here
    assert not ME.is_gone()


@on_linux
def test_a_process_id_that_is_used_again_is_another_process() -> None:
    assert ME.started is not None

    assert replace(ME, started=ME.started - 1).is_gone()


def test_a_process_that_has_ended_is_gone_before_and_after_its_parent_has_asked() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process = Process(this_host(), child.pid, process_started(child.pid))
    assert not process.is_gone()

    assert child.stdin is not None
    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # ended, and not yet asked about
    as_zombie = process.is_gone()
    child.wait()

    assert as_zombie or sys.platform != "linux"
    assert process.is_gone()


def test_of_another_machine_or_container_nothing_can_be_told() -> None:
    assert not replace(ME, host="elsewhere.invalid", pid=2**22 - 1).is_gone()
    assert not replace(ME, namespace="pid:[1]", pid=2**22 - 1).is_gone()


@on_linux
def test_a_process_of_our_own_namespace_is_here() -> None:
    assert this_namespace() is not None
    assert replace(ME, namespace=this_namespace()).is_here


def test_a_process_of_somebody_else_is_there() -> None:
    assert not Process(this_host(), 1).is_gone()


def test_a_number_that_is_no_process_id_is_not_called_gone() -> None:
    assert not Process(this_host(), 2**80).is_gone()
