"""One call by its ID, the beginning of its ID or its name, and its attempts."""

from __future__ import annotations

import pytest

from longwatch.errors import InvalidInput
from longwatch.model.call_lookup import attempts_of, find_call
from longwatch.model.call_tree import CallTree
from longwatch.model.calls import Call, Mark


def call(call_id: str, name: str = "search", at: int = 0, status: str = "completed", text: str = "") -> Call:
    start = Mark((at, "", 0, call_id), "tool", name, "started", input_preview=text or None)
    return Call(call_id, start, Mark((at + 5, "", 0, f"{call_id}-end"), "tool", name, status))


CALLS = {
    each.call_id: each
    for each in (call("a1", text="gas", at=2), call("a2", at=1), call("b1", "fetch"), call("a", "write"))
}


@pytest.mark.parametrize(
    ("wanted", "found"), [("a1", "a1"), ("a", "a"), ("b", "b1"), ("fetch", "b1"), ("write", "a")]
)
def test_a_call_is_found_by_id_beginning_or_name(wanted: str, found: str) -> None:
    assert find_call(CALLS, wanted, run_id="r").call_id == found


def test_an_ambiguous_name_lists_the_calls_in_the_order_they_began() -> None:
    with pytest.raises(InvalidInput) as raised:
        find_call(CALLS, "search", run_id="r")

    assert str(raised.value) == "'search' names 2 calls. Use an ID:\n  a2  search\n  a1  search gas"


def test_of_many_candidates_some_are_listed() -> None:
    many = {f"c{number}": call(f"c{number}", at=number) for number in range(12)}

    with pytest.raises(InvalidInput, match=r"names 12 calls(.|\n)*… and 4 more"):
        find_call(many, "search", run_id="r")


def test_an_unknown_call_is_an_error_that_says_how_to_list_them() -> None:
    with pytest.raises(InvalidInput, match=r"No call 'x' in run 'r'\. List .* `longwatch show r -o json`"):
        find_call(CALLS, "x", run_id="r")


@pytest.mark.parametrize(("index", "attempts"), [(0, [0]), (1, [1, 3, 4]), (3, [1, 3, 4]), (4, [1, 3, 4])])
def test_attempts_follow_a_failure_of_the_same_call(index: int, attempts: list[int]) -> None:
    tree = CallTree.of(
        [
            call("s0", at=0),
            call("s1", at=10, status="failed"),
            call("other", "fetch", at=15),
            call("s2", at=20, status="failed"),
            call("s3", at=30),
        ]
    )

    assert list(attempts_of(tree, index)) == attempts
