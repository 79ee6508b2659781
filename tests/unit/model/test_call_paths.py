from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from longwatch.model.call_paths import critical_path, failing_path
from longwatch.model.call_tree import CallTree
from longwatch.model.calls import Call
from tests.unit.model.call_samples import call


def failing(calls: list[Call], *, error: str | None = None, has_ended: bool = True) -> list[str]:
    tree = CallTree.of(calls)
    return [tree.calls[index].call_id for index in failing_path(tree, error=error, has_ended=has_ended)]


def critical(calls: list[Call], *, until: int, has_ended: bool = False) -> dict[str, int]:
    tree = CallTree.of(calls)
    path = critical_path(tree, until=until, has_ended=has_ended)
    return {tree.calls[index].call_id: own for index, own in path.items()}


def test_the_failing_path_leads_to_the_innermost_call_with_the_runs_error() -> None:
    calls = [
        call("a1", kind="agent", takes=100, status="failed", error="FeedTimeout: no response in 3 s"),
        call(
            "a2",
            kind="agent",
            at=1,
            takes=90,
            status="failed",
            error="FeedTimeout: no response in 3 s",
            parent="a1",
        ),
        call("t1", at=2, takes=8, status="failed", error="FeedTimeout: no response in 3 s", parent="a2"),
        call("t2", at=20, takes=60, status="failed", error="FeedTimeout: no response in 3 s", parent="a2"),
        call("t3", at=85, takes=2, status="failed", error="another one", parent="a2"),
    ]

    assert failing(calls, error="FeedTimeout: no response in 3 s") == ["a1", "a2", "t2"]


def test_the_runs_error_is_found_below_a_caller_that_did_not_fail() -> None:
    calls = [
        call("a1", kind="agent", takes=100),
        call("t1", at=1, parent="a1", status="failed", error="ValueError: bad row 17"),
        call("t2", at=50, status="failed", error="closed", kind="agent"),
    ]

    assert failing(calls, error="Job failed: bad row 17") == ["a1", "t1"]


def test_the_failing_path_includes_a_call_that_failed_in_another_way_and_ended_its_caller() -> None:
    calls = [
        call("a1", kind="agent", takes=100, status="failed", error="ResearchFailed: no prices for Monday"),
        call("a2", kind="agent", at=5, takes=90, status="failed", error="gave up", parent="a1"),
        call("t1", at=10, takes=5, status="failed", error="Timeout", parent="a2"),
        call("t2", at=20, takes=5, status="failed", error="Timeout", parent="a2"),
    ]

    assert failing(calls, error="ResearchFailed: no prices for Monday") == ["a1", "a2", "t2"]


def test_a_failure_after_which_its_caller_resumed_is_on_no_failing_path() -> None:
    calls = [
        call("a1", kind="agent", takes=100, status="failed", error="ResearchFailed: no prices for Monday"),
        call("t1", at=10, takes=5, status="failed", error="Timeout", parent="a1"),
        call("t2", at=20, takes=5, parent="a1"),
    ]

    assert failing(calls, error="ResearchFailed: no prices for Monday") == ["a1"]


def test_the_failing_path_leads_to_a_call_whose_error_has_more_lines_than_that_of_the_run() -> None:
    error = "PermissionDenied: may not insert into prices"
    calls = [
        call("a1", kind="agent", takes=100, status="failed", error=error),
        call("t1", at=10, takes=5, status="failed", error=f"{error}\n  at line 3", parent="a1"),
        call("t2", at=30, takes=50, parent="a1"),
    ]

    assert failing(calls, error=error) == ["a1", "t1"]


def test_without_the_runs_error_the_failing_path_follows_the_calls_that_failed_last() -> None:
    calls = [
        call("a1", kind="agent", takes=10, status="failed"),
        call("a2", kind="agent", at=20, takes=70, status="failed"),
        call("t1", at=21, takes=30, status="failed", parent="a2"),
        call("t2", at=22, takes=10, status="failed", parent="a2"),
        call("t3", at=60, parent="a2"),
    ]

    assert failing(calls) == ["a2", "t1"]


