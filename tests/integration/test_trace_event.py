"""scripts/trace_event: the path of one event through this package."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "trace_event"


def test_an_event_is_traced_from_the_decorator_to_the_stream() -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT, "event", "--json", "--repeat=2"], capture_output=True, text=True, check=True
    )

    path = json.loads(done.stdout)
    assert path["files"][0] == "recording/decorators.py"
    assert any(file.startswith("journal/sqlite/") for file in path["files"])
    assert any(file.startswith("server/") for file in path["files"])
    assert not any(file.startswith("testing/") for file in path["files"])
    assert path["thread_segments"] > 1


def test_an_unknown_kind_is_named() -> None:
    done = subprocess.run([sys.executable, SCRIPT, "evnt"], capture_output=True, text=True)

    assert done.returncode == 2
    assert "Unknown kind evnt. Use event, turn or execution." in done.stderr
