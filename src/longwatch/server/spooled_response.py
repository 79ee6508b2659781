"""Sends large responses from a temporary file, so that a slow client occupies no memory."""

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
    """Stores a large body in a file, and sends it after the application has returned.

    Until it returns, the response and the layers around it hold the body. Streams pass unchanged.
    """

    def __init__(self, app: ASGIApp, *, large_bytes: int = LARGE_BYTES) -> None:
        self._app = app
        self._large_bytes = large_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        spooled: IO[bytes] | None = None

        async def spool(message: Message) -> None:
            nonlocal spooled
            if len(message.get("body", b"")) > self._large_bytes and not message.get("more_body", False):
                spooled = await _write_file(message["body"])
            if spooled is None:
                await send(message)

        await self._app(scope, receive, spool)
        if spooled is not None:
            with spooled:
                await _send_file(spooled, send)


async def _write_file(body: bytes) -> IO[bytes] | None:
    """An unnamed file with the body; None if the disk has no space."""
    try:
        return await asyncio.to_thread(_write, body)
    except OSError as error:
        log.warning("A response of %d bytes stays in memory, not in a temporary file: %s", len(body), error)
        return None


def _write(body: bytes) -> IO[bytes]:
    file = TemporaryFile(prefix="longwatch-")  # noqa: SIM115 - closed after it was sent
    try:
        file.write(body)
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file


async def _send_file(file: IO[bytes], send: Send) -> None:
    while piece := file.read(PIECE_BYTES):  # in the page cache, so reading does not block
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})
