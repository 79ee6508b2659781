"""A manager for each test, closed at its end."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from longwatch.polling import PollingManager


@pytest_asyncio.fixture
async def manager() -> AsyncIterator[PollingManager]:
    async with PollingManager() as manager:
        yield manager
