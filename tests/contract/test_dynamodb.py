"""The DynamoDB journal keeps the promises, in both layouts, on two engines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from longwatch.journal.dynamodb.journal import DynamoJournal
from longwatch.testing.clock import FakeClock
from tests.contract.journal import JournalContract
from tests.contract.making import OpenAgain
from tests.contract.tables import SharedTable, new_table


class DynamoJournalContract(JournalContract):
    layout: str
    examples = 8
    shrinks = False

    @pytest.fixture
    def open_again(self, clock: FakeClock, engine_url: str) -> Iterator[OpenAgain]:
        with ExitStack() as opened:
            at = opened.enter_context(new_table(engine_url, self.layout))
            yield lambda: opened.enter_context(DynamoJournal(SharedTable(at), at, clock=clock))


class TestWorkflowLayout(DynamoJournalContract):
    layout = "workflow"


class TestSessionLayout(DynamoJournalContract):
    layout = "session"
