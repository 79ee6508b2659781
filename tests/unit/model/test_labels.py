"""Tags, user and session of a run, from its start and from later events."""

from __future__ import annotations

from itertools import permutations

import pytest

from longwatch.model.event import Event
from longwatch.model.labels import (
    MAX_LABEL_CHARACTERS,
    MAX_TAGS,
    NO_LABELS,
    RunLabels,
    labels_from_json,
    labels_of,
    labels_to_json,
    tags_in,
)


def tagged(at: int, **payload: object) -> Event:
    return Event(run_id="wf-1", event_id=f"e{at}", type="run_tagged", occurred_at=at, payload=payload)


def test_tags_accumulate_and_the_later_user_counts() -> None:
    labels = labels_of([tagged(2, tags=["b"], user="bob"), tagged(1, tags=["a"], user="ann", session="s")])

    assert labels.tags == {"a", "b"}
    assert (labels.user, labels.session) == ("bob", "s")


def test_labels_merge_in_any_order_and_repeatedly() -> None:
    many = [f"t{number:02}" for number in range(40)]
    parts = [
        labels_of([tagged(1, tags=many, user="ann")]),
        labels_of([tagged(2, tags=[f"u{number:02}" for number in range(40)])]),
        labels_of([tagged(3, tags=["a"], user="bob", session="s")]),
    ]

    merged = {one.merged(two).merged(three).merged(one) for one, two, three in permutations(parts)}

    assert len(merged) == 1
    assert len(merged.pop().tags) == MAX_TAGS


@pytest.mark.parametrize(
    ("value", "tags"),
    [
        (["a", "", 3, None, "a"], {"a"}),
        ("one", {"one"}),
        ({"a": 1}, set()),
        (None, set()),
        (["x" * 999], {"x" * MAX_LABEL_CHARACTERS}),
    ],
)
def test_anything_but_text_is_no_tag(value: object, tags: set[str]) -> None:
    assert tags_in(value) == tags


@pytest.mark.parametrize(
    "labels", [NO_LABELS, labels_of([tagged(1, tags=["b", "a"], user="ann")]), RunLabels(frozenset({"t"}))]
)
def test_labels_survive_their_stored_form(labels: RunLabels) -> None:
    assert labels_from_json(labels_to_json(labels)) == labels
