"""An execution's events on one line each."""

from __future__ import annotations

import pytest

from longwatch.cli.render.event_line import event_text
from longwatch.model.event import Event

CASES = [
    (
        "execution_started",
        {"name": "demo", "source": "codebuild", "mode": "JOB"},
        "demo (codebuild JOB)",
    ),
    (
        "job_transition",
        {"job_id": "demo:1", "to": "started", "word": "IN_PROGRESS"},
        "started (IN_PROGRESS) demo:1",
    ),
    (
        "server_transition",
        {"job_id": "j", "server_id": "s-1", "to": "failed", "word": "FAILED", "reason": "no disk"},
        "failed s-1: no disk",
    ),
    (
        "server_transition",
        {"server_id": "demo:1", "to": "launched", "word": "SUCCEEDED"},
        "done (SUCCEEDED) demo:1",
    ),
    ("server_transition", {"server_id": "s-1", "to": "launched", "word": "LAUNCHED"}, "launched s-1"),
    (
        "server_transition",
        {"server_id": "pid:7", "to": "failed", "word": "exited with 3", "reason": "exited with 3"},
        "failed pid:7: exited with 3",
    ),
    ("action_transition", {"server_id": "s-1", "action": "BUILD", "to": "in_progress"}, "in_progress BUILD"),
]


@pytest.mark.parametrize(("kind", "payload", "words"), CASES)
def test_a_transition_line_begins_with_the_status(kind: str, payload: dict[str, object], words: str) -> None:
    event = Event(run_id="x-1", event_id="e-1", type=kind, occurred_at=0, payload=payload)

    assert event_text(event) == words
