"""Runs the server: its socket, uvicorn, and a shutdown that does not wait for open streams."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import gc
import signal
import socket
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from longwatch.errors import InvalidInput
from longwatch.journal.base import Prunes
from longwatch.journal.sqlite.journal import SqliteJournal
from longwatch.model.retention import RetentionRule
from longwatch.server.access.limits import ServerLimits
from longwatch.server.context import ServerContext
from longwatch.server.open_runs import OpenRuns
from longwatch.server.retention_loop import apply_retention
from longwatch.server.search_filler import SearchFiller

BACKLOG = 2_048
KEEP_ALIVE_SECONDS = 30  # clients poll every few seconds, and a new connection costs more than an open one
GRACE_SECONDS = 0.5  # for responses in progress, once streams were closed
SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
OPEN_FILES = 65_536
M_MMAP_THRESHOLD, M_ARENA_MAX = -3, -8  # of glibc's malloc.h
LARGE_BLOCK_BYTES = 128 * 1024
HEAPS = 2
COLLECT_EVERY = (20_000, 50, 1_000)  # objects, and collections of the younger generations


class HttpServer(uvicorn.Server):
    """Closes streams on a signal, since uvicorn alone would wait for them, and remembers the signal."""

    def __init__(self, config: uvicorn.Config, closing: asyncio.Event, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self.signal: int | None = None
        self._closing = closing
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.signal = self.signal or sig
        super().handle_exit(sig, frame)
        self._closing.set()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Handle signals without raising them again at the end, while stores are still open."""
        loop = asyncio.get_running_loop()
        signals = [getattr(signal, name) for name in SIGNALS if hasattr(signal, name)]
        if signal.getsignal(signals[-1]) is signal.SIG_IGN:
            signals = signals[:-1]  # under `nohup` the server outlives its terminal
        for each in signals:
            loop.add_signal_handler(each, self.handle_exit, each, None)
        try:
            yield
        finally:
            for each in signals:
                loop.remove_signal_handler(each)


def make_config(app: ASGIApp, limits: ServerLimits, trusted_proxies: Sequence[str] = ()) -> uvicorn.Config:
    """The configuration of uvicorn, whose default trusts every local process to be a proxy."""
    try:
        from longwatch.server.http_protocol import limited_protocol
    except ImportError:  # without httptools; h11 is slower and has limits of its own
        protocol = "h11"
    else:
        protocol = limited_protocol(limits)
    return uvicorn.Config(
        app,
        http=protocol,
        log_config=None,
        access_log=False,  # it would log queries, and one has a login code
        lifespan="off",
        server_header=False,
        proxy_headers=bool(trusted_proxies),
        forwarded_allow_ips=list(trusted_proxies),
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,  # type: ignore[arg-type]  # uvicorn awaits it, any number works
        h11_max_incomplete_event_size=limits.header_bytes,
        ws_max_size=limits.body_bytes,
    )


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The factory of uvloop, if it is installed."""
    return uvicorn.Config("", log_config=None).get_loop_factory()


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket at this address; `InvalidInput` says why there is none."""
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, ValueError) as error:  # ValueError: an invalid name
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidInput(
            f"Invalid host {host!r}: {reason}. Use an address or a name of this machine with --host."
        ) from error
    found = socket.socket(family, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(BACKLOG)
    except OSError as error:
        found.close()
        if error.errno == errno.EADDRINUSE:
            raise InvalidInput(
                f"Port {port} on {host} is in use, perhaps by another longwatch. Choose another with --port, "
                "or --port 0 for any free port."
            ) from error
        if error.errno == errno.EACCES:
            raise InvalidInput(
                f"Port {port} needs privileges. Choose a port from 1024 on with --port."
            ) from error
        raise InvalidInput(
            f"Cannot listen on {host} port {port}: {error.strerror}. Choose another with --host or --port."
        ) from error
    return found


def collect_less_often() -> None:
    """Run the garbage collector less often, for a process that is only a server.

    Each event creates an object for each viewer. Collecting them several times a second took a sixth of the
    time of a delivery.
    """
    gc.freeze()  # loaded modules stay
    gc.set_threshold(*COLLECT_EVERY)


def return_memory_early() -> None:
    """Make glibc return large freed blocks to the system, for a process that is only a server.

    By default glibc raises its threshold to the largest block so far, and has a heap for each thread: memory
    that is freed after a burst of large events would stay with the process.
    """
    with suppress(OSError, AttributeError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)
        mallopt(M_ARENA_MAX, HEAPS)


def allow_more_connections() -> None:
    """Raise the limit of open files as far as allowed: each viewer needs one."""
    try:
        import resource
    except ImportError:  # not on every system
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # some systems allow less than they report
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def serve(
    app: ASGIApp,
    context: ServerContext,
    bound: socket.socket,
    ready: Callable[[], None],
    *,
    trusted_proxies: Sequence[str] = (),
    fills_search_index: bool = True,
    retention: Sequence[RetentionRule] = (),
) -> int | None:
    """Serve until a signal arrives, and return it.

    Meanwhile, end open runs whose processes are gone, fill the search index, and apply retention.
    """
    config = make_config(app, context.limits, trusted_proxies)
    server = HttpServer(config, context.closing, ready)
    open_runs = OpenRuns(context.journal, context.observer, context.clock)
    background = [asyncio.create_task(open_runs.run())]
    if fills_search_index and isinstance(context.journal, SqliteJournal):
        filler = SearchFiller(context.journal, context.clock)
        background.append(asyncio.create_task(filler.run()))
    if isinstance(context.journal, Prunes):
        background.append(asyncio.create_task(apply_retention(context.journal, retention)))
    try:
        await server.serve(sockets=[bound])
    finally:
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
    return server.signal
