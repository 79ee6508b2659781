"""The page previews an event as Python does, whatever the event has."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.journal.codec import from_wire, to_line
from longwatch.model.event import Event
from longwatch.model.preview import event_preview
from tests import strategies
from tests.web.node import NodeLines, running

HERE = Path(__file__).parent
CASES = json.loads((HERE / "previews.json").read_text())
NAMES = [
    "input",
    "output",
    "parameters",
    "result",
    "query",
    "prompt",
    "id",
    "timeout",
    "role",
    "parts",
    "text",
]
WORDS = [
    "tool_use",
    "tool_result",
    "user",
    "text",
    "a  b\x1b[1mc",
    "[REDACTED]",
    "<x at 0x1>",
    "𝒳" * 130,
    "w " * 300,
]
TYPES = ["tool_call", "model_call", "agent_end", "node_start", "block", "note", "execution_ended"]
message_like = st.recursive(
    strategies.scalars | st.sampled_from(WORDS),
    lambda inner: (
        st.lists(inner, max_size=10)
        | st.dictionaries(st.sampled_from([*NAMES, "content", "type", "pid", "host"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def browser() -> Iterator[NodeLines]:
    with running(HERE / "fold_lines.js") as lines:
        yield lines


def previews(browser: NodeLines, events: list[Event], limit: int) -> Any:
    return browser.request({"previews": [json.loads(to_line(event)) for event in events], "limit": limit})


def event_of(type: str, payload: Any) -> Event:
    return from_wire({"run_id": "r", "event_id": "e", "type": type, "occurred_at": 0, "payload": payload})


def test_the_page_has_the_same_previews(browser: NodeLines) -> None:
    events = [event_of(type, payload) for _, type, payload, _ in CASES]

    assert previews(browser, events, 120) == [shown for *_, shown in CASES]


@given(
    type=st.sampled_from(TYPES) | strategies.names,
    payload=strategies.payloads | st.dictionaries(st.sampled_from(NAMES), message_like, max_size=5),
    limit=st.integers(10, 400),
)
def test_both_preview_any_event_alike(browser: NodeLines, type: str, payload: Any, limit: int) -> None:
    event = Event(run_id="r", event_id="e", type=type, occurred_at=0, payload=payload)

    assert previews(browser, [event], limit) == [event_preview(event, limit)]
