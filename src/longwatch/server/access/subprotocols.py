"""The token of a browser's WebSocket, which cannot have an `Authorization` header: one of its subprotocols.

The client offers `longwatch`, which the server selects, and `longwatch.bearer.` with the token in base64url.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from functools import partial

from starlette.types import Message, Scope, Send

PROTOCOL = "longwatch"
BEARER = "longwatch.bearer."


def offered_token(subprotocols: Iterable[str]) -> bytes | None:
    """The token that a client offers; empty if it cannot be decoded, None if there is none."""
    for name in subprotocols:
        if name.startswith(BEARER):
            return _decoded(name.removeprefix(BEARER))
    return None


def without_token(scope: Scope, send: Send) -> tuple[Scope, Send]:
    """Hide the token from the application, and select `longwatch` if it selects no subprotocol itself."""
    offered: list[str] = list(scope.get("subprotocols", ()))
    rest = [name for name in offered if name != PROTOCOL and not name.startswith(BEARER)]
    if PROTOCOL in offered:
        send = partial(_send_selected, send)
    return {**scope, "subprotocols": rest}, send


async def _send_selected(send: Send, message: Message) -> None:
    if message["type"] == "websocket.accept" and not message.get("subprotocol"):
        message = {**message, "subprotocol": PROTOCOL}
    await send(message)


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        return b""
