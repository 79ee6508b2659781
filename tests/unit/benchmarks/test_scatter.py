from __future__ import annotations

import pytest
from benchmarks.cadence.scatter import MOST_COLUMNS, Point, scatter

from longwatch.cli.render.styles import line_columns, paint


def drawn(*points: Point, width: int | None = 60) -> list[str]:
    return [
        paint(line, colour=False) for line in scatter(points, x_title="x", y_title="y", width=width, rows=5)
    ]


def test_points_are_drawn_at_their_values() -> None:
    lines = drawn(Point(0, 0, "a"), Point(10, 10, "b"), Point(10, 0, "c"))

    top, bottom = lines[1], lines[5]
    assert top.endswith("b")
    assert bottom.strip().startswith("0 ┤a")
    assert bottom.endswith("c")


def test_a_later_point_hides_an_earlier_one_at_the_same_position() -> None:
    text = "\n".join(drawn(Point(5, 5, "a"), Point(5, 5, "b")))

    assert "b" in text
    assert "a" not in text


@pytest.mark.parametrize("width", [None, 30, 60, 200])
def test_the_plot_fits_the_width(width: int | None) -> None:
    lines = scatter([Point(1, 1, "a"), Point(40, 30, "b")], x_title="x", y_title="y", width=width)

    assert max(line_columns(line) for line in lines) <= min(width or 200, MOST_COLUMNS + 12)
