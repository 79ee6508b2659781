"""Points in a plane, drawn with characters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from longwatch.cli.render.styles import Segment, StyledLine

LEAST_COLUMNS, MOST_COLUMNS = 20, 72
AXIS_COLUMNS = 7  # of the numbers at the left


class Point(NamedTuple):
    """One point; a later one hides an earlier one at the same place."""

    x: float
    y: float
    mark: str
    style: str = ""


def scatter(
    points: Sequence[Point], *, x_title: str, y_title: str, width: int | None, rows: int = 14
) -> list[StyledLine]:
    """The points above two axes that begin at zero."""
    columns = min(max((width or MOST_COLUMNS) - AXIS_COLUMNS - 1, LEAST_COLUMNS), MOST_COLUMNS)
    right, top = max(point.x for point in points) * 1.05, max(point.y for point in points) * 1.05
    cells = [[Segment(" ")] * columns for _ in range(rows)]
    for point in points:
        column = min(int(point.x / right * columns), columns - 1)
        row = rows - 1 - min(int(point.y / top * rows), rows - 1)
        cells[row][column] = Segment(point.mark, point.style)
    lines: list[StyledLine] = [[Segment(y_title, "dim")]]
    for number, row_cells in enumerate(cells):
        label = f"{top * (rows - 1 - number) / rows:.0f}" if number % 3 == (rows - 1) % 3 else ""
        lines.append([Segment(f"{label:>{AXIS_COLUMNS - 2}} ┤", "dim"), *row_cells])
    lines.append([Segment(" " * (AXIS_COLUMNS - 1) + "└" + "─" * columns, "dim")])
    lines.append([Segment(_ticks(right, columns), "dim")])
    lines.append([Segment(f"{x_title:>{AXIS_COLUMNS + columns}}", "dim")])
    return lines


def _ticks(right: float, columns: int) -> str:
    text = [" "] * (AXIS_COLUMNS + columns + 4)
    for part in range(5):
        column = AXIS_COLUMNS + part * columns // 5
        label = f"{right * part / 5:.0f}"
        text[column : column + len(label)] = label
    return "".join(text).rstrip()
