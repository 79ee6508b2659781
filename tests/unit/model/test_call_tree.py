from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from longwatch.model.call_tree import TOP, CallTree
from longwatch.model.calls import Call
from tests.unit.model.call_samples import call


def shape(calls: list[Call]) -> list[tuple[int, str]]:
    tree = CallTree.of(calls)
    depths: dict[int, int] = {TOP: -1}
    for index, caller in enumerate(tree.callers):
        depths[index] = depths[caller] + 1
    return [(depths[index], call.call_id) for index, call in enumerate(tree.calls)]


def tries(calls: list[Call]) -> list[int | None]:
    tree = CallTree.of(calls)
    numbers = tree.tries(tree.children[TOP])
    return [numbers.get(index) for index in tree.children[TOP]]


def test_a_call_stands_below_the_one_it_was_made_from() -> None:
    calls = [
        call("t2", at=30, parent="a1"),
        call("t1", at=10, parent="a1"),
        call("a1", kind="agent", name="planner", takes=100),
    ]

    assert shape(calls) == [(0, "a1"), (1, "t1"), (1, "t2")]


def test_a_tool_that_names_only_its_agent_stands_below_the_agents_span_of_that_time() -> None:
    calls = [
        call("a1", kind="agent", name="planner", agent="planner", at=0, takes=50),
        call("a2", kind="agent", name="planner", agent="planner", at=100, takes=50),
        call("t1", agent="planner", at=110),
    ]

    assert shape(calls) == [(0, "a1"), (0, "a2"), (1, "t1")]


def test_a_call_whose_parent_is_unknown_stands_at_the_top() -> None:
    assert shape([call("t1", parent="lost")]) == [(0, "t1")]


def test_a_failed_call_and_the_one_after_it_are_two_tries() -> None:
    calls = [
        call("t1", status="failed"),
        call("t2", at=20, status="failed"),
        call("t3", at=40),
        call("t4", at=60),
    ]

    assert tries(calls) == [1, 2, 3, None]


def test_the_next_call_of_a_loop_is_not_a_retry_of_the_failed_one() -> None:
    calls = [
        call("t1", given="tides", status="failed"),
        call("t2", at=20, given="moons"),
        call("t3", at=40, given="tides"),
    ]

    assert tries(calls) == [1, None, 2]


def test_calls_side_by_side_are_not_retries() -> None:
    calls = [call("t1", takes=50, status="failed"), call("t2", at=20)]

    assert tries(calls) == [None, None]


def test_a_call_that_never_ended_is_not_tried_again() -> None:
    assert tries([call("t1", takes=None), call("t2", at=20)]) == [None, None]


def test_a_chain_deeper_than_pythons_stack_is_walked() -> None:
    calls = [call(f"c{number}", at=number, parent=f"c{number - 1}") for number in range(5000)]

    assert shape(calls)[-1] == (4999, "c4999")


ids = st.sampled_from("abcdef")


@given(st.dictionaries(ids, st.tuples(ids, st.integers(0, 50))))
def test_every_call_appears_exactly_once_even_when_parents_run_in_circles(
    links: dict[str, tuple[str, int]],
) -> None:
    calls = [call(name, parent=parent, at=at) for name, (parent, at) in links.items()]

    assert sorted(call_id for _, call_id in shape(calls)) == sorted(links)
