"""Push subscriptions and the key pair that they were made with, as records of the notification store.

| key                  | value                            |
|----------------------|----------------------------------|
| push#key             | the key pair                     |
| push#subscription#ID | a browser that is to be notified |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace

from longwatch.errors import AlreadyThere, JournalBusy
from longwatch.notifications.stores.base import NotificationStore, Record, RecordChange
from longwatch.notifications.web_push.subscription import MAX_SUBSCRIPTIONS, PushSubscription
from longwatch.notifications.web_push.vapid import VapidKey

KEY = "push#key"
SUBSCRIPTIONS = "push#subscription#"
MAX_ATTEMPTS = 10  # of a change that other processes were faster with


class PushStore:
    """The push subscriptions of all servers over one journal. Thread-safe."""

    def __init__(self, records: NotificationStore, *, max_subscriptions: int = MAX_SUBSCRIPTIONS) -> None:
        self._records = records
        self._max_subscriptions = max_subscriptions

    def vapid_key(self) -> VapidKey | None:
        """The stored key pair."""
        found = self._records.get(KEY)
        return VapidKey(**found.value) if found else None

    def add_vapid_key(self, fresh: VapidKey) -> VapidKey:
        """Store the key pair unless there is one, and return the stored one: two callers get the same."""
        self._records.commit([RecordChange(KEY, asdict(fresh))])
        return self.vapid_key() or fresh

    def subscriptions(self) -> Sequence[PushSubscription]:
        """All, the oldest first."""
        found = self._records.list(SUBSCRIPTIONS, limit=2 * MAX_SUBSCRIPTIONS)
        return sorted(map(_subscription, found), key=lambda each: (each.created_at, each.subscription_id))

    def get(self, subscription_id: str) -> PushSubscription | None:
        """The subscription with this id."""
        found = self._records.get(SUBSCRIPTIONS + subscription_id)
        return _subscription(found) if found else None

    def add(self, subscription: PushSubscription) -> PushSubscription:
        """Store or renew a subscription. A renewed one keeps when it was created and what was sent to it.

        Raises `AlreadyThere` if the store has the maximum number of subscriptions.
        """

        def renewed(before: PushSubscription | None) -> PushSubscription:
            if before is None:
                self._require_room()
                return subscription
            return replace(
                subscription,
                created_at=before.created_at,
                sent_at=before.sent_at,
                sent_id=before.sent_id,
                problem=before.problem,
            )

        return self._change(subscription.subscription_id, renewed) or subscription

    def note_sent(self, subscription_id: str, *, at: int, sent_id: str, problem: str = "") -> None:
        """Store the result of an attempt. A subscription that was removed stays removed."""

        def noted(before: PushSubscription | None) -> PushSubscription | None:
            return before and replace(before, sent_at=at, sent_id=sent_id, problem=problem)

        self._change(subscription_id, noted)

    def remove(self, subscription_id: str) -> bool:
        """Whether there was one."""
        was_there = False

        def removed(before: PushSubscription | None) -> None:
            nonlocal was_there
            was_there = before is not None

        self._change(subscription_id, removed)
        return was_there

    def _change(
        self,
        subscription_id: str,
        change: Callable[[PushSubscription | None], PushSubscription | None],
    ) -> PushSubscription | None:
        """Replace a subscription, again if another process has changed it meanwhile."""
        key = SUBSCRIPTIONS + subscription_id
        for _ in range(MAX_ATTEMPTS):
            found = self._records.get(key)
            after = change(_subscription(found) if found else None)
            if after is None and found is None:
                return None
            value = asdict(after) if after is not None else None
            if self._records.commit([RecordChange(key, value, found.version if found else 0)]):
                return after
        raise JournalBusy(
            f"Other processes changed the push subscription {subscription_id} at the same time."
        )

    def _require_room(self) -> None:
        most = self._max_subscriptions
        if len(self.subscriptions()) >= most:
            raise AlreadyThere(
                f"There are {most} push subscriptions, the maximum. Remove one that is not in use."
            )


def _subscription(record: Record) -> PushSubscription:
    return PushSubscription(**record.value)
