"""What the store of push subscriptions promises over each notification store, as tests."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from longwatch.errors import AlreadyThere
from longwatch.notifications.stores.base import NotificationStore
from longwatch.notifications.web_push.store import PushStore
from longwatch.notifications.web_push.subscription import PushSubscription
from longwatch.notifications.web_push.vapid import VapidKey

OpenNotifications = Callable[[], NotificationStore]
OpenPushStore = Callable[[], PushStore]
P256DH = "BNcRdreALRFXTkOOUHK1EtK2wtaz5Ry4YfYCA_0QTpQtUbVlUls0VJXg7A8u-Ts1XbjhazAkj7I99e8QcYP7DkM"
AUTH = "tBHItJI5svbpez7KI4CCXg"


def subscription(name: str = "one", **fields: Any) -> PushSubscription:
    given = {"page": "https://longwatch.example.org", "created_at": 1_000, "renewed_at": 1_000, **fields}
    return PushSubscription(endpoint=f"https://push.example.org/{name}", p256dh=P256DH, auth=AUTH, **given)


class PushContract:
    """The promises of `longwatch.notifications.web_push.store.PushStore`."""

    @pytest.fixture
    def open_records(self) -> OpenNotifications:
        raise NotImplementedError

    @pytest.fixture
    def open_store(self, open_records: OpenNotifications) -> OpenPushStore:
        return lambda: PushStore(open_records())

    @pytest.fixture
    def store(self, open_store: OpenPushStore) -> PushStore:
        return open_store()

    def test_an_empty_store_has_neither_a_key_nor_subscriptions(self, store: PushStore) -> None:
        assert store.vapid_key() is None
        assert list(store.subscriptions()) == []
        assert store.get("unknown") is None

    def test_the_first_key_is_stored_for_every_server(self, open_store: OpenPushStore) -> None:
        first, second = open_store(), open_store()

        stored = first.add_vapid_key(VapidKey("private 1", "public 1"))

        assert stored == VapidKey("private 1", "public 1")
        assert second.add_vapid_key(VapidKey("private 2", "public 2")) == stored
        assert second.vapid_key() == stored

    def test_servers_that_start_at_once_get_the_same_key(self, open_store: OpenPushStore) -> None:
        stores = [open_store() for _ in range(4)]

        def add(number: int) -> VapidKey:
            return stores[number].add_vapid_key(VapidKey(f"private {number}", f"public {number}"))

        with ThreadPoolExecutor(4) as pool:
            keys = set(pool.map(add, range(4)))

        assert keys == {stores[0].vapid_key()}

    def test_an_added_subscription_can_be_read(self, open_store: OpenPushStore) -> None:
        given = subscription(
            grant="abc", browser="Firefox on Linux", problem="HTTP 500", sent_at=5, sent_id="d"
        )

        assert open_store().add(given) == given
        assert open_store().get(given.subscription_id) == given
        assert list(open_store().subscriptions()) == [given]

    def test_subscriptions_are_listed_the_oldest_first(self, store: PushStore) -> None:
        for name, at in (("b", 30), ("a", 10), ("c", 20)):
            store.add(subscription(name, created_at=at))

        assert [each.created_at for each in store.subscriptions()] == [10, 20, 30]

    def test_a_renewed_subscription_keeps_when_it_was_created_and_what_was_sent(
        self, store: PushStore
    ) -> None:
        first = store.add(subscription(created_at=1_000, renewed_at=1_000))
        store.note_sent(first.subscription_id, at=1_500, sent_id="d-1", problem="HTTP 500")

        again = store.add(subscription(created_at=2_000, renewed_at=2_000, grant="new"))

        assert again == replace(
            first, renewed_at=2_000, grant="new", sent_at=1_500, sent_id="d-1", problem="HTTP 500"
        )
        assert list(store.subscriptions()) == [again]

    def test_the_result_of_an_attempt_replaces_the_one_before(self, store: PushStore) -> None:
        stored = store.add(subscription())

        store.note_sent(stored.subscription_id, at=2_000, sent_id="d-1", problem="HTTP 500")
        store.note_sent(stored.subscription_id, at=3_000, sent_id="d-2")

        assert store.get(stored.subscription_id) == replace(stored, sent_at=3_000, sent_id="d-2")

    def test_a_removed_subscription_stays_removed(self, store: PushStore) -> None:
        stored, other = store.add(subscription()), store.add(subscription("other"))

        assert store.remove(stored.subscription_id)
        store.note_sent(stored.subscription_id, at=2_000, sent_id="d-1")

        assert not store.remove(stored.subscription_id)
        assert list(store.subscriptions()) == [other]

    def test_a_full_store_accepts_only_renewals(self, open_records: OpenNotifications) -> None:
        store = PushStore(open_records(), max_subscriptions=2)
        store.add(subscription("a"))
        store.add(subscription("b"))

        store.add(subscription("a", renewed_at=2_000))
        with pytest.raises(AlreadyThere, match="maximum"):
            store.add(subscription("c"))

        assert len(store.subscriptions()) == 2

    def test_results_of_several_notifiers_at_once_are_all_stored(self, open_store: OpenPushStore) -> None:
        stores, stored = [open_store() for _ in range(4)], [subscription(str(number)) for number in range(8)]
        for each in stored:
            stores[0].add(each)

        def note(number: int) -> None:
            for each in stored:
                stores[number].note_sent(each.subscription_id, at=number, sent_id=f"d-{number}")

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(note, range(4)))

        assert all(each.sent_id == f"d-{each.sent_at}" for each in stores[0].subscriptions())
