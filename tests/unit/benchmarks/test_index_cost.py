from __future__ import annotations

import pytest
from benchmarks.cadence.index_cost import Lookup, closed_for, read_units


@pytest.mark.parametrize(
    ("size", "units"),
    [(0, 0.5), (1, 0.5), (4096, 0.5), (4097, 1.0), (1024 * 1024, 128.0), (1024 * 1024 + 1, 128.5)],
)
def test_half_a_unit_is_paid_for_each_4_kb_and_for_nothing_too(size: int, units: float) -> None:
    assert read_units(size) == units


def test_how_much_the_index_saves_is_how_much_of_the_table_is_closed() -> None:
    assert Lookup(1, 0, 4096).times == 1.0
    assert Lookup(1, 2499, 4096).times == 2500.0
    assert Lookup(1, 99_999, 4096).times == 100_000.0
    assert Lookup(50, 99_950, 4096).times == 2000.0


@pytest.mark.parametrize(("open_", "item_bytes"), [(1, 4096), (4, 4000), (50, 900), (0, 2000)])
def test_the_number_of_closed_executions_for_a_saving_is_that_at_which_it_is_reached(
    open_: int, item_bytes: int
) -> None:
    closed = closed_for(2500, open=open_, item_bytes=item_bytes)

    assert Lookup(open_, closed, item_bytes).times >= 2499
    assert Lookup(open_, closed - 20, item_bytes).times < 2500


def test_the_index_is_written_with_every_change() -> None:
    assert Lookup(1, 1, 1024).index_write_units == 1
    assert Lookup(1, 1, 4000).index_write_units == 4
