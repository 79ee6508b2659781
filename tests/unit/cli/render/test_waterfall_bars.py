from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from longwatch.cli.render.bars import Scale


def test_a_bar_lies_where_its_time_lies() -> None:
    scale = Scale(0, 100, 10)

    assert scale.bar(0, 100) == "██████████"
    assert scale.bar(20, 50) == "  ███     "
    assert scale.bar(25, 55) == "  ▐██▌    "


def test_short_calls_differ_by_eighths_of_a_column() -> None:
    scale = Scale(0, 80, 10)

    assert [scale.bar(16, 16 + ms)[2] for ms in range(1, 9)] == list("▏▎▍▌▋▊▉█")
    assert [scale.bar(16 + ms, 24)[2] for ms in (1, 4, 7)] == list("█▐▕")


def test_the_time_of_several_calls_is_a_thin_line() -> None:
    assert Scale(0, 100, 10).span(25, 55) == "  ╺━━╸    "


def test_a_logarithmic_scale_draws_durations_from_the_left() -> None:
    scale = Scale(0, 100_000, 10, is_logarithmic=True, longest_ms=99_999)

    assert scale.bar(50_000, 149_999) == "██████████"
    assert scale.bar(90_000, 90_099) == "████      "


def test_a_call_that_took_no_time_is_still_visible() -> None:
    scale = Scale(0, 100, 4)

    assert scale.bar(50, 50) == "  ▏ "
    assert scale.bar(100, 100) == "   ▕"


def test_a_run_without_length_draws_all_at_its_beginning() -> None:
    assert Scale(5, 5, 4).bar(5, 5) == "▏   "


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.integers(1, 80))
def test_a_bar_is_as_wide_as_its_scale_whatever_it_shows(start: float, end: float, columns: int) -> None:
    scale = Scale(0, 1000, columns)

    for bar in (scale.bar(start, end), scale.span(start, end)):
        assert len(bar) == columns
        assert bar.strip()
