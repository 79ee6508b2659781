"""What every notification store promises."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from longwatch.notifications.stores.base import MAX_CHANGES, NotificationStore, RecordChange

OpenStore = Callable[[], NotificationStore]


class NotificationStoreContract:
    @pytest.fixture
    def store(self, open_store: OpenStore) -> NotificationStore:
        return open_store()

    def test_a_record_is_read_as_it_was_stored(self, store: NotificationStore) -> None:
        value = {"text": "naïve – ✓", "number": 3, "list": [1, None, True], "map": {"a": "b"}}

        assert store.commit([RecordChange("queue#1", value)])

        record = store.get("queue#1")
        assert record is not None
        assert (record.key, record.value, record.version) == ("queue#1", value, 1)

    def test_an_unknown_record_is_none(self, store: NotificationStore) -> None:
        assert store.get("queue#1") is None
        assert store.list("queue#", limit=10) == []

    def test_a_record_that_another_process_stored_first_is_not_replaced(self, open_store: OpenStore) -> None:
        one, other = open_store(), open_store()

        assert one.commit([RecordChange("rule#a", {"by": "one"})])
        assert not other.commit([RecordChange("rule#a", {"by": "other"})])

        record = other.get("rule#a")
        assert record is not None
        assert record.value == {"by": "one"}

    def test_a_change_needs_the_version_that_was_read(self, store: NotificationStore) -> None:
        store.commit([RecordChange("rule#a", {"n": 1})])

        assert store.commit([RecordChange("rule#a", {"n": 2}, 1)])
        assert not store.commit([RecordChange("rule#a", {"n": 3}, 1)])
        assert not store.commit([RecordChange("rule#b", {"n": 3}, 1)])
        assert not store.commit([RecordChange("rule#a", None, 1)])

        assert store.get("rule#a") == store.list("rule#", limit=10)[0]
        assert store.list("rule#", limit=10)[0].value == {"n": 2}

    def test_all_changes_are_stored_or_none(self, store: NotificationStore) -> None:
        store.commit([RecordChange("queue#1", {"n": 1})])

        refused = store.commit([RecordChange("rule#a", {"n": 1}), RecordChange("queue#1", None, 7)])
        stored = store.commit([RecordChange("rule#a", {"n": 2}), RecordChange("queue#1", None, 1)])

        assert not refused
        assert stored
        assert store.get("queue#1") is None
        assert [each.value for each in store.list("rule#", limit=10)] == [{"n": 2}]

    def test_a_deleted_record_can_be_stored_again(self, store: NotificationStore) -> None:
        store.commit([RecordChange("queue#1", {"n": 1})])
        store.commit([RecordChange("queue#1", None, 1)])

        assert store.commit([RecordChange("queue#1", {"n": 2})])

    def test_as_many_changes_as_promised_are_one_commit(self, store: NotificationStore) -> None:
        changes = [RecordChange(f"seen#{number:03d}", {"n": number}) for number in range(MAX_CHANGES)]

        assert store.commit(changes)

        assert len(store.list("seen#", limit=1_000)) == MAX_CHANGES

    def test_records_are_listed_by_prefix_in_the_order_of_their_keys(self, store: NotificationStore) -> None:
        for key in ("sent#2", "sent#1", "sent#3", "sentinel", "dead#1"):
            store.commit([RecordChange(key, {})])

        assert [each.key for each in store.list("sent#", limit=2)] == ["sent#1", "sent#2"]
        assert [each.key for each in store.list("sent#", limit=9, after="sent#1")] == ["sent#2", "sent#3"]
        assert [each.key for each in store.list("sent#", limit=2, newest=True)] == ["sent#3", "sent#2"]

    def test_of_several_writers_one_wins_each_time(self, open_store: OpenStore) -> None:
        stores = [open_store() for _ in range(3)]
        stores[0].commit([RecordChange("rule#a", {"n": 0})])
        won: list[int] = []

        def count(store: NotificationStore) -> None:
            for _ in range(5):
                record = store.get("rule#a")
                assert record is not None
                if store.commit([RecordChange("rule#a", {"n": record.value["n"] + 1}, record.version)]):
                    won.append(1)

        threads = [threading.Thread(target=count, args=(each,)) for each in stores]
        for each in threads:
            each.start()
        for each in threads:
            each.join()

        record = stores[0].get("rule#a")
        assert record is not None
        assert record.value["n"] == len(won)
