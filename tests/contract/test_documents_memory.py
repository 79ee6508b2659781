"""The document store in memory keeps the promises."""

from __future__ import annotations

import pytest

from longwatch.documents.stores.memory import MemoryDocumentStore
from longwatch.testing.clock import FakeClock
from tests.contract.documents import DocumentsContract
from tests.contract.documents_basis import OpenStore


class TestMemoryDocumentStore(DocumentsContract):
    opens_by_url = False

    @pytest.fixture
    def open_store(self, clock: FakeClock) -> OpenStore:
        store = MemoryDocumentStore(clock=clock)
        return lambda: store
