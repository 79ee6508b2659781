"""Part of the contract: a deleted run is gone for every reader and writer, and leaves a tombstone."""

from __future__ import annotations

from contextlib import suppress

import pytest

from longwatch.errors import InvalidInput, RunDeleted, RunNotFound, RunStillOpen
from longwatch.journal.base import Arrivals, Journal, ReadsLast
from longwatch.journal.deletions import DeletesRuns, Tombstone
from longwatch.model.event import RUN_DELETED
from longwatch.testing.clock import FakeClock
from tests.contract.basis import Contract
from tests.contract.events import OpenAgain, event, ids, new_run, read_all, run_ids

REJECTED_WITHIN_SECONDS = 60  # a writer that reads nothing learns of a deletion within this time


def store_ended(journal: Journal, now: int, *, steps: int = 3) -> str:
    run_id = new_run()
    journal.append([event(run_id, now, "workflow_start")])
    journal.append([event(run_id, now + 1 + step) for step in range(steps)])
    journal.append([event(run_id, now + 1 + steps, "workflow_complete")])
    return run_id


def delete(journal: Journal, run_id: str, *, force: bool = False) -> Tombstone:
    assert isinstance(journal, DeletesRuns)
    return journal.delete_run(run_id, by="ann@host", force=force)


class DeletionContract(Contract):
    """Deleting runs."""

    def test_a_deleted_run_is_gone_and_others_stay(self, journal: Journal, now: int) -> None:
        gone, kept = store_ended(journal, now), store_ended(journal, now)

        delete(journal, gone)

        assert journal.find_run(gone) is None
        assert run_ids(journal.find_runs().runs) == [kept]
        assert len(read_all(journal, kept)[0]) == 5
        with pytest.raises(RunDeleted, match=f"{gone}' was deleted at .* by ann@host"):
            journal.read(gone)

    def test_the_tombstone_describes_exactly_what_was_removed(
        self, journal: Journal, open_again: OpenAgain, now: int
    ) -> None:
        run_id = store_ended(journal, now)
        events, _ = read_all(journal, run_id)

        stone = delete(journal, run_id)

        assert (stone.events, stone.by, stone.deleted_at) == (5, "ann@host", now)
        assert stone.digest == Tombstone(run_id="", deleted_at=0, by="").with_removed(events).digest
        again = open_again()
        assert isinstance(again, DeletesRuns)
        assert again.tombstone(run_id) == stone

    def test_other_runs_have_no_tombstone(self, journal: Journal, now: int) -> None:
        assert isinstance(journal, DeletesRuns)
        assert journal.tombstone(store_ended(journal, now)) is None
        assert journal.tombstone("wf-unknown") is None

    def test_a_reader_in_the_middle_of_a_run_learns_that_it_was_deleted(
        self, journal: Journal, now: int
    ) -> None:
        run_id = store_ended(journal, now)
        page = journal.read(run_id, limit=2)

        delete(journal, run_id)

        with pytest.raises(RunDeleted):
            journal.read(run_id, after=page.cursor, limit=2)

    def test_a_run_cannot_be_deleted_twice(self, journal: Journal, now: int) -> None:
        run_id = store_ended(journal, now)
        delete(journal, run_id)

        with pytest.raises(RunDeleted):
            delete(journal, run_id)

    def test_an_unknown_run_cannot_be_deleted(self, journal: Journal) -> None:
        with pytest.raises(RunNotFound):
            delete(journal, "wf-unknown")

    def test_an_open_run_is_only_deleted_by_force(self, journal: Journal, now: int) -> None:
        run_id = new_run()
        journal.append([event(run_id, now, "workflow_start")])

        with pytest.raises(RunStillOpen, match="by force"):
            delete(journal, run_id)
        assert journal.find_run(run_id) is not None

        assert delete(journal, run_id, force=True).events == 1
        assert journal.find_run(run_id) is None

    @pytest.mark.parametrize("type_", ["project_created", "conversation_created"])
    def test_a_run_that_lists_others_is_not_deleted(self, journal: Journal, now: int, type_: str) -> None:
        run_id = new_run()
        journal.append([event(run_id, now, type_, payload={"name": "x"})])

        with pytest.raises(InvalidInput, match="one by one"):
            delete(journal, run_id, force=True)

    def test_a_late_append_is_rejected_and_events_of_other_runs_are_stored(
        self, journal: Journal, now: int
    ) -> None:
        gone, other = store_ended(journal, now), new_run()
        delete(journal, gone)
        late, kept = event(gone, now + 50), event(other, now + 51)

        with pytest.raises(RunDeleted) as caught:
            journal.append([late, kept, event(gone, now + 52)])

        assert caught.value.run_ids == {gone}
        assert ids(read_all(journal, other)[0]) == [kept.event_id]
        with pytest.raises(RunDeleted):
            journal.read(gone)
        assert journal.find_run(gone) is None

    def test_a_writer_that_recorded_the_run_before_is_rejected_too(
        self, journal: Journal, open_again: OpenAgain, clock: FakeClock, now: int
    ) -> None:
        run_id = new_run()
        journal.append([event(run_id, now, "workflow_start")])
        journal.append([event(run_id, now + 1)])
        other = open_again()

        delete(other, run_id, force=True)
        clock.advance(REJECTED_WITHIN_SECONDS)

        with pytest.raises(RunDeleted):
            journal.append([event(run_id, now + 2)])
        with pytest.raises(RunDeleted):
            journal.append([event(run_id, now + 3)])

    def test_the_events_of_a_writer_that_does_not_know_of_the_deletion_stay_hidden(
        self, journal: Journal, open_again: OpenAgain, now: int
    ) -> None:
        run_id = new_run()
        journal.append([event(run_id, now, "workflow_start")])
        journal.append([event(run_id, now + 1)])
        other = open_again()
        delete(other, run_id, force=True)

        for late in (event(run_id, now + 2), event(run_id, now + 3, "workflow_complete")):
            with suppress(RunDeleted):
                journal.append([late])

        for reader in (journal, other, open_again()):
            assert reader.find_run(run_id) is None
            assert reader.find_runs().runs == []
            with pytest.raises(RunDeleted):
                reader.read(run_id)
            assert isinstance(reader, ReadsLast)
            with pytest.raises(RunDeleted):
                reader.read_last(run_id, 5)


class DeletionArrivalsContract(Contract):
    """Deleting runs in a journal with an order of arrival."""

    def test_readers_of_arrivals_see_the_deletion_and_none_of_the_events(
        self, journal: Journal, now: int
    ) -> None:
        assert isinstance(journal, Arrivals)
        gone, kept = store_ended(journal, now), store_ended(journal, now)

        delete(journal, gone)

        found = journal.arrivals(0, limit=100)
        positions = [position for position, _ in found]
        assert positions == sorted(set(positions))
        assert [each.type for _, each in found if each.run_id == gone] == [RUN_DELETED]
        assert sum(each.run_id == kept for _, each in found) == 5
        assert journal.last_arrival() == positions[-1]
        assert journal.arrivals(positions[-2], limit=10) == [found[-1]]
