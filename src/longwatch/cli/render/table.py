"""Tables that fit a width: the least important columns are omitted first, then the widest is cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from longwatch.cli.render.styles import Segment, StyledLine
from longwatch.cli.render.text import columns_of, fit, pad

GAP = 2
WIDEST_FREE = 48  # columns of one cell when nothing limits the width


@dataclass(frozen=True, slots=True)
class Column:
    """One column: `importance` decides which is omitted first, `least` how far it may be cut."""

    title: str
    importance: int
    least: int
    right: bool = False
    elastic: bool = False  # may be cut down to `least`


def table(
    columns: Sequence[Column], rows: Sequence[Sequence[Segment]], *, width: int | None
) -> list[StyledLine]:
    """The heading and the rows as lines. Every row has one segment per column."""
    natural = [
        max([columns_of(column.title), *(columns_of(row[index].text) for row in rows)])
        for index, column in enumerate(columns)
    ]
    shown = choose_columns(columns, natural, width=width)
    lines: list[StyledLine] = [
        _row_line([(Segment(columns[index].title, "dim"), columns[index], size) for index, size in shown])
    ]
    for row in rows:
        lines.append(_row_line([(row[index], columns[index], size) for index, size in shown]))
    return lines


def choose_columns(
    columns: Sequence[Column], natural: Sequence[int], *, width: int | None
) -> list[tuple[int, int]]:
    """The index and width of each column that is shown."""
    shown = list(range(len(columns)))
    if width is None:
        return [
            (index, min(natural[index], WIDEST_FREE) if columns[index].elastic else natural[index])
            for index in shown
        ]

    def smallest(index: int) -> int:
        return min(natural[index], columns[index].least) if columns[index].elastic else natural[index]

    while len(shown) > 1 and sum(map(smallest, shown)) + GAP * (len(shown) - 1) > width:
        shown.remove(min(shown, key=lambda index: columns[index].importance))
    sizes = {index: natural[index] for index in shown}
    excess = sum(sizes.values()) + GAP * (len(shown) - 1) - width
    while excess > 0:
        cuttable = [index for index in shown if sizes[index] > smallest(index)]
        if not cuttable:
            sizes[shown[0]] = max(1, sizes[shown[0]] - excess)
            break
        widest = max(cuttable, key=lambda index: sizes[index] - smallest(index))
        sizes[widest] -= 1
        excess -= 1
    return [(index, sizes[index]) for index in shown]


def _row_line(cells: Sequence[tuple[Segment, Column, int]]) -> StyledLine:
    line: list[Segment] = []
    for number, (segment, column, size) in enumerate(cells):
        if number:
            line.append(Segment(" " * GAP))
        text = pad(fit(segment.text, size), size, right=column.right)
        line.append(Segment(text, segment.style))
    return line
