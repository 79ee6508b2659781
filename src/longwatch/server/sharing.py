"""What every answer carries, and what lets pages of another origin read it (CORS), where that is allowed."""

from __future__ import annotations

from starlette.types import Message, Send

CORS_METHODS = b"GET, HEAD, POST, PUT, DELETE"
CORS_HEADERS = (
    b"Authorization, Content-Type, If-None-Match, Idempotency-Key, Last-Event-ID, Longwatch-Position"
)
CORS_EXPOSED = b"ETag, Longwatch-Position, Longwatch-Stale, Longwatch-Version, Retry-After"
CORS_SECONDS = b"600"
EVERY_ANSWER = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


def sharing(send: Send, origin: str | None) -> Send:
    """Add what every answer carries, and what lets a page of another origin read it."""
    extra = list(EVERY_ANSWER)
    if origin is not None:
        extra = [
            (b"x-content-type-options", b"nosniff"),
            (b"referrer-policy", b"no-referrer"),
            (b"cross-origin-resource-policy", b"cross-origin"),
            (b"access-control-allow-origin", origin.encode("latin-1")),
            (b"access-control-expose-headers", CORS_EXPOSED),
            (b"vary", b"Origin"),
        ]

    async def adding(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", ()))
            names = {name for name, _ in headers}
            headers += [pair for pair in extra if pair[0] == b"vary" or pair[0] not in names]
            message = {**message, "headers": headers}
        await send(message)

    # Only the start of an answer is changed: a stream sends the rest past this, and each delivery costs less.
    adding.bare = send  # type: ignore[attr-defined]
    return adding


async def preflight(send: Send, origin: str) -> None:
    """Tell a browser what a page of this origin may call."""
    headers = [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-allow-methods", CORS_METHODS),
        (b"access-control-allow-headers", CORS_HEADERS),
        (b"access-control-max-age", CORS_SECONDS),
        (b"vary", b"Origin"),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
