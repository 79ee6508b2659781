"""Large bodies go through a file: the client gets the same bytes, and the application is done at once."""

from __future__ import annotations

import asyncio

import pytest
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from longwatch.server import spooled_response
from longwatch.server.spooled_response import SpooledBodies
from tests.patience import PATIENCE_SECONDS

SCOPE: Scope = {"type": "http", "method": "GET", "path": "/", "headers": []}


async def receive() -> Message:
    """The client stays connected, and sends nothing."""
    return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]


async def sent_by(app: ASGIApp, *, large_bytes: int = 1_000) -> list[Message]:
    messages: list[Message] = []

    async def send(message: Message) -> None:
        messages.append(dict(message))

    await SpooledBodies(app, large_bytes=large_bytes)(SCOPE, receive, send)
    return messages


def body_of(messages: list[Message]) -> bytes:
    return b"".join(message.get("body", b"") for message in messages)


@pytest.mark.parametrize("size", [0, 1, 1_000, 1_001, 64 * 1024, 300_000])
async def test_a_client_gets_the_body_as_it_is_whatever_its_size(size: int) -> None:
    body = bytes(number % 251 for number in range(size))

    messages = await sent_by(Response(body))

    assert body_of(messages) == body
    assert [message.get("more_body", False) for message in messages[1:]][-1] is False
    assert (b"content-length", str(size).encode()) in messages[0]["headers"]


async def test_the_application_is_done_before_a_slow_client_has_read_anything() -> None:
    done, may_read = asyncio.Event(), asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await Response(b"x" * 100_000)(scope, receive, send)
        done.set()

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            await may_read.wait()

    sending = asyncio.create_task(SpooledBodies(app, large_bytes=1_000)(SCOPE, receive, send))
    async with asyncio.timeout(PATIENCE_SECONDS):
        await done.wait()
    may_read.set()
    await sending


async def test_a_stream_passes_piece_by_piece() -> None:
    pieces = [b"x" * 5_000, b"y" * 5_000]

    async def stream() -> object:
        for piece in pieces:
            yield piece

    messages = await sent_by(StreamingResponse(stream()))  # type: ignore[arg-type]

    assert [message["body"] for message in messages[1:] if message["body"]] == pieces


async def test_a_body_that_finds_no_room_on_the_disk_is_sent_from_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(**_: object) -> object:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(spooled_response, "TemporaryFile", full)

    assert body_of(await sent_by(Response(b"x" * 5_000))) == b"x" * 5_000
