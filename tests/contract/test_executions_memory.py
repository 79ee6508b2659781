"""The execution store in memory keeps the promises."""

from __future__ import annotations

from typing import Any

import pytest

from longwatch.executions.stores.memory import MemoryExecutionStore
from tests.contract.execution_identity import IdentityContract
from tests.contract.executions import ChangesContract, Reads, Writes


class TestMemoryExecutionStore(ChangesContract, IdentityContract):
    @pytest.fixture
    def store(self) -> MemoryExecutionStore:
        return MemoryExecutionStore()

    @pytest.fixture
    def write(self, store: MemoryExecutionStore) -> Writes:
        return store.write

    @pytest.fixture
    def read(self, store: MemoryExecutionStore) -> Reads:
        def read(execution_id: str, plan_id: str) -> dict[str, Any]:
            found = store.get(execution_id, plan_id)
            assert found is not None
            return dict(found.stored or {})

        return read
