"""Push subscriptions: browsers that receive notifications, each at an address of its push service.

A subscription belongs to the token that created it (`grant`) and to the page where it was created. It ends 30
days after that page was last open, so a browser that lost its access receives nothing for ever.
"""

from __future__ import annotations

import binascii
import hashlib
from base64 import urlsafe_b64decode
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

from longwatch.errors import InvalidInput

LIFETIME_MS = 30 * 24 * 3600 * 1000
MAX_SUBSCRIPTIONS = 500  # of one store; each notification is sent to all of them
MAX_ENDPOINT_CHARACTERS = 2_000
MAX_BROWSER_CHARACTERS = 100
KEY_BYTES, SECRET_BYTES = 65, 16  # an uncompressed point of P-256, and the authentication secret
UNCOMPRESSED = 4  # the first byte of such a point


@dataclass(frozen=True, slots=True, kw_only=True)
class PushSubscription:
    """One browser that receives notifications. Raises `InvalidInput` if it cannot be one."""

    endpoint: str = field(repr=False)  # a secret: its knowledge suffices to send to the browser
    p256dh: str = field(repr=False)  # the browser's public key
    auth: str = field(repr=False)  # the secret that it shares with its senders
    page: str  # origin of the page, such as https://longwatch.example.org
    created_at: int
    renewed_at: int  # when its page was last open
    grant: str = ""  # fingerprint of the token that allowed it; empty: none was needed
    browser: str = ""  # such as `Firefox on Linux`
    sent_at: int | None = None  # the last attempt
    sent_id: str = ""  # the delivery of that attempt
    problem: str = ""  # why it failed; empty: it did not

    def __post_init__(self) -> None:
        address_of(self.endpoint)
        if _bytes_of(self.p256dh, KEY_BYTES, "p256dh")[0] != UNCOMPRESSED:
            raise InvalidInput("Invalid p256dh key. Send what PushSubscription.toJSON() returns.")
        _bytes_of(self.auth, SECRET_BYTES, "auth")

    @property
    def subscription_id(self) -> str:
        """An id that does not reveal the endpoint."""
        return hashlib.sha256(self.endpoint.encode()).hexdigest()[:32]

    @property
    def service(self) -> str:
        """The host of the push service."""
        return address_of(self.endpoint).hostname or ""

    @property
    def ends_at(self) -> int:
        return self.renewed_at + LIFETIME_MS


def address_of(endpoint: str) -> SplitResult:
    """The parts of a push service's URL. Raises `InvalidInput`; whether it may be called is decided later."""
    try:
        parts = urlsplit(endpoint)
        _ = parts.port  # raises if it is invalid
    except ValueError:
        parts = urlsplit("")
    is_plain = endpoint.isascii() and endpoint.isprintable() and " " not in endpoint
    if parts.scheme not in ("https", "http") or not parts.hostname or not is_plain:
        raise InvalidInput("Invalid endpoint. Use the https URL of a push service.")
    if len(endpoint) > MAX_ENDPOINT_CHARACTERS:
        raise InvalidInput(f"The endpoint is longer than {MAX_ENDPOINT_CHARACTERS:,} characters.")
    if parts.username or parts.password or parts.fragment:
        raise InvalidInput("Invalid endpoint: it has a password or a fragment.")
    return parts


def decode_key(text: str) -> bytes:
    """The bytes of base64url without padding. Raises ValueError."""
    if set(text) & set("+/"):
        raise ValueError("not base64url")
    return urlsafe_b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4))


def expired(subscriptions: Iterable[PushSubscription], now_ms: int) -> list[PushSubscription]:
    """Those whose page was not open for too long."""
    return [each for each in subscriptions if each.ends_at <= now_ms]


def revoked(
    subscriptions: Iterable[PushSubscription], grants: Collection[str], serves: Callable[[str], bool]
) -> list[PushSubscription]:
    """Those that a page of this server created with a token that the server does not have any more.

    `grants` is empty if the server needs no token. Subscriptions of pages of other servers, which may share
    the store, have other tokens.
    """
    if not grants:
        return []
    return [each for each in subscriptions if each.grant not in grants and serves(urlsplit(each.page).netloc)]


def _bytes_of(text: str, length: int, name: str) -> bytes:
    try:
        found = decode_key(text)
    except (ValueError, binascii.Error):
        found = b""
    if len(found) != length:
        raise InvalidInput(f"Invalid {name} key. Send what PushSubscription.toJSON() returns.")
    return found
