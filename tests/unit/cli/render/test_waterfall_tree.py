from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from longwatch.cli.render.waterfall import branches
from longwatch.model.calls import Call, Mark


def call(
    call_id: str,
    *,
    kind: str = "tool",
    name: str = "search",
    at: int = 0,
    takes: int | None = 10,
    status: str = "completed",
    agent: str | None = None,
    parent: str | None = None,
) -> Call:
    def mark(moment: int, word: str) -> Mark:
        order = (moment, "", 0, f"{call_id}-{word}")
        return Mark(order, kind, name, word, agent_name=agent, parent_call_id=parent)

    return Call(call_id, mark(at, "started"), None if takes is None else mark(at + takes, status))


def shape(calls: list[Call]) -> list[tuple[int, str]]:
    return [(branch.depth, branch.call.call_id) for branch in branches(calls)]


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

    attempts = {branch.call.call_id: branch.attempt for branch in branches(calls)}

    assert attempts == {"t1": 1, "t2": 2, "t3": 3, "t4": None}


def test_calls_side_by_side_are_not_retries() -> None:
    calls = [call("t1", takes=50, status="failed"), call("t2", at=20)]

    assert [branch.attempt for branch in branches(calls)] == [None, None]


def test_a_call_that_never_ended_is_not_tried_again() -> None:
    assert [branch.attempt for branch in branches([call("t1", takes=None), call("t2", at=20)])] == [
        None,
        None,
    ]


def test_rails_show_where_more_siblings_follow() -> None:
    calls = [
        call("a1", kind="agent", name="one"),
        call("t1", at=1, parent="a1"),
        call("a2", kind="agent", name="two", at=20),
    ]

    first, below, last = branches(calls)

    assert (first.is_last, below.rails, below.is_last, last.is_last) == (False, (True,), True, True)


def test_a_chain_deeper_than_pythons_stack_is_walked() -> None:
    calls = [call(f"c{number}", at=number, parent=f"c{number - 1}") for number in range(5000)]

    assert branches(calls)[-1].depth == 4999


ids = st.sampled_from("abcdef")


@given(st.dictionaries(ids, st.tuples(ids, st.integers(0, 50))))
def test_every_call_appears_exactly_once_even_when_parents_run_in_circles(
    links: dict[str, tuple[str, int]],
) -> None:
    calls = [call(name, parent=parent, at=at) for name, (parent, at) in links.items()]

    assert sorted(branch.call.call_id for branch in branches(calls)) == sorted(links)
