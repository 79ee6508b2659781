"""The document store in a SQLite file keeps the promises, also in the file of a journal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from longwatch.documents.stores.sqlite import SqliteDocumentStore
from longwatch.testing.clock import FakeClock
from tests.contract.documents import DocumentsContract
from tests.contract.documents_basis import OpenStore


class TestSqliteDocumentStore(DocumentsContract):
    @pytest.fixture
    def open_store(self, clock: FakeClock, tmp_path: Path) -> Iterator[OpenStore]:
        with ExitStack() as opened:
            yield lambda: opened.enter_context(SqliteDocumentStore(tmp_path / "contract.db", clock=clock))
