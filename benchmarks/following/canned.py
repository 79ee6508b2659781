"""An HTTP server that returns the same response to every DynamoDB query, at almost no cost."""

from __future__ import annotations

import asyncio
import json
import re
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from benchmarks.following.followers import FIRST_MS
from benchmarks.following.subject import Commands

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_END = b"\r\n\r\n"


@asynccontextmanager
async def server(items: int) -> AsyncIterator[Commands]:
    """Return this many events of one run to every query. Reports its port and counts requests."""
    body, requests = response(items), count()

    class Connection(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self._transport: Any = transport
            self._received = b""

        def data_received(self, data: bytes) -> None:
            self._received += data
            while (head := self._received.find(_END)) >= 0:
                length = _LENGTH.search(self._received, 0, head)
                whole = head + len(_END) + (int(length[1]) if length else 0)
                if len(self._received) < whole:
                    return
                self._received = self._received[whole:]
                next(requests)
                self._transport.write(body)

    listening = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    yield {"port": lambda: port, "requests": lambda: next(requests)}
    listening.close()


def response(items: int) -> bytes:
    """A complete HTTP response, with the checksum that the client verifies."""
    body = json.dumps(
        {"Items": [item(number) for number in range(1, items + 1)], "Count": items, "ScannedCount": items}
    ).encode()
    head = (
        "HTTP/1.1 200 OK\r\nContent-Type: application/x-amz-json-1.0\r\n"
        f"Content-Length: {len(body)}\r\nx-amz-crc32: {zlib.crc32(body)}\r\nx-amzn-RequestId: BENCH\r\n\r\n"
    )
    return head.encode() + body


def item(number: int) -> dict[str, dict[str, Any]]:
    """An event in the layout `workflow`."""
    return {
        "workflow_id": {"S": "wf-00000000"},
        "timestamp": {"N": str(FIRST_MS + number)},
        "event_type": {"S": "tool_call"},
        "event_id": {"S": f"{number:032x}"},
        "longwatch": {"N": "1"},
        "agent_name": {"S": "agent"},
        "producer": {"S": "bench"},
        "number": {"N": str(number)},
        "payload": {"M": {"operation": {"S": "search"}, "status": {"S": "done"}, "output": {"S": "x" * 400}}},
    }
