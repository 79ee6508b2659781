"""Encodes what a server responds to OTLP requests: success, partial success, and the `Status` of an error.

These are a few small fields, so they are written by hand and need no protobuf library.
"""

from __future__ import annotations

import json

PROTOBUF_TYPE, JSON_TYPE = "application/x-protobuf", "application/json"

# The codes of google.rpc.Status for the HTTP statuses of the server.
RPC_CODES = {
    400: 3,
    401: 16,
    403: 7,
    404: 5,
    405: 12,
    408: 4,
    413: 8,
    415: 3,
    422: 3,
    429: 8,
    500: 13,
    503: 14,
}
UNKNOWN_CODE = 2


def encode_success(media_type: str, rejected: int, message: str, *, field: str) -> bytes:
    """An export response. `field` is the JSON name of the number of rejected items."""
    if media_type == JSON_TYPE:
        partial = {field: str(rejected), "errorMessage": message}
        return json.dumps({"partialSuccess": partial} if rejected or message else {}).encode()
    if not rejected and not message:
        return b""
    return _bytes_field(1, _varint_field(1, rejected) + _bytes_field(2, message.encode(errors="replace")))


def encode_status(media_type: str, http_status: int, message: str) -> bytes:
    """The `Status` of a request that failed."""
    code = RPC_CODES.get(http_status, UNKNOWN_CODE)
    if media_type == JSON_TYPE:
        return json.dumps({"code": code, "message": message}).encode()
    return _varint_field(1, code) + _bytes_field(2, message.encode(errors="replace"))


def _varint_field(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value) if value else b""


def _bytes_field(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
