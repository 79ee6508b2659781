"""One message to all browsers: each gets it, ended ones are removed, and a retry sends the rest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from longwatch.notifications.channels.base import DeliveryError
from longwatch.notifications.stores.memory import MemoryNotificationStore
from longwatch.notifications.web_push.fan_out import TOTAL_SECONDS, fan_out
from longwatch.notifications.web_push.request import PushRequest
from longwatch.notifications.web_push.responses import PushOutcome, PushResult, parse_push_response
from longwatch.notifications.web_push.store import PushStore
from longwatch.notifications.web_push.subscription import LIFETIME_MS
from longwatch.notifications.web_push.vapid import LOCAL_CONTACT, generate_key
from longwatch.testing.clock import FakeClock
from tests.push_service import BrowserKeys, verify_vapid
from tests.unit.notifications.web_push.test_payload import message, notice

KEYS, KEY = BrowserKeys(), generate_key()
NOW_MS = 4_000_000_000_000
MESSAGE = message(notice())


class Services:
    """Push services that respond by the name at the end of the endpoint."""

    def __init__(self, **codes: int) -> None:
        self.codes = codes
        self.requests: list[PushRequest] = []

    def __call__(self, request: PushRequest) -> PushResult:
        self.requests.append(request)
        return parse_push_response(self.codes[request.url.rpartition("/")[2]], retry_after=7)

    @property
    def called(self) -> list[str]:
        return sorted(each.url.rpartition("/")[2] for each in self.requests)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOW_MS)


@pytest.fixture
def store() -> PushStore:
    store = PushStore(MemoryNotificationStore())
    store.add_vapid_key(KEY)
    return store


def subscribe(store: PushStore, *names: str) -> None:
    for name in names:
        store.add(KEYS.subscription(f"https://push.example.org/{name}", created_at=NOW_MS, renewed_at=NOW_MS))


def names(store: PushStore) -> list[str]:
    return [each.endpoint.rpartition("/")[2] for each in store.subscriptions()]


def test_every_browser_receives_the_message(store: PushStore, clock: FakeClock) -> None:
    subscribe(store, "a", "b")
    services = Services(a=201, b=201)

    receipt = fan_out(store, MESSAGE, post=services, clock=clock)

    assert receipt.status == "2 of 2 browsers"
    for request in services.requests:
        claims = verify_vapid(request.headers["Authorization"], "https://push.example.org")
        assert claims["sub"] == LOCAL_CONTACT
        assert b"import failed" in KEYS.decrypt(request.body)
    assert {(each.sent_at, each.sent_id, each.problem) for each in store.subscriptions()} == {
        (NOW_MS, "d-1", "")
    }


def test_the_contact_of_the_rule_is_signed(store: PushStore, clock: FakeClock) -> None:
    subscribe(store, "a")
    services = Services(a=201)

    fan_out(store, MESSAGE, post=services, clock=clock, contact="mailto:ops@example.org")

    claims = verify_vapid(services.requests[0].headers["Authorization"], "https://push.example.org")
    assert claims["sub"] == "mailto:ops@example.org"


@pytest.mark.parametrize("code", [404, 410])
def test_a_subscription_that_has_ended_is_removed(store: PushStore, clock: FakeClock, code: int) -> None:
    subscribe(store, "a", "b")

    receipt = fan_out(store, MESSAGE, post=Services(a=code, b=201), clock=clock)

    assert receipt.status == "1 of 1 browsers, 1 expired"
    assert names(store) == ["b"]


def test_if_all_have_ended_there_is_nobody_left_to_notify(store: PushStore, clock: FakeClock) -> None:
    subscribe(store, "a")

    receipt = fan_out(store, MESSAGE, post=Services(a=410), clock=clock)

    assert receipt.status == "no browser is subscribed, 1 expired"


def test_a_browser_whose_page_was_not_open_for_thirty_days_is_removed(
    store: PushStore, clock: FakeClock
) -> None:
    subscribe(store, "a")
    clock.advance(LIFETIME_MS / 1000)

    receipt = fan_out(store, MESSAGE, post=Services(), clock=clock)

    assert receipt.status == "no browser is subscribed"
    assert names(store) == []


def test_a_retry_reaches_only_those_that_failed(store: PushStore, clock: FakeClock) -> None:
    subscribe(store, "a", "b")
    first, second = Services(a=201, b=503), Services(a=201, b=201)

    with pytest.raises(DeliveryError, match="1 of 2 browsers: HTTP 503") as failed:
        fan_out(store, MESSAGE, post=first, clock=clock)
    receipt = fan_out(store, MESSAGE, post=second, clock=clock)

    assert (failed.value.is_retryable, failed.value.retry_after_seconds) == (True, 7)
    assert second.called == ["b"]
    assert receipt.status == "2 of 2 browsers"


def test_another_message_reaches_all(store: PushStore, clock: FakeClock) -> None:
    subscribe(store, "a")
    services = Services(a=201)

    fan_out(store, MESSAGE, post=services, clock=clock)
    fan_out(store, replace(MESSAGE, delivery_id="d-2"), post=services, clock=clock)

    assert services.called == ["a", "a"]


def test_a_refused_push_is_not_retried(store: PushStore, clock: FakeClock) -> None:
    subscribe(store, "a")

    with pytest.raises(DeliveryError, match="0 of 1 browsers: HTTP 403") as failed:
        fan_out(store, MESSAGE, post=Services(a=403), clock=clock)

    assert not failed.value.is_retryable
    assert [each.problem.partition(".")[0] for each in store.subscriptions()] == ["HTTP 403"]


def test_one_that_is_refused_does_not_hide_that_others_were_reached(
    store: PushStore, clock: FakeClock
) -> None:
    subscribe(store, "a", "b")

    receipt = fan_out(store, MESSAGE, post=Services(a=201, b=400), clock=clock)

    assert receipt.status == "1 of 2 browsers, 1 refused: HTTP 400"


def test_what_cannot_be_sent_in_time_is_left_to_a_retry(store: PushStore, clock: FakeClock) -> None:
    subscribe(store, "a", *(f"late-{number}" for number in range(40)))

    def slow(request: PushRequest) -> PushResult:
        clock.advance(TOTAL_SECONDS)
        return PushResult(PushOutcome.DELIVERED)

    with pytest.raises(DeliveryError, match="not sent within 60 s") as failed:
        fan_out(store, MESSAGE, post=slow, clock=clock)

    assert failed.value.is_retryable


def test_without_a_subscription_nothing_is_sent(clock: FakeClock) -> None:
    assert (
        fan_out(PushStore(MemoryNotificationStore()), MESSAGE, post=Services(), clock=clock).status
        == "no browser is subscribed"
    )
