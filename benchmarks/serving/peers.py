"""The peers, each a server of its own: `python -m benchmarks.serving.peers bare|fan_out PORT`.

`bare` is Starlette with constant responses. `fan_out` is the minimum a hand-written ASGI application does to
send one line of JSON to every viewer ten times a second.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

EVENTS_PER_SECOND = 10
BODY = b'{"status":"running","block_count":3,"last_updated":"2026-01-06T10:00:00.000Z"}'
GREETING = b"retry: 1000\n\nevent: caught_up\ndata: {}\n\n"
EVENT = {"event_id": "0" * 32, "producer": "bench", "run_id": "wf-bench", "type": "tool_call"}
FILLING = "x" * 200


async def unchanged(request: Request) -> Response:
    return Response(status_code=304, headers={"ETag": 'W/"running-3-0"'})


async def constant(request: Request) -> Response:
    return Response(BODY, media_type="application/json")


bare = Starlette(routes=[Route("/304", unchanged), Route("/200", constant)])


class FanOut:
    """Every viewer waits for the next tick, and gets what it made."""

    def __init__(self) -> None:
        self._waiters: list[asyncio.Future[bytes]] = []
        self._ticking: asyncio.Task[None] | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        loop = asyncio.get_running_loop()
        self._ticking = self._ticking or loop.create_task(self._tick())
        gone = loop.create_task(_until_gone(receive))
        await send(
            {
                "type": "http.response.start",
                "status": 200,
                "headers": [(b"content-type", b"text/event-stream")],
            }
        )
        await send({"type": "http.response.body", "body": GREETING, "more_body": True})
        while not gone.done():
            waiter: asyncio.Future[bytes] = loop.create_future()
            self._waiters.append(waiter)
            await send({"type": "http.response.body", "body": await waiter, "more_body": True})

    async def _tick(self) -> None:
        number, due = 0, time.monotonic()
        while True:
            due = max(due + 1 / EVENTS_PER_SECOND, time.monotonic())  # what was late stays late
            await asyncio.sleep(due - time.monotonic())
            number += 1
            payload = {"sent": time.time(), "text": FILLING}
            event = {
                **EVENT,
                "occurred_at": time.time_ns() // 1_000_000,
                "number": number,
                "payload": payload,
            }
            data = json.dumps({"topic": "run:wf-bench", "event": event, "late": False}, separators=(",", ":"))
            frame = f"id: {number}\nevent: event\ndata: {data}\n\n".encode()
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                waiter.set_result(frame)


async def _until_gone(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


if __name__ == "__main__":
    app: Any = bare if sys.argv[1] == "bare" else FanOut()
    uvicorn.run(app, port=int(sys.argv[2]), log_level="warning", access_log=False, lifespan="off")
