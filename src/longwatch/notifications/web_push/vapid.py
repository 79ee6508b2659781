"""The key pair with which this installation identifies itself to push services (VAPID, RFC 8292).

It is generated on first use and stored beside the subscriptions: a browser accepts only messages of the key
that it subscribed with, so all servers and senders need the same one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.util import find_spec
from urllib.parse import urlsplit

from longwatch.errors import InvalidInput, MissingExtra

EXTRA = "webpush"
LOCAL_CONTACT = "mailto:longwatch@localhost"


@dataclass(frozen=True, slots=True)
class VapidKey:
    """A key pair on P-256."""

    private: str = field(repr=False)  # PEM
    public: str  # base64url of the uncompressed point, as browsers expect it


def is_installed() -> bool:
    """Whether the extra is installed."""
    return find_spec("webpush") is not None


def require_extra() -> None:
    """Raise `MissingExtra` if the extra is not installed."""
    if not is_installed():
        raise MissingExtra("Web Push", EXTRA)


def generate_key() -> VapidKey:
    """A new key pair."""
    require_extra()
    from webpush.vapid import VAPID

    private, _, public = VAPID.generate_keys()
    return VapidKey(private.decode(), public)


def parse_contact(value: object) -> str:
    """The option `contact` of a rule: `mailto:` or `https:`. Raises ValueError."""
    text = value if isinstance(value, str) else ""
    parts = urlsplit(text)
    is_mail = parts.scheme == "mailto" and "@" in parts.path.strip("@")
    if not (is_mail or (parts.scheme == "https" and parts.hostname)) or not text.isprintable() or " " in text:
        raise ValueError(f"contact must be a URL such as mailto:you@example.org, not {value!r}")
    return text


def contact_for(page: str, configured: str | None) -> str:
    """Whom a push service can contact about misuse: the rule's, else the page of the subscription.

    Apple's service rejects contacts on localhost, so a rule needs one for a page on localhost.
    """
    if configured:
        return configured
    return page if page.startswith("https://") else LOCAL_CONTACT


def check_point(p256dh: bytes) -> None:
    """Raise `InvalidInput` unless this is a point on the curve."""
    from cryptography.hazmat.primitives.asymmetric import ec

    try:
        ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), p256dh)
    except ValueError as error:
        raise InvalidInput("Invalid p256dh key. Send what PushSubscription.toJSON() returns.") from error
