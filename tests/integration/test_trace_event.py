"""scripts/trace_event: the path of an event, a turn line and an execution response through this package."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "trace_event"


@pytest.mark.parametrize(
    ("kind", "passes"),
    [
        ("event", ("recording/decorators.py", "journal/sqlite/", "server/live/")),
        ("turn", ("turns/", "journal/sqlite/", "server/")),
        (
            "execution",
            ("executions/sources/drs.py", "executions/poller.py", "journal/sqlite/", "server/live/"),
        ),
    ],
)
def test_each_kind_is_traced_up_to_its_client(kind: str, passes: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT, kind, "--json", "--repeat=2"], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    path = json.loads(done.stdout)
    assert path["kind"] == kind
    for start in passes:
        assert any(file.startswith(start) for file in path["files"]), start
    assert not any(file.startswith("testing/") for file in path["files"])
    assert path["thread_segments"] > 1


def test_an_unknown_kind_is_named() -> None:
    done = subprocess.run([sys.executable, SCRIPT, "evnt"], capture_output=True, text=True)

    assert done.returncode == 2
    assert "Unknown kind evnt. Use event, turn or execution." in done.stderr
