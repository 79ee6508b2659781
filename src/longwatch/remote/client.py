"""An asyncio client of a longwatch server with a cache: an unchanged response costs a 304."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

from longwatch.errors import MissingExtra, RequestRefused, Throttled, Unreachable

if TYPE_CHECKING:
    import httpx2

TIMEOUT_SECONDS = 10.0
MAX_CACHED = 256  # responses
RETRYABLE = frozenset({408, 425})  # statuses


@dataclass(frozen=True, slots=True)
class CachedResponse:
    """A cached response. An unchanged response has the same value object as before."""

    etag: str | None
    value: Any


class ServerClient:
    """Calls one server, for any number of polls. Close it, or use it in `async with`."""

    def __init__(
        self, base_url: str, *, token: str | None = None, http: httpx2.AsyncClient | None = None
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self._owns_http = http is None
        self._http = http if http is not None else _new_http()
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._cached: OrderedDict[str, CachedResponse] = OrderedDict()

    async def get_json(self, path: str, parameters: Mapping[str, str] | None = None) -> Any:
        """GET JSON; the same object as last time while it is unchanged."""
        key = f"{path}?{sorted((parameters or {}).items())}"
        cached = self._cached.get(key)
        headers = {"If-None-Match": cached.etag} if cached is not None and cached.etag else {}
        response = await self._request("GET", path, parameters=parameters, headers=headers)
        if response.status_code != 304 or cached is None:
            cached = CachedResponse(response.headers.get("etag"), response.json())
        self._keep(key, cached)
        return cached.value

    async def get_turn(self, path: str) -> Any:
        """GET a turn; of one that has changed, the server sends its status and new blocks only."""
        cached = self._cached.get(path)
        has, headers = cached.value if cached is not None else {}, {}
        if cached is not None and cached.etag:
            headers["If-None-Match"] = cached.etag
        cursor = has.get("blocks_cursor")
        parameters = {"blocks_after": cursor} if cursor else None
        response = await self._request("GET", path, parameters=parameters, headers=headers)
        if response.status_code != 304 or cached is None:
            turn = merge_turn(has, response.json())
            cached = CachedResponse(response.headers.get("etag"), turn)
        self._keep(path, cached)
        return cached.value

    async def get_bytes(self, path: str, parameters: Mapping[str, str]) -> tuple[bytes, int] | None:
        """The bytes of a document and their version; None if the caller's version is the newest."""
        response = await self._request("GET", path, parameters=parameters)
        if response.status_code == 304:
            return None
        return response.content, int(response.headers["longwatch-version"])

    async def post_bytes(self, path: str, body: bytes) -> Any:
        """POST bytes; returns the JSON response."""
        headers = {"Content-Type": "application/octet-stream"}
        return (await self._request("POST", path, headers=headers, body=body)).json()

    def _keep(self, key: str, response: CachedResponse) -> None:
        self._cached[key] = response
        self._cached.move_to_end(key)
        while len(self._cached) > MAX_CACHED:
            self._cached.popitem(last=False)

    async def _request(
        self,
        method: str,
        path: str,
        *,
        parameters: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> httpx2.Response:
        import httpx2

        url = f"{self.base_url}{path}"
        try:
            response = await self._http.request(
                method, url, params=parameters, headers={**self._headers, **(headers or {})}, content=body
            )
        except httpx2.HTTPError as error:
            reason = str(error) or type(error).__name__
            raise Unreachable(f"No response from {url}: {reason}. Is the server running?") from error
        if response.status_code < 400:
            return response
        raise error_of(method, url, response.status_code, response.reason_phrase, response.content)

    async def aclose(self) -> None:
        """Close the HTTP client, unless the caller provided it."""
        if self._owns_http:
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def merge_turn(before: Mapping[str, Any], response: Mapping[str, Any]) -> Mapping[str, Any]:
    """The whole turn, from what is known of it and a response to `blocks_after`."""
    if "blocks_from" not in response:
        return response
    update = dict(response)
    kept = before["blocks"][: update.pop("blocks_from")]
    return {"prompt": before["prompt"], **update, "blocks": [*kept, *response["blocks"]]}


def turn_path(project_id: str, session_id: str, turn_id: str) -> str:
    return f"{project_path(project_id)}/sessions/{_quote(session_id)}/turns/{_quote(turn_id)}"


def project_path(project_id: str) -> str:
    return f"/api/projects/{_quote(project_id)}"


def document_path(project_id: str, path: str) -> str:
    return f"{project_path(project_id)}/documents/{quote(path)}"


def _quote(text: str) -> str:
    return quote(text, safe="")


def error_of(method: str, url: str, status: int, reason: str, body: bytes) -> Exception:
    """The exception for an error response, also from a proxy with other bodies."""
    try:
        error = json.loads(body)["error"]
        code, message = str(error["code"]), str(error["message"])
    except (ValueError, KeyError, TypeError):
        code, message = "http_error", f"the response was {status} {reason}"
    if status == 429:
        return Throttled(f"{method} {url}: {message}")
    if status >= 500 or status in RETRYABLE:
        return Unreachable(f"{method} {url}: {message}")
    return RequestRefused(status, code, message)


def _new_http() -> httpx2.AsyncClient:
    try:
        import httpx2
    except ImportError as error:
        raise MissingExtra("Polling a longwatch server", "server") from error
    return httpx2.AsyncClient(timeout=TIMEOUT_SECONDS)
