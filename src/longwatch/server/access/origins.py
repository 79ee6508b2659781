"""Allowed hosts and origins, and CORS headers: protection against DNS rebinding and pages of other sites.

A page of another site can make a browser call this machine, with a host name that resolves to it. It cannot
choose the Host header or omit the Origin. A Host that is an IP address cannot be such a name, so it is safe
wherever the server listens.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit

from starlette.types import Message, Send

from longwatch.errors import InvalidInput

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})


@dataclass(frozen=True, slots=True)
class Hosts:
    """The allowed host names, in lower case and without a port, and the allowed origins."""

    names: frozenset[str] = LOOPBACK_NAMES
    origins: frozenset[str] = frozenset()
    any_address: bool = False  # also any IP address, for a server that listens on all interfaces

    @classmethod
    def of(
        cls, host: str, *, allow_hosts: tuple[str, ...] = (), allow_origins: tuple[str, ...] = ()
    ) -> Hosts:
        """The hosts of a server that listens on this host, and further allowed ones."""
        names = {_bracketed(name.lower()) for name in (host, *allow_hosts) if name}
        origins = {parse_origin(origin) for origin in allow_origins}
        return cls(LOOPBACK_NAMES | names, frozenset(origins), any_address=not is_loopback(host))

    def serves(self, host: str) -> bool:
        """Whether a Host header is allowed."""
        if host in self.names:
            return True
        name = name_of(host)
        return name in self.names or (self.any_address and _is_ip_address(name))

    def admits(self, origin: str, host: str) -> bool:
        """Whether a page of this origin may call: the server's own origin, or an allowed one."""
        if origin in self.origins:
            return True
        try:
            parts = urlsplit(origin)
            own = urlsplit(f"{parts.scheme}://{host}")
            same = (parts.hostname, _port(parts.port, parts.scheme)) == (
                own.hostname,
                _port(own.port, parts.scheme),
            )
        except ValueError:
            return False
        return same and parts.scheme in ("http", "https") and bool(parts.hostname)


def parse_origin(origin: str) -> str:
    """The origin as browsers write it."""
    try:
        parts = urlsplit(origin)
        _ = parts.port  # raises if it is invalid
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/"):
        raise InvalidInput(f"Invalid origin {origin!r}. Use a form like https://example.org:8443.")
    return f"{parts.scheme}://{parts.netloc.lower()}"


def parse_proxy(text: str) -> str:
    """The IP address or network of a proxy."""
    try:
        return str(ip_network(text, strict=False) if "/" in text else ip_address(text))
    except ValueError as error:
        raise InvalidInput(
            f"Invalid proxy address {text!r}. Use an IP address such as 127.0.0.1, or a network such as "
            "10.0.0.0/8."
        ) from error


def name_of(host: str) -> str:
    """A Host header without its port."""
    host = host.strip().lower()
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0].removesuffix(".")


def is_loopback(host: str) -> bool:
    """Whether a server on this host is reachable from this machine only."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _is_ip_address(name: str) -> bool:
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _bracketed(name: str) -> str:
    return f"[{name}]" if ":" in name and not name.startswith("[") else name


def _port(port: int | None, scheme: str) -> int:
    return port if port is not None else (443 if scheme == "https" else 80)


CORS_METHODS = b"GET, HEAD, POST, PUT, DELETE"
CORS_HEADERS = (
    b"Authorization, Content-Type, If-None-Match, Idempotency-Key, Last-Event-ID, Longwatch-Position"
)
CORS_EXPOSED = b"ETag, Longwatch-Position, Longwatch-Stale, Longwatch-Version, Retry-After"
CORS_SECONDS = b"600"
SECURITY_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


def add_common_headers(send: Send, origin: str | None) -> Send:
    """A `send` that adds the headers of every response, and CORS headers for an allowed origin."""
    extra = list(SECURITY_HEADERS)
    if origin is not None:
        extra = [
            (b"x-content-type-options", b"nosniff"),
            (b"referrer-policy", b"no-referrer"),
            (b"cross-origin-resource-policy", b"cross-origin"),
            (b"access-control-allow-origin", origin.encode("latin-1")),
            (b"access-control-expose-headers", CORS_EXPOSED),
            (b"vary", b"Origin"),
        ]

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", ()))
            names = {name for name, _ in headers}
            headers += [pair for pair in extra if pair[0] == b"vary" or pair[0] not in names]
            message = {**message, "headers": headers}
        await send(message)

    # Only the start of a response changes. A stream bypasses this afterwards, which makes deliveries cheaper.
    send_with_headers.bare = send  # type: ignore[attr-defined]
    return send_with_headers


async def preflight(send: Send, origin: str) -> None:
    """Respond to a CORS preflight request of this origin."""
    headers = [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-allow-methods", CORS_METHODS),
        (b"access-control-allow-headers", CORS_HEADERS),
        (b"access-control-max-age", CORS_SECONDS),
        (b"vary", b"Origin"),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
