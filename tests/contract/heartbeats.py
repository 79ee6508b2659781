"""Promises about heartbeats: the last one of each process is stored, and no reader of events sees it."""

from __future__ import annotations

from secrets import token_hex

from longwatch.journal.base import Heartbeats, Journal
from longwatch.model.run_query import RunQuery
from tests.contract.basis import Contract
from tests.contract.events import OpenAgain, event, new_run


class HeartbeatsContract(Contract):
    """What holds for the heartbeats of processes."""

    def test_the_last_heartbeat_of_each_process_is_stored(self, open_again: OpenAgain, now: int) -> None:
        journal, reader = open_again(), open_again()
        assert isinstance(journal, Heartbeats)
        assert isinstance(reader, Heartbeats)
        one, other, silent = (token_hex(8) for _ in range(3))

        journal.beat(one, now)
        journal.beat(other, now + 5)
        journal.beat(one, now + 15_000)

        assert reader.heartbeats([one, other, silent]) == {one: now + 15_000, other: now + 5}
        assert reader.heartbeats([]) == {}

    def test_a_heartbeat_is_neither_an_event_nor_a_run(self, journal: Journal, now: int) -> None:
        assert isinstance(journal, Heartbeats)
        run, process_id = new_run(), token_hex(8)
        stored = event(run, now)
        journal.append([stored])
        after = journal.read(run).cursor

        journal.beat(process_id, now)

        assert list(journal.read(run, after=after, thorough=True).events) == []
        assert list(journal.read(process_id).events) == []
        assert list(journal.find_runs(RunQuery(text=process_id)).runs) == []
