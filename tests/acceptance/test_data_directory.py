"""The data directory is its owner's alone, whichever command creates it and whatever the umask allows."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from longwatch.cli.commands.turn import UnsentLines
from longwatch.model.event import Event
from longwatch.recording.outbox import Outbox
from tests.acceptance.conftest import command, environment
from tests.integration.server.processes import serving
from tests.patience import PATIENCE_SECONDS


@pytest.fixture(autouse=True)
def no_umask() -> Iterator[None]:
    before = os.umask(0o000)
    yield
    os.umask(before)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "home" / "share" / "longwatch"


def assert_private(data: Path) -> None:
    """The data directory has mode 0700, and no other user may do anything with its contents."""
    assert f"{stat.S_IMODE(data.stat().st_mode):o}" == "700"
    for each in data.rglob("*"):
        assert not stat.S_IMODE(each.stat().st_mode) & 0o077, each


@pytest.mark.parametrize(
    "arguments",
    [("record", "note", "--run", "wf-1"), ("run", "--", "true"), ("executions", "list")],
    ids=lambda arguments: arguments[0],
)
def test_the_first_command_creates_a_private_directory(data: Path, arguments: tuple[str, ...]) -> None:
    subprocess.run(
        command(*arguments),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=environment(LONGWATCH_DATA=str(data)),
        timeout=PATIENCE_SECONDS,
        check=True,
    )

    assert_private(data)


@pytest.mark.parametrize("arguments", [(), ("--token",)], ids=["open", "with tokens"])
def test_the_first_server_creates_a_private_directory(data: Path, arguments: tuple[str, ...]) -> None:
    with serving(*arguments, LONGWATCH_DATA=str(data)) as server:
        urlopen(f"{server.url}/api/health", timeout=PATIENCE_SECONDS).close()
        server.stop()

    assert_private(data)


def test_waiting_events_create_a_private_directory(data: Path) -> None:
    event = Event(run_id="wf-1", event_id="e-1", type="note", occurred_at=1)

    Outbox(data / "outbox.db").put("dynamodb://table", [event])

    assert_private(data)


def test_waiting_lines_of_a_turn_create_a_private_directory(data: Path) -> None:
    UnsentLines(data / "turns" / "turn-1.lines", "http://127.0.0.1").keep(1, ["{}"])

    assert_private(data)


def test_an_existing_directory_keeps_its_mode(data: Path) -> None:
    data.mkdir(parents=True, mode=0o750)

    Outbox(data / "outbox.db").put("dynamodb://table", [])

    assert f"{stat.S_IMODE(data.stat().st_mode):o}" == "750"
