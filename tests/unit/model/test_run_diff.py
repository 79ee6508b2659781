"""The calls of two runs are aligned by structure."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.model.calls import Call, Mark
from longwatch.model.event import Event
from longwatch.model.run_diff import (
    WINDOW,
    CallNode,
    DiffRow,
    align,
    call_forest,
    diff_calls,
    digest_contents,
    longest_common,
    shorten_diff,
)


def call(call_id: str, name: str, *, parent: str | None = None, at: int = 0, **end: str) -> Call:
    def mark(number: int, status: str, error: str | None = None) -> Mark:
        return Mark(
            order=(at + number, "p", number, f"{call_id}-{number}"),
            kind="tool",
            name=name,
            status=status,
            agent_name=None,
            parent_call_id=parent,
            duration_ms=None,
            error=error,
            model=None,
        )

    return Call(call_id, mark(0, "started"), mark(1, end.get("status", "completed"), end.get("error")))


def forest(
    *calls: Call, contents: dict[str, tuple[bytes | None, bytes | None]] | None = None
) -> list[CallNode]:
    return call_forest(calls, contents or {})


def shown(rows: list[DiffRow]) -> list[str]:
    """`  - fetch missing` for each row."""
    lines = []
    for row in rows:
        found = row.one or row.other
        assert found is not None
        lines.append(f"{'  ' * row.depth}{found.name} {' '.join(row.differences)}".rstrip())
    return lines


def test_calls_are_aligned_below_their_callers() -> None:
    one = forest(
        call("1", "plan", at=0),
        call("2", "search", parent="1", at=10),
        call("3", "read", parent="1", at=20),
        call("4", "write", at=30),
    )
    other = forest(
        call("a", "plan", at=0),
        call("b", "search", parent="a", at=10),
        call("c", "rank", parent="a", at=15),
        call("d", "read", parent="a", at=20, status="failed", error="no such file"),
        call("e", "check", at=25),
        call("f", "write", at=30),
    )

    rows = diff_calls(one, other)

    assert shown(rows) == [
        "plan",
        "  search",
        "  rank added",
        "  read status error",
        "check added",
        "write",
    ]
    assert shown(diff_calls(other, one))[2] == "  rank missing"


def test_a_call_on_one_side_has_those_below_it_on_that_side() -> None:
    one = forest(call("1", "plan"), call("2", "search", parent="1", at=1))

    assert shown(diff_calls(one, [])) == ["plan missing", "  search missing"]
    assert shown(diff_calls([], [])) == []


def test_other_arguments_and_results_are_differences() -> None:
    def events(value: int) -> list[Event]:
        return [
            Event(run_id="r", event_id="1-0", type="tool_call", occurred_at=0, payload={"input": {"n": 1}}),
            Event(run_id="r", event_id="1-1", type="tool_call", occurred_at=0, payload={"output": value}),
        ]

    one, other = (forest(call("1", "f"), contents=digest_contents(events(value))) for value in (1, 2))

    assert shown(diff_calls(one, one)) == ["f"]
    assert shown(diff_calls(one, other)) == ["f result"]
    assert shown(diff_calls(one, forest(call("1", "f")))) == ["f arguments result"]


@pytest.mark.parametrize(
    ("one", "other", "pairs"),
    [
        ("abc", "abc", [(0, 0), (1, 1), (2, 2)]),
        ("abc", "axbc", [(0, 0), (1, 2), (2, 3)]),
        ("ab", "ba", [(1, 0)]),
        ("", "a", []),
    ],
)
def test_the_longest_common_subsequence(one: str, other: str, pairs: list[tuple[int, int]]) -> None:
    assert longest_common(one, other) == pairs


letters = st.lists(st.sampled_from("abc"), max_size=12)


@given(letters, letters)
def test_every_sibling_is_in_one_pair_and_in_order(one: list[str], other: list[str]) -> None:
    mine, theirs = (
        [CallNode(call(f"{at}", name)) for at, name in enumerate(names)] for names in (one, other)
    )

    pairs = align(mine, theirs)

    assert [left for left, _ in pairs if left] == mine
    assert [right for _, right in pairs if right] == theirs
    assert all(left.subject == right.subject for left, right in pairs if left and right)


def test_thousands_of_siblings_are_aligned_window_by_window() -> None:
    names = [f"t{number % 97}" for number in range(20 * WINDOW)]
    without = [name for number, name in enumerate(names) if number % 100]
    mine, theirs = (
        [CallNode(call(f"{at}", name)) for at, name in enumerate(each)] for each in (names, without)
    )

    pairs = align(mine, theirs)

    assert sum(right is None for _, right in pairs) == len(names) - len(without)
    assert not any(left is None for left, _ in pairs)


def test_lists_without_anything_in_common_are_aligned_quickly() -> None:
    mine, theirs = (
        [CallNode(call(f"{at}", f"{letter}{at}")) for at in range(10 * WINDOW)] for letter in "ab"
    )

    assert len(align(mine, theirs)) == 20 * WINDOW


def test_a_chain_of_calls_deeper_than_the_stack_is_compared() -> None:
    chain = forest(
        *(call(f"{n}", "f", parent=f"{n - 1}" if n else None, at=n) for n in range(5_000)),
    )

    rows = diff_calls(chain, chain)

    assert (len(rows), rows[-1].depth) == (5_000, 4_999)


def test_of_many_rows_those_that_differ_are_shown_with_their_callers() -> None:
    same = [call("p", "plan"), *(call(f"{n}", f"t{n}", parent="p", at=n + 1) for n in range(9))]
    rows = diff_calls(forest(*same), forest(*same[:-1], call("x", "extra", at=99)))

    assert shorten_diff(rows, 50) == list(range(11))
    assert [shown(rows)[number] for number in shorten_diff(rows, 5)] == [
        "plan",
        "  t8 missing",
        "extra added",
    ]
    assert len(shorten_diff(rows, 2)) == 2
