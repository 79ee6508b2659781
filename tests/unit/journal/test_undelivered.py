"""Whether events of a run may wait in an outbox, which is a path from an event and may name anything."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from longwatch.journal.sqlite.undelivered import may_have_undelivered

ASK_AS_ANOTHER_USER = """
import os, sys
from longwatch.journal.sqlite.undelivered import may_have_undelivered
if os.geteuid() == 0:
    os.setegid(65534)
    os.seteuid(65534)
print(may_have_undelivered(sys.argv[1], "wf-1"))
"""


@pytest.mark.parametrize("outbox", [None, "/nowhere/outbox.db", "/dev/null/outbox.db"])
def test_no_events_wait_in_a_file_that_does_not_exist(outbox: str | None) -> None:
    assert not may_have_undelivered(outbox, "wf-1")


@pytest.mark.parametrize(
    "outbox", ["/" + "a" * 5_000, "/" + "a/" * 5_000, "/a\0b", "/\ud800", "/", "/dev/null"]
)
def test_events_may_wait_behind_a_path_that_can_not_be_read(outbox: str) -> None:
    assert may_have_undelivered(outbox, "wf-1")


def test_a_pipe_instead_of_an_outbox_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "outbox.db")

    assert may_have_undelivered(str(tmp_path / "outbox.db"), "wf-1")


def test_events_may_wait_in_a_directory_of_another_user(tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    if os.geteuid() != 0:
        private.chmod(0o000)

    checked = subprocess.run(
        [sys.executable, "-c", ASK_AS_ANOTHER_USER, str(private / "outbox.db")],
        capture_output=True,
        text=True,
        check=False,
    )

    assert checked.stdout == "True\n", checked.stderr
