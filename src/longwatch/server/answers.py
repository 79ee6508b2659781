"""Answers of the API as bytes: JSON written once, tags and caching rules always the same."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

JSON_TYPE = "application/json"
LINES_TYPE = "application/x-ndjson"
REVALIDATE = "private, no-cache"  # may be kept, must be asked for again
POSITION = "Longwatch-Position"  # the header of what a write stored, and of a read that has to include it
STALE = "Longwatch-Stale"  # the header of an answer that is the last that was known, and why

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def to_json(value: object) -> bytes:
    """The value as JSON. A lone surrogate, which a foreign producer may have written, is told as it is."""
    text = _encode(value)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def json_answer(
    value: object, *, status: int = 200, tag: str | None = None, headers: Mapping[str, str] | None = None
) -> Response:
    """A JSON answer, with its tag if it has one."""
    return bytes_answer(to_json(value), JSON_TYPE, status=status, tag=tag, headers=headers)


def bytes_answer(
    body: bytes,
    media_type: str,
    *,
    status: int = 200,
    tag: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """An answer that is written already."""
    all_headers: dict[str, Any] = {"Cache-Control": REVALIDATE, **(headers or {})}
    if tag is not None:
        all_headers["ETag"] = tag
    return Response(body, status, all_headers, media_type=media_type)


def not_modified(tag: str, headers: Mapping[str, str] | None = None) -> Response:
    """What the caller has is still true."""
    return Response(status_code=304, headers={"Cache-Control": REVALIDATE, "ETag": tag, **(headers or {})})
