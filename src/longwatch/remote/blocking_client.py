"""A blocking client of a longwatch server, with the standard library only.

An executor of turns runs where the agent runs, and needs no extra there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from typing import Any
from urllib.parse import urlencode, urlsplit

from longwatch.errors import InvalidInput, Unreachable
from longwatch.remote.client import error_of
from longwatch.storage.http import HttpClient

TIMEOUT_SECONDS = 15.0
MAX_RESPONSE_BYTES = 64 * 1024 * 1024
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class ServerResponse:
    """A response of the server. A 304 has no value."""

    status: int
    etag: str | None
    value: Any


class BlockingClient:
    """Calls one server. Safe for several threads."""

    def __init__(
        self, base_url: str, *, token: str | None = None, timeout_seconds: float = TIMEOUT_SECONDS
    ) -> None:
        self.base_url = validate_server_url(base_url)
        self.token = token
        self._headers = {"Accept": "application/json"}
        if token is not None:
            if not token.isascii() or not token.isprintable() or " " in token:
                raise InvalidInput("Invalid characters in the token. Copy the whole token again.")
            self._headers["Authorization"] = f"Bearer {token}"
        self._timeout = timeout_seconds
        # Redirects are not followed, because the token is for this server; loopback needs no proxy.
        self._http = HttpClient(use_proxies=urlsplit(self.base_url).hostname not in LOOPBACK)

    def get(
        self,
        path: str,
        query: Mapping[str, object] | None = None,
        *,
        etag: str | None = None,
        longer_seconds: float = 0.0,
    ) -> ServerResponse:
        """GET a path; with an ETag, 304 if it is unchanged. `longer_seconds`: the time of a long poll."""
        headers = {} if etag is None else {"If-None-Match": etag}
        return self._call("GET", path, query, headers, None, self._timeout + longer_seconds)

    def post(self, path: str, value: Mapping[str, object]) -> Any:
        """POST JSON, and return the response."""
        headers = {"Content-Type": "application/json"}
        body = json.dumps(value, ensure_ascii=False).encode(errors="replace")
        return self._call("POST", path, None, headers, body, self._timeout).value

    def post_lines(self, path: str, query: Mapping[str, object], body: bytes) -> Any:
        """POST lines of JSON, and return the response."""
        headers = {"Content-Type": "application/x-ndjson"}
        return self._call("POST", path, query, headers, body, self._timeout).value

    def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, object] | None,
        headers: Mapping[str, str],
        body: bytes | None,
        timeout: float,
    ) -> ServerResponse:
        url = f"{self.base_url}{path}"
        request_url = f"{url}?{urlencode(query)}" if query else url
        sent = {**self._headers, **headers}
        try:
            with self._http.send(
                method, request_url, headers=sent, body=body, timeout_seconds=timeout
            ) as response:
                if response.status == 304:
                    return ServerResponse(304, response.headers.get("ETag"), None)
                if not 200 <= response.status < 300:
                    raise error_of(method, url, response.status, response.reason, _read_error(response))
                content = response.read(MAX_RESPONSE_BYTES)
                return ServerResponse(response.status, response.headers.get("ETag"), json.loads(content))
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or str(error) or type(error).__name__
            raise Unreachable(f"No response from {url}: {reason}. Is the server running?") from error


def validate_server_url(text: str) -> str:
    """The URL of a server without a trailing slash, or `InvalidInput`."""
    try:
        parts = urlsplit(text)
        has_host = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        is_valid = has_host and not parts.query and not parts.fragment and "@" not in parts.netloc
    except ValueError:
        is_valid = False
    if not is_valid:
        raise InvalidInput(f"Invalid server URL {text!r}. Use http://HOST:8321, without a token or a query.")
    return text.rstrip("/")


def _read_error(response: HTTPResponse) -> bytes:
    try:
        return response.read(MAX_RESPONSE_BYTES)
    except (OSError, HTTPException):  # the status decides
        return b""
