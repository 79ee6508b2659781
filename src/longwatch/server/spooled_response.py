"""Large responses go through a temporary file, so that a client that reads slowly holds no memory."""

from __future__ import annotations

import asyncio
import logging
from tempfile import TemporaryFile
from typing import IO

from starlette.types import ASGIApp, Message, Receive, Scope, Send

LARGE_BYTES = 1024 * 1024  # a whole body beyond that is spooled
PIECE_BYTES = 64 * 1024

log = logging.getLogger("longwatch.server")


class SpooledBodies:
    """Takes a large body from the application at once, and sends it when the application has returned.

    Until then the response holds the body, and so do the layers around it. Streams pass as they are.
    """

    def __init__(self, app: ASGIApp, *, large_bytes: int = LARGE_BYTES) -> None:
        self._app = app
        self._large_bytes = large_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        spooled: IO[bytes] | None = None

        async def spooling(message: Message) -> None:
            nonlocal spooled
            if len(message.get("body", b"")) > self._large_bytes and not message.get("more_body", False):
                spooled = await _written(message["body"])
            if spooled is None:
                await send(message)

        await self._app(scope, receive, spooling)
        if spooled is not None:
            with spooled:
                await _send_file(spooled, send)


async def _written(body: bytes) -> IO[bytes] | None:
    """The body in a file without a name; None if there is no room for it."""
    try:
        return await asyncio.to_thread(_write, body)
    except OSError as error:
        log.warning("A response of %d bytes stays in memory, not in a temporary file: %s", len(body), error)
        return None


def _write(body: bytes) -> IO[bytes]:
    file = TemporaryFile(prefix="longwatch-")  # noqa: SIM115 - it is closed when it was sent
    try:
        file.write(body)
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file


async def _send_file(file: IO[bytes], send: Send) -> None:
    while piece := file.read(PIECE_BYTES):  # written a moment ago: the system has it in its cache
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})
