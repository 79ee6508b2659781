"""The DynamoDB journal on a simulated table: the same promises, with many more examples and with faults."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.journal.dynamodb.journal import DynamoJournal
from longwatch.storage.urls import TableAddress
from longwatch.testing.clock import FakeClock
from longwatch.testing.tables import FailingTable, SimulatedTable, failing_by_chance
from tests.contract.deletions import DeletionContract
from tests.contract.events import OpenAgain
from tests.contract.journal import JournalContract
from tests.contract.stories import FollowedRun, Story, stories


class SimulatedContract(JournalContract, DeletionContract):
    layout: str
    examples = 100
    opens_by_url = False

    @pytest.fixture
    def table(self) -> SimulatedTable:
        return SimulatedTable(self.layout, page_items=7)

    @pytest.fixture
    def open_again(self, clock: FakeClock, table: SimulatedTable) -> OpenAgain:
        address = TableAddress(table="simulated", layout=self.layout)
        return lambda: DynamoJournal(table, address, clock=clock, in_flight=3)

    def test_every_event_comes_exactly_once_though_puts_fail(
        self, clock: FakeClock, table: SimulatedTable
    ) -> None:
        address = TableAddress(table="simulated", layout=self.layout)

        @self.hypothesis()
        @given(story=stories(), seed=st.integers(0, 2**32))
        def check(story: Story, seed: int) -> None:
            seeds = itertools.count(seed)

            def open_failing() -> DynamoJournal:
                failing = FailingTable(table, failing_by_chance(next(seeds), share=0.2))
                return DynamoJournal(failing, address, clock=clock, in_flight=3)

            followed = FollowedRun(open_failing, clock, story)

            followed.play()

            assert sorted(followed.seen) == sorted(followed.written)

        check()


class TestWorkflowLayout(SimulatedContract):
    layout = "workflow"


class TestSessionLayout(SimulatedContract):
    layout = "session"
