from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.model.call_outline import Outline, OutlineRow, RowKind, outline
from longwatch.model.call_paths import failing_path
from longwatch.model.call_selection import OutlineOptions
from longwatch.model.call_tree import CallTree
from longwatch.model.calls import Call
from tests.unit.model.call_samples import call


def outlined(calls: list[Call], options: OutlineOptions | None = None, **named: list[str]) -> Outline:
    tree = CallTree.of(calls)
    failing = failing_path(tree, error=None, has_ended=True)
    always = [index for index, each in enumerate(tree.calls) if each.call_id in named.get("always", [])]
    return outline(tree, options, failing=failing, always=always)


def text(row: OutlineRow) -> str:
    """`  search × 3, 1 failed (+2)`"""
    call = row.first
    name = {
        RowKind.CALL: call.call_id,
        RowKind.REPEATED: f"{call.name} × {row.count}",
        RowKind.OTHERS: f"others × {row.count}",
        RowKind.CHAIN: f"chain × {row.count}",
    }[row.kind]
    failed = f", {row.failed} failed" if row.failed and row.kind is not RowKind.CALL else ""
    below = f" (+{row.below})" if row.below else ""
    return f"{'  ' * row.depth}{name}{failed}{below}"


def shape(found: Outline) -> list[str]:
    return [text(row) for row in found.rows]


def searches(count: int, parent: str | None = None, *, at: int = 1, failed: int = 0) -> list[Call]:
    return [
        call(f"s{number}", at=at + number, parent=parent, status="failed" if number < failed else "completed")
        for number in range(count)
    ]


def agent(call_id: str, *, at: int = 0, takes: int = 1000, status: str = "completed", **more: str) -> Call:
    return call(call_id, kind="agent", name=call_id, at=at, takes=takes, status=status, **more)


def test_four_siblings_of_one_kind_name_and_agent_are_one_row() -> None:
    calls = [agent("a1"), *searches(4, "a1", failed=1), call("f1", name="fetch", at=3, parent="a1")]

    found = outlined(calls)

    assert shape(found) == ["a1", "  search × 4, 1 failed", "  f1"]
    assert (found.folded, found.left_out) == (4, 0)


@pytest.mark.parametrize(
    "other",
    [
        call("x", at=9, parent="a1", agent="reader"),
        call("x", at=9, parent="a1", kind="model"),
        call("x", at=9, parent="a1", name="fetch"),
        call("x", at=9),
    ],
)
def test_siblings_that_differ_are_not_folded(other: Call) -> None:
    assert [row.kind for row in outlined([agent("a1"), *searches(3, "a1"), other]).rows] == [RowKind.CALL] * 5


def test_a_row_of_repeated_calls_states_their_median_duration_and_what_is_below_them() -> None:
    calls = [call(f"s{number}", at=number, takes=takes) for number, takes in enumerate((10, 40, 20, 30))]
    calls += [call("open", at=9, takes=None), call("inner", at=2, takes=5, parent="s2", status="failed")]

    [row] = outline(CallTree.of(calls)).rows

    assert (row.count, row.p50_ms, row.span.unfinished, row.below, row.failed_below) == (5, 20, 1, 1, 1)


def test_the_failing_path_is_expanded_among_repeated_calls() -> None:
    calls = [
        agent("a1", status="failed"),
        *searches(9, "a1"),
        call("bad", at=50, status="failed", parent="a1"),
    ]

    found = outlined(calls)

    assert shape(found) == ["a1", "  search × 9", "  bad"]
    assert [row.leads_to_failure for row in found.rows] == [True, False, True]


def test_the_failing_path_is_shown_beyond_the_depth() -> None:
    calls = [
        agent("a1", status="failed"),
        agent("a2", at=1, parent="a1", status="failed"),
        call("bad", at=2, parent="a2", status="failed"),
        call("good", at=2, parent="a2"),
        agent("b1", at=5),
        call("t1", at=6, parent="b1"),
    ]

    assert shape(outlined(calls, OutlineOptions(depth=1))) == ["a1", "  a2 (+1)", "    bad", "b1 (+1)"]


def test_callers_are_expanded_level_by_level_as_far_as_there_are_lines() -> None:
    calls = [agent("a1", takes=2000), agent("a2", at=1), agent("b1", at=2, parent="a1")]
    calls += [call(f"t{number}", name=f"n{number}", at=3, parent="b1") for number in range(8)]

    assert shape(outlined(calls, OutlineOptions(lines=2))) == ["a1 (+9)", "a2"]
    assert shape(outlined(calls, OutlineOptions(lines=4))) == ["a1", "  b1 (+8)", "a2"]
    assert len(outlined(calls, OutlineOptions(lines=11)).rows) == 11


def test_siblings_for_which_there_is_no_line_share_one() -> None:
    calls = [call(f"t{number}", name=f"n{number}", at=number, takes=number) for number in range(1, 100)]
    calls.append(call("bad", name="bad", at=200, status="failed"))

    assert shape(outlined(calls, OutlineOptions(lines=5))) == ["t97", "t98", "t99", "bad", "others × 96"]


def test_of_a_long_failing_chain_the_middle_is_one_row() -> None:
    chain = [
        call(
            f"c{number}",
            name=f"n{number}",
            at=number,
            takes=9000 - number,
            parent=f"c{number - 1}",
            status="failed",
        )
        for number in range(5000)
    ]

    found = outlined(chain, OutlineOptions(lines=12))

    assert shape(found) == [
        "c0",
        "  c1",
        "    chain × 4995, 4995 failed",
        "      c4997",
        "        c4998",
        "          c4999",
    ]


