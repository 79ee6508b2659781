"""A client that stops reading costs the server at most 2 MB and one event, on every response and stream.

The server is a process of its own, and its anonymous memory is measured from outside. What the kernel buffers
for a socket is not part of that.
"""

from __future__ import annotations

import base64
import json
import os
import random
import re
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from longwatch.journal.sqlite import SqliteJournal
from longwatch.model.event import Event
from tests.integration.server.processes import ServeProcess, journal_option, serving
from tests.patience import PATIENCE_SECONDS

MB = 1_000_000
EVENT_BYTES = 300_000
MOST_BYTES = 2 * MB + EVENT_BYTES  # of one client
EVENTS = 60  # in all far more than a client may cost and the kernel buffers
TOPICS = 10
CLIENTS = 4  # of each kind
STEADY_SECONDS = 2.5  # longer than a stalled reader stays connected
FILE_BYTES = 12 * MB  # more than the kernel buffers
GZIP = "Accept-Encoding: gzip\r\n"

DOWNLOADS = ("/api/runs/big/export", "/api/runs/big/report")
PAGES = (
    "/api/runs/big/events?limit=5000",
    "/api/runs/big/events?limit=5000&wait=20",
    "/api/feed?topic=run:big&wait=20",
)
STREAMS = (
    "/api/stream?topic=run:big",
    "/api/stream?" + "&".join(f"topic=run:part-{number}" for number in range(TOPICS)),
)


