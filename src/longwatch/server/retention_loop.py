"""Applies the rules of retention in the background, and finishes interrupted deletions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from longwatch.errors import LongwatchError
from longwatch.journal.base import Prunes
from longwatch.model.retention import RetentionRule
from longwatch.server.search_filler import Sleep

FIRST_SECONDS = 60.0  # after the start, when clients connect
INTERVAL_SECONDS = 3600.0

log = logging.getLogger("longwatch.server")


async def apply_retention(
    journal: Prunes, rules: Sequence[RetentionRule], *, sleep: Sleep = asyncio.sleep
) -> None:
    """Apply the rules once an hour, forever."""
    delay = FIRST_SECONDS
    while True:
        await sleep(delay)
        delay = INTERVAL_SECONDS
        try:
            removed = await asyncio.to_thread(journal.expire, rules)
        except LongwatchError as error:
            log.warning("the rules of retention cannot be applied, next try in an hour: %s", error)
        else:
            if removed:
                log.info("the rules of retention removed %d events", removed)
