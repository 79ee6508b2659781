"""Projections: one read for all readers, retries after failures, and nothing while there is no reader."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from longwatch.errors import JournalUnavailable, JournalUnusable, LongwatchError
from longwatch.server.cache.projection import Batch, Projection
from longwatch.storage.change_signal import ChangeSignal, LocalSignal, OnChange


class Letters:
    """A store whose records are letters; a cursor is how many were written."""

    name = "letters"

    def __init__(self) -> None:
        self.written = ""
        self.reads = 0
        self.trouble: LongwatchError | None = None
        self._signal = LocalSignal()

    def write(self, letters: str) -> None:
        self.written += letters
        self._signal.notify()

    def subscribe(self, on_change: OnChange) -> ChangeSignal:
        return self._signal.subscribe(on_change)

    def start(self) -> Batch[str, int]:
        self._raise()
        return Batch({}, f"{len(self.written)}", None)

    def read(self, after: str) -> Batch[str, int]:
        self._raise()
        self.reads += 1
        found = {letter: int(after) + index for index, letter in enumerate(self.written[int(after) :], 1)}
        return Batch(found, f"{len(self.written)}", 0.0 if found else None)

    def _raise(self) -> None:
        if self.trouble is not None:
            raise self.trouble


async def call_here(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


@pytest.mark.looptime
async def test_all_readers_share_the_reads_and_one_of_a_key_gets_only_its_record() -> None:
    letters = Letters()
    projection = Projection(letters, call_here)
    everything, only_b = projection.subscribe(), projection.subscribe("b")
    assert await everything.started() == "0"

    letters.write("a")
    await asyncio.sleep(1.0)
    letters.write("bc")
    await asyncio.sleep(1.0)

    assert [(await everything.next()).records for _ in range(2)] == [{"a": 1}, {"b": 2, "c": 3}]
    assert (await only_b.next()).cursor == "3"
    assert letters.reads == 4  # each batch, and that no more follow
    assert projection.keys == {"b"}


@pytest.mark.looptime
async def test_nothing_is_read_without_readers_and_the_next_one_starts_at_the_end() -> None:
    letters = Letters()
    projection = Projection(letters, call_here, linger_seconds=30.0)
    reader = projection.subscribe()
    await reader.started()

    reader.close()
    await asyncio.sleep(29.0)
    lingers = projection.is_running
    await asyncio.sleep(2.0)
    stopped = not projection.is_running
    letters.write("a")
    started = await projection.subscribe().started()

    assert (lingers, stopped, started) == (True, True, "1")


@pytest.mark.looptime
async def test_a_store_that_is_away_is_retried_and_nothing_is_skipped() -> None:
    letters = Letters()
    letters.trouble = JournalUnavailable("away")
    projection = Projection(letters, call_here)
    reader = projection.subscribe()
    await asyncio.sleep(1.5)
    was_away = projection.is_away
    letters.trouble = None
    await reader.started()

    letters.trouble = JournalUnavailable("away")
    letters.write("a")
    await asyncio.sleep(0.5)
    letters.trouble = None
    letters.write("b")

    assert was_away
    assert (await reader.next()).records == {"a": 1, "b": 2}
    assert not projection.is_away


@pytest.mark.looptime
@pytest.mark.parametrize("keeps_trying", [False, True])
async def test_an_error_that_no_retry_cures_reaches_the_readers_unless_the_record_may_be_repaired(
    keeps_trying: bool,
) -> None:
    letters = Letters()
    projection = Projection(letters, call_here, keeps_trying=keeps_trying)
    reader = projection.subscribe()
    await reader.started()

    letters.trouble = JournalUnusable("damaged")
    letters.write("a")
    await asyncio.sleep(0.5)
    letters.trouble = None

    if keeps_trying:
        assert (await reader.next()).records == {"a": 1}
    else:
        with pytest.raises(JournalUnusable):
            await reader.next()
        assert not projection.is_running


async def test_a_source_that_cannot_be_read_at_all_fails_its_first_readers() -> None:
    letters = Letters()
    letters.trouble = JournalUnusable("damaged")
    reader = Projection(letters, call_here, keeps_trying=True).subscribe()

    with pytest.raises(JournalUnusable):
        await reader.started()
