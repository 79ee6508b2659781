"""Push subscriptions: validation, ids, and when they end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from longwatch.errors import InvalidInput
from longwatch.notifications.web_push.subscription import (
    LIFETIME_MS,
    PushSubscription,
    expired,
    revoked,
)
from tests.contract.push import AUTH, P256DH, subscription


def serves(host: str) -> bool:
    return host == "longwatch.example.org"


@pytest.mark.parametrize(
    "endpoint",
    [
        "",
        "push.example.org/x",
        "ftp://push.example.org/x",
        "https:///x",
        "https://push.example.org:port/x",
        "https://push.example.org/a b",
        "https://push.example.org/a\nb",
        "https://pu\u00dfh.example.org/x",
        "https://user:secret@push.example.org/x",
        "https://push.example.org/x#fragment",
        "https://push.example.org/" + "x" * 2_000,
    ],
)
def test_an_invalid_endpoint_is_rejected(endpoint: str) -> None:
    with pytest.raises(InvalidInput, match="endpoint"):
        replace(subscription(), endpoint=endpoint)


@pytest.mark.parametrize(
    ("p256dh", "auth", "name"),
    [
        ("", AUTH, "p256dh"),
        (P256DH[:-4], AUTH, "p256dh"),
        ("AA" + P256DH[2:], AUTH, "p256dh"),  # not an uncompressed point
        ("?" * 87, AUTH, "p256dh"),
        (P256DH, "", "auth"),
        (P256DH, AUTH + "AAAA", "auth"),
        (P256DH, "++++" + AUTH[4:], "auth"),
        (P256DH, "é" + AUTH, "auth"),
    ],
)
def test_an_invalid_key_is_rejected(p256dh: str, auth: str, name: str) -> None:
    with pytest.raises(InvalidInput, match=f"Invalid {name} key"):
        replace(subscription(), p256dh=p256dh, auth=auth)


def test_its_id_and_its_text_do_not_reveal_the_endpoint() -> None:
    found = subscription("secret-path")

    assert found.service == "push.example.org"
    assert "secret-path" not in found.subscription_id + repr(found)
    assert P256DH not in repr(found)


def test_it_ends_when_its_page_was_not_open_for_thirty_days() -> None:
    old, fresh = subscription("old"), subscription("fresh", renewed_at=1_001)

    assert expired([old, fresh], 1_000 + LIFETIME_MS - 1) == []
    assert expired([old, fresh], 1_000 + LIFETIME_MS) == [old]


@pytest.mark.parametrize(
    ("given", "grants", "is_revoked"),
    [
        (subscription(grant="current"), {"current", "other"}, False),
        (subscription(grant="old"), {"current"}, True),
        (subscription(grant=""), {"current"}, True),  # from the time before the server had tokens
        (subscription(grant="old"), set(), False),  # the server needs no token
        (subscription(grant="old", page="https://else.example.org"), {"current"}, False),
    ],
)
def test_a_subscription_of_a_token_that_the_server_does_not_have_any_more_is_revoked(
    given: PushSubscription, grants: set[str], is_revoked: bool
) -> None:
    assert revoked([given], grants, serves) == ([given] if is_revoked else [])
