"""Promises about reading the end of a run: its last events, whatever arrived when."""

from __future__ import annotations

import random

import pytest

from longwatch.journal.base import Journal, ReadsLast
from longwatch.model.event import Event
from longwatch.testing.clock import FakeClock
from tests.contract.basis import Contract
from tests.contract.events import event, new_run


def read_last(journal: Journal, run_id: str, limit: int) -> list[Event]:
    assert isinstance(journal, ReadsLast)
    return list(journal.read_last(run_id, limit))


class ReadLastContract(Contract):
    """What `ReadsLast.read_last` promises."""

    @pytest.mark.parametrize("limit", [1, 5, 19, 20, 99])
    @pytest.mark.parametrize("seed", [1, 2])
    def test_the_last_events_by_time_are_found_in_any_order_of_arrival(
        self, journal: Journal, now: int, limit: int, seed: int
    ) -> None:
        run, order = new_run(), random.Random(seed)
        events = [
            event(run, now - 1_500 * (index // 3), producer="ab"[index % 2], number=index + 1)
            for index in range(20)
        ]
        order.shuffle(events)
        for each in events:
            journal.append([each, event(f"{run}-other", each.occurred_at)])

        found = read_last(journal, run, limit)

        assert found == sorted(events, key=lambda each: each.order)[-limit:]

    def test_an_event_that_arrived_first_may_be_the_last_one(self, journal: Journal, now: int) -> None:
        run = new_run()
        ahead = event(run, now + 9_000)
        late = event(run, now - 9_000)
        usual = [event(run, now + index) for index in range(8)]
        journal.append([ahead, *usual, late])

        assert read_last(journal, run, 3) == [*usual[-2:], ahead]

    def test_events_of_one_moment_that_moved_to_later_keys_stay_in_their_place(
        self, journal: Journal, now: int
    ) -> None:
        run = new_run()
        burst = [event(run, now) for _ in range(40)]
        end = event(run, now + 5)
        journal.append([*burst, end])

        assert read_last(journal, run, 1) == [end]

    def test_an_unknown_run_has_no_last_events(self, journal: Journal) -> None:
        assert read_last(journal, "wf-nobody-knows", 5) == []

    def test_expired_events_are_not_among_the_last(
        self, journal: Journal, clock: FakeClock, now: int
    ) -> None:
        run, seconds = new_run(), now // 1000
        lasting = [event(run, now + index) for index in range(3)]
        expired = [event(run, now + 10 + index, ttl=seconds + 10) for index in range(4)]
        journal.append([*lasting, *expired])
        clock.advance(10)

        assert read_last(journal, run, 2) == lasting[-2:]
