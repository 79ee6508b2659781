"""How often one client may write, and how many streams it may hold."""

from __future__ import annotations

from longwatch.server.access.limits import MOST_CLIENTS, Rates, Slots, Traffic


def test_a_client_may_write_some_at_once_and_then_at_a_steady_rate() -> None:
    rates = Rates(per_second=2.0, at_once=3)

    burst = [rates.take("a", 0.0) for _ in range(4)]
    later = [rates.take("a", 1.0) for _ in range(3)]

    assert burst == [0.0, 0.0, 0.0, 0.5]
    assert later == [0.0, 0.0, 0.5]


def test_one_client_does_not_use_up_what_another_has() -> None:
    rates = Rates(per_second=1.0, at_once=1)

    assert [rates.take("a", 0.0), rates.take("a", 0.0), rates.take("b", 0.0)] == [0.0, 1.0, 0.0]


def test_however_many_clients_come_few_are_remembered() -> None:
    rates = Rates(per_second=1.0, at_once=1)

    for number in range(3 * MOST_CLIENTS):
        rates.take(str(number), 0.0)

    assert len(rates._buckets) <= MOST_CLIENTS


def test_a_slot_is_freed_also_after_an_error() -> None:
    traffic = Traffic()
    slots = Slots(most=2, most_per_client=1, traffic=traffic)

    with (
        slots.held("a") as first,
        slots.held("a") as second,
        slots.held("b") as third,
        slots.held("c") as fourth,
    ):
        assert [first, second, third, fourth] == [True, False, True, False]
    try:
        with slots.held("a"):
            raise ValueError
    except ValueError:
        pass

    assert traffic.held == 0
    with slots.held("a") as again:
        assert again
