"""Turns keep their promises in a DynamoDB table, on two engines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from longwatch.journal.dynamodb.journal import DynamoJournal
from longwatch.testing.clock import FakeClock
from tests.contract.events import OpenAgain
from tests.contract.tables import SharedTable, new_table
from tests.contract.turns import TurnsContract


class TestTurnsInDynamoDb(TurnsContract):
    @pytest.fixture
    def open_again(self, clock: FakeClock, engine_url: str) -> Iterator[OpenAgain]:
        with ExitStack() as opened:
            at = opened.enter_context(new_table(engine_url, "workflow"))
            yield lambda: opened.enter_context(DynamoJournal(SharedTable(at), at, clock=clock))
