"""Requests to push services: a browser decrypts the body, and the signature is verified."""

from __future__ import annotations

import pytest
from cryptography.exceptions import InvalidTag

from longwatch.notifications.web_push.request import (
    CLAIM_SECONDS,
    MAX_PAYLOAD_BYTES,
    PushRequest,
    origin_of,
    push_request,
)
from longwatch.notifications.web_push.vapid import VapidKey, generate_key
from tests.push_service import BrowserKeys, verify_vapid

NOW_MS = 4_000_000_000_000  # the claims must not have ended when they are verified
KEY = generate_key()


def request(keys: BrowserKeys, payload: bytes = b"{}", *, key: VapidKey = KEY, port: str = "") -> PushRequest:
    return push_request(
        key,
        keys.subscription(f"https://push.example.org{port}/x?y=1"),
        payload,
        contact="mailto:ops@example.org",
        now_ms=NOW_MS,
        ttl_seconds=60,
        urgency="high",
        topic="a" * 40,
    )


@pytest.mark.parametrize("size", [0, 1, 100, MAX_PAYLOAD_BYTES])
def test_only_the_browser_can_read_the_body(size: int) -> None:
    keys, payload = BrowserKeys(), b"p" * size

    found = request(keys, payload)

    assert keys.decrypt(found.body) == payload
    assert len(found.body) <= 4_096
    with pytest.raises(InvalidTag):
        BrowserKeys().decrypt(found.body)


@pytest.mark.parametrize("port", ["", ":8443"])
def test_it_is_signed_for_the_push_service(port: str) -> None:
    found = request(BrowserKeys(), port=port)

    claims = verify_vapid(
        found.headers["Authorization"], f"https://push.example.org{port}", public_key=KEY.public
    )
    assert claims == {
        "aud": f"https://push.example.org{port}",
        "exp": NOW_MS // 1000 + CLAIM_SECONDS,
        "sub": "mailto:ops@example.org",
    }


def test_its_headers_say_how_long_and_how_urgently_it_is_kept() -> None:
    found = request(BrowserKeys())

    assert {name: found.headers[name] for name in ("TTL", "Urgency", "Topic", "Content-Encoding")} == {
        "TTL": "60",
        "Urgency": "high",
        "Topic": "a" * 32,
        "Content-Encoding": "aes128gcm",
    }
    assert "push.example.org" not in repr(found)


def test_a_message_that_is_too_long_is_rejected() -> None:
    with pytest.raises(ValueError, match="more than 3000 bytes"):
        request(BrowserKeys(), b"x" * (MAX_PAYLOAD_BYTES + 1))


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://push.example.org/x", "https://push.example.org"),
        ("https://push.example.org:443/x", "https://push.example.org"),
        ("https://Push.Example.org:8443/x", "https://push.example.org:8443"),
        ("http://127.0.0.1:80/x", "http://127.0.0.1"),
        ("http://[::1]:8080/x", "http://[::1]:8080"),
    ],
)
def test_an_origin_has_a_port_only_if_it_is_not_the_default(url: str, origin: str) -> None:
    assert origin_of(url) == origin
