"""Promises about appending: each event once, durably, however often and by whichever writer it is stored."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from longwatch.errors import EventConflict, InvalidEvent
from longwatch.journal.base import Journal
from tests.contract.basis import Contract
from tests.contract.events import OpenAgain, event, ids, new_run, read_all


class AppendContract(Contract):
    """What `Journal.append` promises."""

    def test_an_appended_event_can_be_read(self, journal: Journal, now: int) -> None:
        stored = event(
            new_run(),
            now,
            agent_name="planner",
            payload={"operation": "search"},
            call_id="call-1",
            parent_call_id="call-0",
            producer="p1",
            number=1,
            previous_digest="ab" * 16,
            trace_id="cd" * 16,
            ttl=now // 1000 + 60,
        )

        journal.append([stored])

        assert list(journal.read(stored.run_id).events) == [stored]

    def test_an_event_with_nothing_optional_can_be_read(self, journal: Journal, now: int) -> None:
        stored = event(new_run(), now)

        journal.append([stored])

        assert list(journal.read(stored.run_id).events) == [stored]

    def test_many_events_are_stored_in_one_append(self, journal: Journal, now: int) -> None:
        run = new_run()
        events = [event(run, now + index) for index in range(100)]

        journal.append(events)

        assert ids(read_all(journal, run)[0]) == ids(events)

    @pytest.mark.parametrize("existing", [0, 40, 63, 64, 130, 149])
    def test_a_large_batch_with_a_stored_event_in_it_stores_the_others_once(
        self, journal: Journal, now: int, existing: int
    ) -> None:
        run = new_run()
        events = [event(run, now + index) for index in range(150)]
        journal.append([events[existing]])

        journal.append(events)

        stored = read_all(journal, run)[0]
        assert sorted(ids(stored)) == sorted(ids(events))
        found = journal.find_run(run)
        assert found is not None
        assert found.events == len(events)

    def test_an_empty_batch_stores_nothing(self, journal: Journal) -> None:
        journal.append([])

        assert journal.find_runs().runs == []

    def test_the_same_event_again_changes_nothing(self, open_again: OpenAgain, now: int) -> None:
        stored = event(new_run(), now, payload={"a": 1, "b": [1.5, {"c"}]})
        open_again().append([stored])

        open_again().append([stored])

        assert list(open_again().read(stored.run_id).events) == [stored]

    def test_the_same_event_with_another_time_to_live_is_the_same(self, journal: Journal, now: int) -> None:
        stored = event(new_run(), now, ttl=now // 1000 + 60)
        journal.append([stored])

        journal.append([replace(stored, ttl=now // 1000 + 999)])

        assert ids(journal.read(stored.run_id).events) == [stored.event_id]

    def test_the_same_event_twice_in_one_batch_is_stored_once(self, journal: Journal, now: int) -> None:
        stored = event(new_run(), now)

        journal.append([stored, stored])

        assert list(journal.read(stored.run_id).events) == [stored]

    def test_an_id_that_names_other_content_is_a_conflict_and_the_rest_is_stored(
        self, journal: Journal, now: int
    ) -> None:
        stored = event(new_run(), now, payload={"said": "this"})
        other = replace(stored, payload={"said": "that"})
        before, after = event(stored.run_id, now - 1), event(stored.run_id, now + 1)
        journal.append([stored])

        with pytest.raises(EventConflict) as caught:
            journal.append([before, other, after])

        assert caught.value.event_ids == (stored.event_id,)
        assert list(read_all(journal, stored.run_id)[0]) == [before, stored, after]

    def test_true_instead_of_one_is_other_content(self, journal: Journal, now: int) -> None:
        stored = event(new_run(), now, payload={"flag": 1})
        journal.append([stored])

        with pytest.raises(EventConflict):
            journal.append([replace(stored, payload={"flag": True})])

    def test_a_payload_that_cannot_be_stored_is_refused(self, journal: Journal, now: int) -> None:
        run = new_run()

        with pytest.raises(InvalidEvent):
            journal.append([event(run, now, payload={"object": object()})])
        with pytest.raises(InvalidEvent):
            journal.append([event(run, now, payload={"not a number": float("nan")})])
        with pytest.raises(InvalidEvent):
            journal.append([event(run, now, payload={"half a character": "\ud800"})])

        assert list(journal.read(run).events) == []

    def test_one_batch_may_hold_events_of_several_runs(self, journal: Journal, now: int) -> None:
        one, other = new_run(), new_run()
        events = [event(one, now), event(other, now), event(one, now + 1), event(other, now + 1)]

        journal.append(events)

        assert ids(journal.read(one).events) == ids(events[0::2])
        assert ids(journal.read(other).events) == ids(events[1::2])

    def test_threads_may_append_at_the_same_time(self, journal: Journal, now: int) -> None:
        run = new_run()
        batches = [
            [event(run, now + index, producer=f"p{thread}", number=index + 1) for index in range(25)]
            for thread in range(4)
        ]
        threads = [threading.Thread(target=journal.append, args=(batch,)) for batch in batches]

        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        found, _ = read_all(journal, run)
        assert sorted(ids(found)) == sorted(each for batch in batches for each in ids(batch))
