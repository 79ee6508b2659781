from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from longwatch.cli.render.styles import Segment, line_columns, paint
from longwatch.cli.render.table import Column, table

COLUMNS = (
    Column("RUN", 9, 4, elastic=True),
    Column("NAME", 5, 6, elastic=True),
    Column("EVENTS", 1, 6, right=True),
)


def lines(rows: list[list[str]], width: int | None) -> list[str]:
    cells = [[Segment(text) for text in row] for row in rows]
    return [paint(line, colour=False) for line in table(COLUMNS, cells, width=width)]


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    shown = lines([["wf-1", "research", "7"], ["wf-22", "x", "1,200"]], width=80)

    assert shown == [
        "RUN    NAME      EVENTS",
        "wf-1   research       7",
        "wf-22  x          1,200",
    ]


def test_the_least_important_column_is_dropped_first() -> None:
    shown = lines([["wf-1", "research", "7"]], width=16)

    assert shown == ["RUN   NAME", "wf-1  research"]


def test_elastic_columns_are_cut_when_no_other_column_can_be_dropped() -> None:
    shown = lines([["wf-1a2b3c4d", "research report", "7"]], width=14)

    assert shown[1].endswith("…")
    assert all(len(line) <= 14 for line in shown)


def test_without_a_width_nothing_is_left_out() -> None:
    shown = lines([["w" * 200, "research", "7"]], width=None)

    assert "EVENTS" in shown[0]


@given(
    st.lists(st.lists(st.text("ab資 ", max_size=30), min_size=3, max_size=3), max_size=4), st.integers(5, 60)
)
def test_no_line_is_ever_wider_than_the_width(rows: list[list[str]], width: int) -> None:
    made = table(COLUMNS, [[Segment(text) for text in row] for row in rows], width=width)

    assert all(line_columns(line) <= width for line in made)
