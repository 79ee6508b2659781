"""Turns keep their promises on DynamoDB's layouts, on a table in memory."""

from __future__ import annotations

import pytest

from longwatch.journal.dynamodb.journal import DynamoJournal
from longwatch.storage.urls import TableAddress
from longwatch.testing.clock import FakeClock
from longwatch.testing.tables import SimulatedTable
from tests.contract.events import OpenAgain
from tests.contract.turns import TurnsContract


class SimulatedContract(TurnsContract):
    layout: str

    @pytest.fixture
    def table(self) -> SimulatedTable:
        return SimulatedTable(self.layout, page_items=7)

    @pytest.fixture
    def open_again(self, clock: FakeClock, table: SimulatedTable) -> OpenAgain:
        address = TableAddress(table="simulated", layout=self.layout)
        return lambda: DynamoJournal(table, address, clock=clock, in_flight=3)


class TestTurnsInWorkflowLayout(SimulatedContract):
    layout = "workflow"


class TestTurnsInSessionLayout(SimulatedContract):
    layout = "session"