def test_only_failed_calls_and_their_callers_are_shown_with_errors() -> None:
    calls = [agent("a1"), *searches(6, "a1", failed=2), agent("b1", at=5)]

    found = outlined(calls, OutlineOptions(errors=True))

    assert shape(found) == ["a1", "  s0", "  s1"]
    assert found.left_out == 5


def test_failures_are_folded_only_with_others_of_the_same_error() -> None:
    calls = [
        call(
            f"t{number}",
            at=number,
            status="failed",
            error=f"Timeout: {number}" if number < 5 else "no such key",
        )
        for number in range(7)
    ]

    found = outlined(calls, OutlineOptions(errors=True))

    assert shape(found) == ["search × 5, 5 failed", "t5", "t6"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (OutlineOptions(last=2), ["a1", "  s4", "  s5"]),
        (OutlineOptions(agent="a1"), ["a1 (+0)"]),
        (OutlineOptions(since=14), ["a1", "  s3", "  s4", "  s5"]),
        (OutlineOptions(full=True), ["a1", *(f"  s{number}" for number in range(6))]),
        (OutlineOptions(depth=1), ["a1 (+6)"]),
    ],
)
def test_options_select_calls(options: OutlineOptions, expected: list[str]) -> None:
    calls = [agent("a1"), *searches(6, "a1")]

    assert shape(outlined(calls, options)) == [line.removesuffix(" (+0)") for line in expected]


def test_a_call_that_is_always_shown_is_shown_with_its_callers() -> None:
    calls = [agent("a1"), *searches(9, "a1"), agent("b1", at=5)]

    assert shape(outlined(calls, OutlineOptions(lines=3), always=["s5"])) == ["a1 (+8)", "  s5", "b1"]


ids = st.sampled_from([f"c{number}" for number in range(30)])
links = st.dictionaries(
    ids,
    st.tuples(
        ids,
        st.sampled_from(["search", "fetch"]),
        st.integers(0, 50),
        st.none() | st.integers(0, 50),
        st.booleans(),
        st.sampled_from([None, "reader", "writer"]),
    ),
)
some_options = st.builds(
    OutlineOptions,
    errors=st.booleans(),
    agent=st.sampled_from([None, None, "reader"]),
    since=st.none() | st.integers(0, 60),
    last=st.none() | st.integers(0, 10),
    depth=st.none() | st.integers(1, 4),
    lines=st.none() | st.integers(1, 20),
    full=st.booleans(),
)


def calls_of(found: dict[str, tuple[str, str, int, int | None, bool, str | None]]) -> list[Call]:
    return [
        call(
            each,
            parent=parent,
            name=name,
            at=at,
            takes=takes,
            agent=agent,
            status="failed" if failed else "completed",
        )
        for each, (parent, name, at, takes, failed, agent) in found.items()
    ]


@given(links, some_options, st.lists(ids, max_size=3))
def test_every_call_is_shown_or_counted_in_exactly_one_row(
    found: dict[str, tuple[str, str, int, int | None, bool, str | None]],
    options: OutlineOptions,
    always: list[str],
) -> None:
    calls = calls_of(found)

    result = outlined(calls, options, always=always)

    firsts = [row.first.call_id for row in result.rows]
    assert len(firsts) == len(set(firsts))
    assert sum(row.count + row.below for row in result.rows) + result.left_out == len(calls)
    assert all(row.below >= row.failed_below >= 0 for row in result.rows)
    if not options.selects:
        failed = sum(row.failed + row.failed_below for row in result.rows)
        assert (result.left_out, failed) == (0, sum(call.status == "failed" for call in calls))


@given(links, st.integers(8, 30))
def test_without_calls_that_have_to_be_shown_the_rows_fit(
    found: dict[str, tuple[str, str, int, int | None, bool, str | None]], lines: int
) -> None:
    tree = CallTree.of(calls_of(found))

    assert len(outline(tree, OutlineOptions(lines=lines)).rows) <= lines


@given(links, st.integers(8, 30))
def test_the_failing_path_has_rows_and_still_fits(
    found: dict[str, tuple[str, str, int, int | None, bool, str | None]], lines: int
) -> None:
    tree = CallTree.of(calls_of(found))
    failing = failing_path(tree, error=None, has_ended=True)

    rows = outline(tree, OutlineOptions(lines=lines), failing=failing).rows

    assert len(rows) <= lines
    path = {tree.calls[index].call_id for index in failing}
    alone = {row.first.call_id for row in rows if row.kind is RowKind.CALL}
    chained = sum(row.count for row in rows if row.kind is RowKind.CHAIN)
    assert len(path & alone) + chained == len(path)


@pytest.mark.parametrize(
    "calls_of_size",
    [
        searches,
        lambda size: [call(f"t{number}", name=f"n{number}", at=number) for number in range(size)],
        lambda size: [call(f"c{number}", at=number, parent=f"c{number - 1}") for number in range(size)],
        lambda size: [call(f"c{number}", at=number, parent=f"c{number // 3}") for number in range(1, size)],
    ],
    ids=["alike", "different", "chain", "tree"],
)
def test_deep_and_wide_trees_are_outlined(calls_of_size: Callable[[int], list[Call]]) -> None:
    calls = calls_of_size(5000)

    assert len(outlined(calls, OutlineOptions(lines=20)).rows) <= 20
    assert len(outlined(calls, OutlineOptions(full=True)).rows) == len(calls)
