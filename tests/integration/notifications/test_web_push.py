"""The channel `web_push` and a push service on loopback, which verifies and decrypts what it receives."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from longwatch.notifications.channels.base import ChannelContext, DeliveryError
from longwatch.notifications.channels.registry import CHANNELS
from longwatch.notifications.message import Message, Notice, compose
from longwatch.notifications.rules import Trigger, parse_rules
from longwatch.notifications.stores.factory import open_notifications
from longwatch.notifications.web_push import vapid
from longwatch.notifications.web_push.request import CLAIM_SECONDS
from longwatch.notifications.web_push.store import PushStore
from longwatch.settings import Settings
from tests.push_service import PushService, push_service

NOTICE = Notice(
    run_id="wf-1", run_name="import", trigger=Trigger.FAILED, text="Timeout", occurred_at=1_700_000_000_000
)
MESSAGE = compose("d-1", "failures", [NOTICE])
SKEW_SECONDS = 120


@pytest.fixture
def service() -> Iterator[PushService]:
    with push_service() as service:
        yield service


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(journal=f"sqlite:///{tmp_path / 'runs.db'}", notification_addresses=("127.0.0.1",))


@pytest.fixture
def store(settings: Settings) -> Iterator[PushStore]:
    with closing(open_notifications(settings)) as records:
        store = PushStore(records)
        store.add_vapid_key(vapid.generate_key())
        yield store


def subscribe(store: PushStore, service: PushService, name: str = "one") -> str:
    now = time.time_ns() // 1_000_000
    return store.add(service.subscription(name, created_at=now, renewed_at=now)).subscription_id


def send(settings: Settings, message: Message = MESSAGE, **options: object) -> str:
    kind = CHANNELS["web_push"]
    kind.check(options)
    return kind.open(options, ChannelContext(settings=settings)).send(message).status


def test_a_browser_receives_the_message(settings: Settings, store: PushStore, service: PushService) -> None:
    subscribe(store, service)

    assert send(settings, contact="mailto:ops@example.org") == "1 of 1 browsers"

    assert service.rejected == []
    [received] = service.received
    assert received.claims["aud"] == service.origin
    assert received.claims["sub"] == "mailto:ops@example.org"
    assert abs(received.claims["exp"] - time.time() - CLAIM_SECONDS) < SKEW_SECONDS
    assert received.payload["title"] == "import failed"
    assert received.payload["path"] == "/runs/wf-1"
    assert (received.headers["ttl"], received.headers["urgency"]) == ("86400", "high")
    assert received.headers["topic"] == received.payload["tag"]


def test_a_resolution_has_the_topic_of_its_condition(
    settings: Settings, store: PushStore, service: PushService
) -> None:
    subscribe(store, service)
    silent = replace(NOTICE, trigger=Trigger.SILENT)

    send(settings, compose("d-1", "failures", [silent]))
    send(settings, compose("d-2", "failures", [replace(silent, is_resolved=True)]))

    first, second = service.received
    assert first.headers["topic"] == second.headers["topic"]
    assert (first.headers["urgency"], second.headers["urgency"]) == ("normal", "normal")
    assert second.payload["is_resolved"] is True


@pytest.mark.parametrize("code", [404, 410])
def test_an_expired_subscription_is_removed(
    settings: Settings, store: PushStore, service: PushService, code: int
) -> None:
    subscribe(store, service, "gone")
    kept = subscribe(store, service, "kept")
    service.responses["/push/gone"] = (code, {}, b"")

    assert send(settings) == "1 of 1 browsers, 1 expired"
    assert [each.subscription_id for each in store.subscriptions()] == [kept]


def test_an_overloaded_push_service_is_retried_when_it_wants(
    settings: Settings, store: PushStore, service: PushService
) -> None:
    subscribe(store, service)
    service.responses["/push/one"] = (429, {"Retry-After": "30"}, b"slow down")

    with pytest.raises(DeliveryError, match=r"0 of 1 browsers: HTTP 429 \(slow down\)") as failed:
        send(settings)

    assert (failed.value.is_retryable, failed.value.retry_after_seconds) == (True, 30)


def test_a_push_service_that_is_away_is_retried_and_named_without_its_path(
    settings: Settings, store: PushStore, service: PushService
) -> None:
    now = time.time_ns() // 1_000_000
    store.add(service.keys.subscription("http://127.0.0.1:9/secret", created_at=now, renewed_at=now))

    with pytest.raises(DeliveryError, match=r"127\.0\.0\.1:9 is unreachable") as failed:
        send(settings)

    assert failed.value.is_retryable
    assert "secret" not in str(failed.value)


def test_a_redirect_is_not_followed(settings: Settings, store: PushStore, service: PushService) -> None:
    subscribe(store, service)
    service.responses["/push/one"] = (307, {"Location": f"{service.origin}/push/two"}, b"")

    with pytest.raises(DeliveryError, match="HTTP 307") as failed:
        send(settings)

    assert not failed.value.is_retryable
    assert [each.path for each in service.received] == ["/push/one"]


def test_nothing_is_sent_to_an_address_that_is_not_allowed_any_more(
    settings: Settings, store: PushStore, service: PushService
) -> None:
    subscribe(store, service)

    with pytest.raises(DeliveryError, match="not a public address") as failed:
        send(replace(settings, notification_addresses=()))

    assert not failed.value.is_retryable
    assert service.received == []


def test_a_name_that_resolves_to_this_machine_is_refused_when_it_is_connected(
    settings: Settings, store: PushStore, service: PushService
) -> None:
    port = service.origin.rpartition(":")[2]
    now = time.time_ns() // 1_000_000
    store.add(service.keys.subscription(f"https://localhost:{port}/push", created_at=now, renewed_at=now))

    with pytest.raises(DeliveryError, match=r"localhost \(.+\) are not allowed") as failed:
        send(replace(settings, notification_addresses=()))

    assert not failed.value.is_retryable
    assert (service.received, service.rejected) == ([], [])


def test_without_the_extra_the_message_names_how_to_install_it(
    settings: Settings, store: PushStore, service: PushService, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscribe(store, service)
    monkeypatch.setattr(vapid, "find_spec", lambda name: None)

    with pytest.raises(DeliveryError, match=r"needs the 'webpush' extra.*pip install '\.\[webpush\]'"):
        send(settings)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"contact": "ops@example.org"}, "contact must be a URL such as mailto:you@example.org"),
        ({"url": "https://example.org"}, "unknown key 'url'"),
    ],
)
def test_an_invalid_rule_is_rejected_with_its_key(more: dict[str, object], says: str) -> None:
    table = {"name": "x", "trigger": "failed", "channel": "web_push", **more}

    rules, mistakes = parse_rules([table], CHANNELS)

    assert rules == ()
    assert says in mistakes[0]
