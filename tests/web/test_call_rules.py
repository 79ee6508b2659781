"""Repeated calls, retries and the critical path are the same on the page as in the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.journal.views import call_fields
from longwatch.model.call_outline import RowKind, outline
from longwatch.model.call_paths import critical_path
from longwatch.model.call_tree import TOP, CallTree
from longwatch.model.calls import Call
from tests.unit.model.call_samples import call
from tests.web.node import NodeLines, running

UNTIL = 200
moments = st.integers(0, 100)
calls_in_order = st.lists(
    st.tuples(
        moments,
        st.none() | st.integers(0, 60),
        st.sampled_from(["completed", "completed", "failed"]),
        st.sampled_from(["search", "search", "fetch"]),
        st.integers(0, 6),
        st.sampled_from([None, "tides", "moons"]),
    ),
    max_size=30,
)
CallDraft = tuple[int, int | None, str, str, int, str | None]


@pytest.fixture(scope="module")
def browser() -> Iterator[NodeLines]:
    with running(Path(__file__).parent / "call_rules.js") as lines:
        yield lines


def tree_of(drafts: list[CallDraft]) -> CallTree:
    """A tree in which a call is below one of the six that began before it, or below none."""
    calls: list[Call] = []
    for number, draft in enumerate(sorted(drafts, key=lambda draft: draft[0])):
        at, takes, status, name, above, text = draft
        parent = calls[number - above].call_id if 0 < above <= number else None
        calls.append(
            call(f"c{number:02}", at=at, takes=takes, status=status, name=name, parent=parent, given=text)
        )
    return CallTree.of(calls)


def rules_here(tree: CallTree) -> dict[str, Any]:
    ids = [each.call_id for each in tree.calls]
    tries = {
        ids[index]: number
        for caller in (TOP, *range(len(ids)))
        for index, number in tree.tries(tree.children.get(caller, ())).items()
        if number > 1
    }
    repeated = [row for row in outline(tree).rows if row.kind is RowKind.REPEATED]
    return {
        "path": {ids[index]: own for index, own in critical_path(tree, until=UNTIL, has_ended=True).items()},
        "tries": tries,
        "repeats": sorted([row.first.call_id, row.count, row.failed, row.p50_ms] for row in repeated),
    }


@given(calls_in_order)
def test_the_rules_for_calls_agree(browser: NodeLines, drafts: list[CallDraft]) -> None:
    tree = tree_of(drafts)

    # A call without an end is abandoned here: on the page one that still runs is in no group.
    views = [call_fields(each, run_has_ended=True) for each in tree.calls]
    in_order = sorted(views, key=lambda view: (view["started_at"], view["call_id"]))
    found = browser.request({"calls": in_order, "until": UNTIL})

    assert found == rules_here(tree)
