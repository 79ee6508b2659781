"""A run folded in the browser is the run folded in Python, whatever its events are and however they come."""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import longwatch.model.attempts
import longwatch.model.call_links
import longwatch.model.calls
import longwatch.model.endings
import longwatch.model.event
import longwatch.model.labels
import longwatch.model.run
import longwatch.model.summary
from longwatch.journal.codec import to_line
from longwatch.journal.views import RunDetails
from longwatch.model.event import CALL_WORDS, Event
from longwatch.model.labels import TAGGED
from longwatch.model.run import ENDS, LINE_TYPES, STARTS, STATUS_WORDS, fold
from tests import strategies
from tests.web.node import NodeLines, running

HERE = Path(__file__).parent
NOW_MS = 100_000


def _words_of(*modules: ModuleType) -> list[str]:
    """Every word in the code of the fold, so that a rule that is new there is tried here as well."""
    trees = [ast.parse(inspect.getsource(module)) for module in modules]
    constants = [node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    return sorted({word for word in constants if isinstance(word, str) and re.fullmatch(r"\w+", word)})


WORDS = _words_of(
    longwatch.model.calls,
    longwatch.model.call_links,
    longwatch.model.event,
    longwatch.model.attempts,
    longwatch.model.endings,
    longwatch.model.labels,
    longwatch.model.run,
    longwatch.model.summary,
)
TYPES = sorted(
    {*strategies.RUN_TYPES, *STARTS, *ENDS, *LINE_TYPES, TAGGED, "TASK_copy_STARTED", "turn_started", "block"}
)
FIELDS = [  # the fields that a fold reads most
    *("status", "error", "error_message", "duration_ms", "count", "output", "written_for", "name", "kind"),
    *("tags", "user", "session"),
    *("operation", "tool_name", "tool_use_id", "node_id", "node_name", "agent_name"),
    *("line_number", "after_line"),
    *("attempt", "execution", "error_code", "not_after", "not_before", "process", "processes", "warnings"),
]
SAYINGS = ["tool_use", "tool_result", "COMPLETE", "ok", "Failed", "İnterrupted", 2.5, 1.5, 0.5, -0.5]


@pytest.fixture(scope="module")
def browser() -> Iterator[NodeLines]:
    with running(HERE / "fold_lines.js") as lines:
        yield lines


def folded_in(browser: NodeLines, batches: Sequence[Sequence[Event]], now_ms: int = NOW_MS) -> Any:
    wire = [[json.loads(to_line(event)) for event in batch] for batch in batches]
    return browser.request({"batches": wire, "now": now_ms})


def folded_here(events: Sequence[Event], now_ms: int = NOW_MS) -> Any:
    run = fold(events)
    assert run is not None
    view = dict(vars(RunDetails.of_attempt(run, run, now_ms=now_ms)))
    for name in ("attempt", "usage", "usage_by_agent", "failure"):  # only the server has them
        del view[name]
    return json.loads(json.dumps(view, default=vars))


@given(data=st.data(), events=strategies.runs(max_size=14))
def test_both_folds_agree_on_every_run_in_any_order(
    browser: NodeLines, data: st.DataObject, events: Sequence[Event]
) -> None:
    batches = data.draw(strategies.batches(events))

    assert folded_in(browser, batches) == folded_here(events)


@given(data=st.data(), events=strategies.linked_calls())
def test_both_folds_find_the_same_parents_and_agents(
    browser: NodeLines, data: st.DataObject, events: Sequence[Event]
) -> None:
    batches = data.draw(strategies.batches(events))

    assert folded_in(browser, batches) == folded_here(events)


@given(data=st.data(), events=strategies.model_calls())
def test_both_folds_agree_on_calls_of_models_and_on_waits(
    browser: NodeLines, data: st.DataObject, events: Sequence[Event]
) -> None:
    batches = data.draw(strategies.batches(events))

    assert folded_in(browser, batches) == folded_here(events)


@st.composite
def sayings(draw: st.DrawFn) -> dict[str, object]:
    """A payload in which such fields hold anything at all."""
    return draw(
        st.dictionaries(st.sampled_from(FIELDS), strategies.values | st.sampled_from(WORDS), max_size=5)
    )


@given(
    rows=st.lists(
        st.tuples(strategies.events(), st.sampled_from(TYPES) | st.sampled_from(WORDS), sayings()),
        min_size=1,
        max_size=5,
        unique_by=lambda each: each[0].event_id,
    ),
)
def test_both_folds_read_any_value_in_the_same_way(browser: NodeLines, rows: Any) -> None:
    events = [
        Event(
            run_id="r",
            event_id=event.event_id,
            type=type_,
            occurred_at=event.occurred_at % 10**12,
            agent_name=event.agent_name,
            payload=payload,
            call_id=event.call_id,
            producer=event.producer,
            number=None if event.number is None else event.number % 2**40 + 1,
        )
        for event, type_, payload in rows
    ]

    assert as_doubles(folded_in(browser, [events])) == as_doubles(folded_here(events))


def test_both_folds_know_the_same_words(browser: NodeLines) -> None:
    words = browser.request({"words": True})

    assert words == {
        "STARTS": dict(STARTS),
        "ENDS": {type_: status.value for type_, status in ENDS.items()},
        "STATUS_WORDS": {word: status.value for word, status in STATUS_WORDS.items()},
        "CALL_WORDS": dict(CALL_WORDS),
    }


def as_doubles(value: Any) -> Any:
    """The same with every number as JavaScript has it."""
    if isinstance(value, dict):
        return {key: as_doubles(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_doubles(item) for item in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value
