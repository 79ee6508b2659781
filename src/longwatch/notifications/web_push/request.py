"""The request that hands a message to a push service: encrypted (RFC 8291), signed (RFC 8292), with headers.

The library `webpush` encrypts and signs. Its audience lacks the port, its contact is always a mail address
and it reads the system's clock, so the claims are made here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from longwatch.notifications.web_push.subscription import PushSubscription
from longwatch.notifications.web_push.vapid import VapidKey, require_extra

if TYPE_CHECKING:
    from webpush.vapid import VAPID

Urgency = Literal["low", "normal", "high"]

CLAIM_SECONDS = 12 * 3600  # push services accept at most a day
MAX_PAYLOAD_BYTES = 3_000  # services accept 4,096 bytes with the overhead of encryption
TOPIC_CHARACTERS = 32


@dataclass(frozen=True, slots=True)
class PushRequest:
    """A POST to a push service."""

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


def push_request(
    key: VapidKey,
    subscription: PushSubscription,
    payload: bytes,
    *,
    contact: str,
    now_ms: int,
    ttl_seconds: int,
    urgency: Urgency = "normal",
    topic: str = "",
) -> PushRequest:
    """Encrypt the payload for this browser. Raises `MissingExtra` without the library, or ValueError.

    A push service replaces an undelivered message by a later one with the same topic.
    """
    require_extra()
    from webpush import WebPush
    from webpush.types import WebPushKeys, WebPushSubscription

    if len(payload) > MAX_PAYLOAD_BYTES:
        raise ValueError(f"the message has more than {MAX_PAYLOAD_BYTES} bytes")
    private, public = key.private.encode(), _public_pem(key.private)
    library = WebPush(
        private, public, subscriber=contact, ttl=ttl_seconds
    )  # not shared: it is changed by use
    claims = {
        "aud": origin_of(subscription.endpoint),
        "exp": now_ms // 1000 + CLAIM_SECONDS,
        "sub": contact,
    }
    library.vapid = _with_claims(library.vapid, claims)
    message = library.get(
        payload,
        WebPushSubscription.model_validate(
            {
                "endpoint": subscription.endpoint,
                "keys": WebPushKeys(auth=subscription.auth, p256dh=subscription.p256dh),
            }
        ),
    )
    headers = {
        "TTL": message.headers["ttl"],
        "Urgency": urgency,
        "Content-Encoding": message.headers["content-encoding"],
        "Content-Type": "application/octet-stream",
        "Authorization": message.headers["authorization"],
    }
    if topic:
        headers["Topic"] = topic[:TOPIC_CHARACTERS]
    return PushRequest(subscription.endpoint, headers, message.encrypted)


def origin_of(url: str) -> str:
    """The origin of a URL; the default port is left out."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if parts.hostname and ":" in parts.hostname else parts.hostname
    default = 443 if parts.scheme == "https" else 80
    port = "" if parts.port in (None, default) else f":{parts.port}"
    return f"{parts.scheme}://{host}{port}"


def _with_claims(vapid: VAPID, claims: Mapping[str, object]) -> VAPID:
    """The library's signer with these claims instead of its own."""
    import jwt

    token = jwt.encode(dict(claims), key=vapid.private_key, algorithm="ES256")
    header = f"vapid t={token}, k={vapid.get_application_server_key(vapid.public_key)}"
    vapid.get_authorization_header = lambda *_, **__: header
    return vapid


def _public_pem(private: str) -> bytes:
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        PublicFormat,
        load_pem_private_key,
    )

    public = load_pem_private_key(private.encode(), None).public_key()
    return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
