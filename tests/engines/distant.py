"""A loopback proxy that makes an engine distant: every response arrives some time later."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from tests.patience import PATIENCE_SECONDS

CHUNK_BYTES = 65_536


@contextmanager
def distant(url: str, *, seconds: float) -> Iterator[str]:
    """The address of a proxy in front of `url` that delays each response by `seconds`."""
    loop = asyncio.new_event_loop()
    ready: asyncio.Future[int] = loop.create_future()
    stop = asyncio.Event()
    serving = loop.create_task(_serve(url, seconds, ready, stop))
    thread = threading.Thread(target=loop.run_until_complete, args=(serving,), daemon=True)
    thread.start()
    port = asyncio.run_coroutine_threadsafe(_result(ready), loop).result(PATIENCE_SECONDS)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


async def _result(ready: asyncio.Future[int]) -> int:
    return await ready


async def _serve(url: str, seconds: float, ready: asyncio.Future[int], stop: asyncio.Event) -> None:
    engine = urlsplit(url)
    connections: set[asyncio.Task[None]] = set()

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(engine.hostname, engine.port)
        async with asyncio.TaskGroup() as both:
            both.create_task(_copy(reader, back, 0.0))
            both.create_task(_copy(there, writer, seconds))

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(connect(reader, writer))
        connections.add(task)
        task.add_done_callback(connections.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    ready.set_result(server.sockets[0].getsockname()[1])
    await stop.wait()
    server.close()
    for task in list(connections):
        task.cancel()
    await asyncio.gather(*connections, return_exceptions=True)


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter, seconds: float) -> None:
    try:
        while data := await source.read(CHUNK_BYTES):
            await asyncio.sleep(seconds)
            target.write(data)
            await target.drain()
    except ConnectionError:
        pass
    finally:
        target.close()
