"""The document store on DynamoDB keeps the promises, on two engines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from longwatch.clock import SYSTEM_CLOCK
from longwatch.documents.stores.dynamodb import DynamoDocumentStore
from longwatch.testing.clock import FakeClock
from tests.contract.documents import DocumentsContract
from tests.contract.documents_basis import OpenStore
from tests.contract.documents_tables import SharedDocumentTable, new_document_table


class WaitingClock(FakeClock):
    """Virtual time for what is stored; who has lost a race really waits, as the other one really works."""

    def sleep(self, seconds: float) -> None:
        SYSTEM_CLOCK.sleep(seconds)


class TestDynamoDocumentStore(DocumentsContract):
    examples = 6
    shrinks = False

    @pytest.fixture
    def clock(self) -> FakeClock:
        return WaitingClock()

    @pytest.fixture
    def open_store(self, clock: FakeClock, engine_url: str) -> Iterator[OpenStore]:
        with ExitStack() as opened:
            at = opened.enter_context(new_document_table(engine_url))
            yield lambda: opened.enter_context(DynamoDocumentStore(SharedDocumentTable(at), clock=clock))