def large(run_id: str, number: int) -> Event:
    """An event whose payload does not get smaller by compression."""
    text = base64.b64encode(random.Random(f"{run_id} {number}").randbytes(EVENT_BYTES * 3 // 4)).decode()
    return Event(
        run_id=run_id,
        event_id=f"{run_id}-{number:04d}",
        type="note",
        occurred_at=1_790_000_000_000 + number,
        payload={"text": text},
    )


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("memory") / "large.db"
    with SqliteJournal(path) as journal:
        for number in range(EVENTS):
            journal.append([large("big", number)])
        for part in range(TOPICS):
            journal.append([large(f"part-{part}", number) for number in range(6)])
        journal.append([large("live", 0)])
    return path


@pytest.fixture(scope="module")
def server(file: Path) -> Iterator[ServeProcess]:
    """A server whose threads, connections and caches have been used, by clients that read everything."""
    alone = {"LONGWATCH_SERVER_SEARCH_INDEX": "false"}  # its memory is not that of the clients
    with serving(*journal_option(file), **alone) as running:
        requests = [
            Request(running.url + path, headers={"Accept-Encoding": encoding})
            for path in (*DOWNLOADS, *PAGES)
            for encoding in ("identity", "gzip")
        ]
        with ThreadPoolExecutor(len(requests)) as readers:
            assert all(readers.map(read_whole, requests))
        yield running


def read_whole(request: Request) -> int:
    """How many bytes a response has."""
    with urlopen(request, timeout=PATIENCE_SECONDS) as response:
        return sum(map(len, iter(lambda: response.read(65_536), b"")))


def held(server: ServeProcess) -> int:
    """The anonymous memory of the server, once it has stopped changing."""
    until = time.monotonic() + PATIENCE_SECONDS
    last, since = 0, time.monotonic()
    while time.monotonic() < until and time.monotonic() < since + STEADY_SECONDS:
        found = re.search(r"RssAnon:\s+(\d+)", Path(f"/proc/{server.process.pid}/status").read_text())
        assert found is not None
        now = int(found[1]) * 1024
        if abs(now - last) > MB // 4:
            last, since = now, time.monotonic()
        time.sleep(0.05)  # another process changes, and nothing signals when it is done
    return last


def connected(server: ServeProcess) -> socket.socket:
    """A client with little room that will read nothing by itself."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 * 1024)
    client.connect(("127.0.0.1", server.port))
    return client


def stalled(server: ServeProcess, path: str, headers: str = "") -> socket.socket:
    client = connected(server)
    client.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}\r\n".encode())
    return client


def stalled_socket(server: ServeProcess, *topics: str) -> socket.socket:
    """A WebSocket that follows topics and reads only the handshake."""
    client = stalled(
        server,
        "/api/socket",
        "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
    )
    assert client.recv(12) == b"HTTP/1.1 101"
    for topic in topics:
        data, mask = json.dumps({"follow": topic}).encode(), os.urandom(4)
        masked = bytes(byte ^ mask[at % 4] for at, byte in enumerate(data))
        client.sendall(bytes((0x81, 0x80 | len(data))) + mask + masked)
    return client


def test_clients_that_stop_reading_cost_little_on_every_response_and_stream_at_once(
    server: ServeProcess,
) -> None:
    before = held(server)
    with ExitStack() as clients:
        count = 0
        for _ in range(CLIENTS):
            for path in (*DOWNLOADS, *PAGES, *STREAMS):
                for headers in ("", GZIP):
                    clients.enter_context(stalled(server, path, headers))
                    count += 1
            clients.enter_context(stalled_socket(server, "run:big"))
            clients.enter_context(stalled_socket(server, *(f"run:part-{part}" for part in range(TOPICS))))
            count += 2

        cost = held(server) - before

    print(f"{cost / count / MB:.2f} MB for each of {count} clients")
    assert cost / count < MOST_BYTES
    with urlopen(f"{server.url}/api/health", timeout=PATIENCE_SECONDS) as response:
        assert response.status == 200


@pytest.mark.parametrize("paths", [DOWNLOADS, PAGES, STREAMS], ids=["downloads", "pages", "streams"])
def test_clients_of_one_kind_that_stop_reading_cost_little(
    server: ServeProcess, paths: tuple[str, ...]
) -> None:
    before = held(server)
    with ExitStack() as clients:
        for path in paths * 5:
            clients.enter_context(stalled(server, path))

        cost = held(server) - before

    print(f"{cost / (len(paths) * 5) / MB:.2f} MB for each")
    assert cost / (len(paths) * 5) < MOST_BYTES


def test_clients_that_stop_reading_a_live_run_cost_little(server: ServeProcess, file: Path) -> None:
    before = held(server)
    with ExitStack() as clients, SqliteJournal(file) as journal:
        for _ in range(5):
            clients.enter_context(stalled(server, "/api/stream?topic=run:live"))
            clients.enter_context(stalled_socket(server, "run:live"))
        held(server)
        for number in range(1, EVENTS):
            journal.append([large("live", number)])

        cost = held(server) - before

    print(f"{cost / 10 / MB:.2f} MB for each")
    assert cost / 10 < MOST_BYTES


@pytest.mark.parametrize("path", ["content", "documents"])
def test_clients_that_stop_reading_a_large_file_cost_little(server: ServeProcess, path: str) -> None:
    text = base64.b64encode(random.Random(path).randbytes(FILE_BYTES * 3 // 4)).decode()
    write(server, "POST", "/api/projects", json.dumps({"id": path}).encode(), "application/json")
    write(server, "PUT", f"/api/projects/{path}/content/large.txt", text.encode(), "text/plain")
    address = f"/api/projects/{path}/{path}/large.txt"
    assert read_whole(Request(server.url + address)) >= FILE_BYTES * 9 // 10
    before = held(server)
    with ExitStack() as clients:
        for _ in range(10):
            clients.enter_context(stalled(server, address))

        cost = held(server) - before

    print(f"{cost / 10 / MB:.2f} MB for each")
    assert cost / 10 < MOST_BYTES


def write(server: ServeProcess, method: str, path: str, body: bytes, media_type: str) -> None:
    request = Request(server.url + path, data=body, method=method, headers={"Content-Type": media_type})
    with urlopen(request, timeout=PATIENCE_SECONDS) as response:
        assert response.status < 300
