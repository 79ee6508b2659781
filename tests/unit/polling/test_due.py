"""The queue of what is due, beside a model that could not be simpler."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from longwatch.polling import DueQueue

SLOT = 0.01
MICROSECOND = 0.000_001

MOMENTS = st.floats(0, 100) | st.integers(0, 10_000).map(lambda hundredth: hundredth / 100)


def test_a_key_comes_out_when_it_is_due_and_once() -> None:
    queue: DueQueue[str] = DueQueue()
    queue.schedule("a", 1.0)

    assert queue.pop_due(0.99) == []
    assert queue.pop_due(1.0) == ["a"]
    assert queue.pop_due(2.0) == []


def test_keys_come_out_by_slots_and_then_as_they_were_scheduled() -> None:
    queue: DueQueue[str] = DueQueue()
    for key, at in (("c", 3.0), ("b2", 2.0), ("a", 1.0), ("b1", 1.999)):
        queue.schedule(key, at)

    assert queue.pop_due(10) == ["a", "b2", "b1", "c"]


def test_the_next_due_time_leaves_out_cancelled_keys() -> None:
    queue: DueQueue[str] = DueQueue()
    assert queue.next_at() is None

    queue.schedule("soon", 1.0)
    queue.schedule("later", 2.0)
    assert queue.next_at() == 1.0

    assert queue.cancel("soon")
    assert not queue.cancel("soon")
    assert queue.next_at() == 2.0
    assert queue.pop_due(1.5) == []
    assert len(queue) == 1


def test_scheduling_again_moves_a_key_in_either_direction() -> None:
    queue: DueQueue[str] = DueQueue()
    queue.schedule("a", 5.0)

    queue.schedule("a", 1.0)
    assert queue.next_at() == 1.0
    queue.schedule("a", 9.0)

    assert "a" in queue
    assert queue.pop_due(8.99) == []
    assert queue.pop_due(9.0) == ["a"]
    assert "a" not in queue


def test_a_key_that_is_overdue_when_scheduled_comes_out_next() -> None:
    queue: DueQueue[str] = DueQueue()

    queue.schedule("a", -3.0)

    assert queue.next_at() == -3.0
    assert queue.pop_due(0) == ["a"]


def test_moving_a_key_a_thousand_times_leaves_nothing_behind() -> None:
    queue: DueQueue[str] = DueQueue()

    for step in range(1_000):
        queue.schedule("a", 1000 - step / 100)
        queue.next_at()

    assert len(queue) == 1
    assert queue.pop_due(2_000) == ["a"]
    assert queue.next_at() is None


@given(at=st.floats(0, 1e8))
def test_a_key_is_never_early_and_at_most_a_slot_late(at: float) -> None:
    queue: DueQueue[str] = DueQueue()
    queue.schedule("a", at)

    moment = queue.next_at()

    assert moment is not None
    assert at - MICROSECOND <= moment <= at + SLOT + MICROSECOND
    assert queue.pop_due(moment) == ["a"]


class DueQueueMachine(RuleBasedStateMachine):
    """Any order of calls gives what a dictionary and a sort would give, to a slot."""

    def __init__(self) -> None:
        super().__init__()
        self.queue: DueQueue[int] = DueQueue()
        self.model: dict[int, float] = {}

    @rule(key=st.integers(0, 10), at=MOMENTS)
    def schedule(self, key: int, at: float) -> None:
        self.queue.schedule(key, at)
        self.model[key] = at

    @rule(key=st.integers(0, 10))
    def cancel(self, key: int) -> None:
        assert self.queue.cancel(key) is (self.model.pop(key, None) is not None)

    @rule(now=MOMENTS)
    def pop(self, now: float) -> None:
        due = self.queue.pop_due(now)

        times = [self.model.pop(key) for key in due]
        assert len(set(due)) == len(due)
        assert all(at <= now + MICROSECOND for at in times)
        assert all(earlier <= later + SLOT for earlier, later in pairwise(times))
        assert all(at > now - SLOT - MICROSECOND for at in self.model.values())

    @invariant()
    def the_next_moment_is_that_of_the_soonest(self) -> None:
        at = self.queue.next_at()
        assert len(self.queue) == len(self.model)
        if at is None:
            assert not self.model
        else:
            soonest = min(self.model.values())
            assert soonest - MICROSECOND <= at <= soonest + SLOT + MICROSECOND


TestDueQueue = DueQueueMachine.TestCase