def test_a_failure_that_its_caller_has_handled_is_on_no_failing_path() -> None:
    calls = [call("a1", kind="agent", takes=100), call("t1", at=1, parent="a1", status="failed")]

    assert failing(calls) == []


def test_a_run_that_died_leads_to_the_call_it_was_in() -> None:
    calls = [
        call("a1", kind="agent", takes=None),
        call("t1", at=1, parent="a1", status="failed"),
        call("t2", at=20, takes=None, parent="a1"),
    ]

    assert failing(calls) == ["a1", "t2"]
    assert failing(calls, has_ended=False) == []


def test_the_critical_path_follows_the_calls_that_end_last() -> None:
    calls = [
        call("a1", kind="agent", at=0, takes=100),
        call("t1", at=10, takes=20, parent="a1"),
        call("t2", at=15, takes=5, parent="a1"),  # beside t1, which ended later
        call("t3", at=40, takes=50, parent="a1"),
        call("a2", kind="agent", at=5, takes=90),  # beside a1
    ]

    assert critical(calls, until=110) == {"a1": 10 + 10 + 10, "t3": 50, "t1": 20}


def test_the_critical_path_crosses_calls_side_by_side_one_after_the_other() -> None:
    calls = [
        call("t1", takes=10),
        call("t2", takes=30),
        call("t3", at=30, takes=20),
        call("t4", at=31, takes=5),
    ]

    assert critical(calls, until=60) == {"t3": 20, "t2": 30}


def test_an_open_call_lasts_until_now() -> None:
    calls = [
        call("a1", kind="agent", takes=None),
        call("t1", at=5, takes=None, parent="a1"),
        call("t2", at=40),
    ]

    assert critical(calls, until=100) == {"a1": 5, "t1": 95}


def test_an_abandoned_call_delays_nothing_if_another_one_ended_after_it_began() -> None:
    calls = [call("lost", takes=None), call("t1", takes=10), call("t2", at=10, takes=20)]
    last = call("last", at=30, takes=None)

    assert critical(calls, until=40, has_ended=True) == {"t1": 10, "t2": 20}
    assert critical([*calls, last], until=40, has_ended=True) == {"t1": 10, "t2": 20, "last": 10}


def test_an_abandoned_call_lasts_no_longer_than_its_caller() -> None:
    calls = [
        call("a1", kind="agent", takes=50),
        call("t1", at=20, takes=None, parent="a1"),
        call("a2", kind="agent", at=50, takes=50),
    ]

    assert critical(calls, until=100, has_ended=True) == {"a1": 20, "t1": 30, "a2": 50}


ids = st.sampled_from("abcdefgh")
trees = st.dictionaries(ids, st.tuples(ids, st.integers(0, 50), st.none() | st.integers(0, 50)))


def calls_of(links: dict[str, tuple[str, int, int | None]]) -> list[Call]:
    return [call(name, parent=parent, at=at, takes=takes) for name, (parent, at, takes) in links.items()]


@given(trees, st.booleans())
def test_the_times_on_the_critical_path_never_overlap(
    links: dict[str, tuple[str, int, int | None]], has_ended: bool
) -> None:
    own = critical(calls_of(links), until=120, has_ended=has_ended)

    assert all(ms >= 0 for ms in own.values())
    assert sum(own.values()) <= 120


@given(trees)
def test_the_critical_path_is_connected(links: dict[str, tuple[str, int, int | None]]) -> None:
    tree = CallTree.of(calls_of(links))

    path = critical_path(tree, until=120)

    assert all(set(tree.above(index)) <= path.keys() for index in path)


def test_a_chain_deeper_than_pythons_stack_has_both_paths() -> None:
    chain = [
        call(f"c{number}", at=number, takes=20_000 - 2 * number, parent=f"c{number - 1}", status="failed")
        for number in range(5000)
    ]

    assert len(failing(chain)) == len(critical(chain, until=20_000)) == 5000
