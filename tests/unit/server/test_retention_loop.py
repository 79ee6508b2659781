"""The server applies the rules of retention a minute after its start and then once an hour."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from longwatch.errors import JournalBusy
from longwatch.model.retention import RetentionRule
from longwatch.server.retention_loop import FIRST_SECONDS, INTERVAL_SECONDS, apply_retention

RULES = (RetentionRule(after_ms=1),)


class Expiring:
    """A journal that is busy at first."""

    def __init__(self) -> None:
        self.calls: list[Sequence[RetentionRule]] = []

    def prune(self, before_ms: int, *, batch: int = 1000) -> int:
        return 0

    def expire(self, rules: Sequence[RetentionRule], *, batch: int = 1000) -> int:
        self.calls.append(rules)
        if len(self.calls) == 1:
            raise JournalBusy("locked")
        return 3


async def test_a_failure_is_logged_and_retried(caplog: pytest.LogCaptureFixture) -> None:
    journal, slept = Expiring(), list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await apply_retention(journal, RULES, sleep=sleep)

    assert slept == [FIRST_SECONDS, INTERVAL_SECONDS, INTERVAL_SECONDS]
    assert journal.calls == [RULES, RULES]
    assert "next try in an hour: locked" in caplog.text
