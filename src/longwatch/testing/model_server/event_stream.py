"""The event stream of AWS (`application/vnd.amazon.eventstream`): binary messages with checksums."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping

STRING_HEADER = 7
CHECKSUM_BYTES = 4
PRELUDE_BYTES = 12  # total length, length of the headers, checksum of both


def encode_event(kind: str, payload: Mapping[str, object]) -> bytes:
    """One event with a JSON payload."""
    headers = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    encoded = b"".join(_header(name, value) for name, value in headers.items())
    body = json.dumps(payload).encode()
    total = PRELUDE_BYTES + len(encoded) + len(body) + CHECKSUM_BYTES
    lengths = struct.pack(">II", total, len(encoded))
    message = lengths + _checksum(lengths) + encoded + body
    return message + _checksum(message)


def _header(name: str, value: str) -> bytes:
    text = value.encode()
    return struct.pack(">B", len(name)) + name.encode() + struct.pack(">BH", STRING_HEADER, len(text)) + text


def _checksum(data: bytes) -> bytes:
    return struct.pack(">I", zlib.crc32(data))
