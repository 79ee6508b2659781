"""Sends one message to every subscribed browser, and removes subscriptions that have ended.

A retry of the same delivery skips the browsers whose push service has accepted it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from longwatch.clock import Clock
from longwatch.errors import MissingExtra
from longwatch.notifications.channels.base import DeliveryError, DeliveryReceipt
from longwatch.notifications.message import Message
from longwatch.notifications.web_push.payload import TTL_SECONDS, payload_of, topic_of, urgency_of
from longwatch.notifications.web_push.request import PushRequest, push_request
from longwatch.notifications.web_push.responses import PushOutcome, PushResult
from longwatch.notifications.web_push.store import PushStore
from longwatch.notifications.web_push.subscription import PushSubscription, expired
from longwatch.notifications.web_push.vapid import VapidKey, contact_for

log = logging.getLogger("longwatch.notifications")

PARALLEL = 16  # requests at a time
TOTAL_SECONDS = 60.0  # after that the rest is left to a retry

Post = Callable[[PushRequest], PushResult]


@dataclass(frozen=True, slots=True)
class SentPush:
    """One browser and what became of the message for it."""

    subscription: PushSubscription
    result: PushResult


def fan_out(
    store: PushStore, message: Message, *, post: Post, clock: Clock, contact: str | None = None
) -> DeliveryReceipt:
    """Send the message to all subscriptions. Raises `DeliveryError` if a retry may reach more of them."""
    key = store.vapid_key()
    subscriptions = store.subscriptions()
    for each in expired(subscriptions, clock.now_ms()):
        store.remove(each.subscription_id)
    current = [each for each in subscriptions if each.ends_at > clock.now_ms()]
    if key is None or not current:
        return DeliveryReceipt("no browser is subscribed")
    due = [each for each in current if each.sent_id != message.delivery_id or each.problem]
    sent = _send_all(due, key, message, post=post, clock=clock, contact=contact)
    for done in sent:
        _note(store, done, message.delivery_id, clock.now_ms())
    return receipt_of(sent, len(current) - len(due))


def receipt_of(sent: Sequence[SentPush], delivered_before: int = 0) -> DeliveryReceipt:
    """The receipt of a whole fan-out. Raises `DeliveryError` if something is left, or all was refused."""
    by_outcome: dict[PushOutcome, list[PushResult]] = {outcome: [] for outcome in PushOutcome}
    for each in sent:
        by_outcome[each.result.outcome].append(each.result)
    delivered = len(by_outcome[PushOutcome.DELIVERED]) + delivered_before
    gone, later, refused = (
        by_outcome[each] for each in (PushOutcome.GONE, PushOutcome.LATER, PushOutcome.REFUSED)
    )
    total = len(sent) + delivered_before - len(gone)
    summary = f"{delivered} of {total} browsers" if total else "no browser is subscribed"
    if gone:
        summary += f", {len(gone)} expired"
    if later:
        waits = [each.retry_after_seconds for each in later if each.retry_after_seconds is not None]
        raise DeliveryError(
            f"{summary}: {later[0].problem}",
            is_retryable=True,
            retry_after_seconds=max(waits, default=None),
        )
    if refused and not delivered:
        raise DeliveryError(f"{summary}: {refused[0].problem}", is_retryable=False)
    if refused:
        summary += f", {len(refused)} refused: {refused[0].problem}"
    return DeliveryReceipt(summary)


def _send_all(
    due: Sequence[PushSubscription],
    key: VapidKey,
    message: Message,
    *,
    post: Post,
    clock: Clock,
    contact: str | None,
) -> list[SentPush]:
    payload, until = payload_of(message), clock.monotonic() + TOTAL_SECONDS

    def send(subscription: PushSubscription) -> SentPush:
        if clock.monotonic() >= until:
            late = PushResult(PushOutcome.LATER, f"not sent within {TOTAL_SECONDS:g} s")
            return SentPush(subscription, late)
        try:
            request = push_request(
                key,
                subscription,
                payload,
                contact=contact_for(subscription.page, contact),
                now_ms=clock.now_ms(),
                ttl_seconds=TTL_SECONDS,
                urgency=urgency_of(message),
                topic=topic_of(message),
            )
        except ValueError as error:
            return SentPush(subscription, PushResult(PushOutcome.REFUSED, f"cannot be encrypted: {error}"))
        return SentPush(subscription, post(request))

    try:
        with ThreadPoolExecutor(min(PARALLEL, len(due) or 1), thread_name_prefix="longwatch-push") as pool:
            return list(pool.map(send, due))
    except MissingExtra as error:
        raise DeliveryError(str(error), is_retryable=False) from error


def _note(store: PushStore, sent: SentPush, delivery_id: str, now_ms: int) -> None:
    """Store the result, or remove a subscription that has ended."""
    subscription, result = sent.subscription, sent.result
    if result.outcome is PushOutcome.GONE:
        store.remove(subscription.subscription_id)
        log.info(
            "removed the push subscription of %s: %s", subscription.browser or "a browser", result.problem
        )
        return
    store.note_sent(subscription.subscription_id, at=now_ms, sent_id=delivery_id, problem=result.problem)
