"""The status of a turn in plain ASGI, in front of the framework: the most frequent request costs least.

The response comes from the run cache. The ETag decides on a 304 before a body is rendered.
"""

from __future__ import annotations

from urllib.parse import parse_qs

from starlette.types import ASGIApp, Receive, Scope, Send

from longwatch.errors import LongwatchError
from longwatch.server.api.long_polling import deadline, find_cached_turn, stale_headers, wait_for_change
from longwatch.server.api.parameters import MAX_WAIT_SECONDS
from longwatch.server.cache.rendered_responses import NOTHING, TURN, AsgiResponse, RenderedTurn
from longwatch.server.context import ServerContext
from longwatch.server.errors import ApiError, api_error
from longwatch.server.responses import POSITION, matches

PREFIX = "/api/projects/"
SUFFIX = "/status"
POSITION_NAME = POSITION.lower().encode()
ALLOW = {"Allow": "GET, HEAD"}


class FastStatus:
    """Serves `…/turns/{t}/status` and passes everything else on."""

    def __init__(self, app: ASGIApp, context: ServerContext) -> None:
        self._app = app
        self._context = context

    def find_cached(self, scope: Scope) -> AsgiResponse | None:
        """The response if the turn is cached, which it is after the first request."""
        ids = _parts(scope["path"])
        if ids is None or scope["query_string"] or scope["method"] != "GET":
            return None
        project, session, turn = ids
        if _header(scope, POSITION_NAME) is not None:
            return None  # the journal has to be read
        watched = self._context.run_cache.peek(TURN, turn)
        if watched is None or not watched.state.belongs_to(project, session):
            return None
        if self._context.hub.trouble(turn) is not None:
            return None  # the response has to say so
        return _select(watched.state, _header(scope, b"if-none-match"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        ids = _parts(scope["path"]) if scope["type"] == "http" else None
        if ids is None:
            await self._app(scope, receive, send)
            return
        try:
            if scope["method"] not in ("GET", "HEAD"):
                raise ApiError(
                    405, "method_not_allowed", "The status of a turn supports only GET.", headers=ALLOW
                )
            start, body = await self._respond(scope, *ids)
            await send(start)
            await send(body if scope["method"] == "GET" else NOTHING)
        except LongwatchError as error:
            await api_error(error).send(send)
        except ApiError as error:
            await error.send(send)

    async def _respond(self, scope: Scope, project: str, session: str, turn: str) -> AsgiResponse:
        query: bytes = scope["query_string"]
        wait = wait_of(query) if query else 0
        etag = _header(scope, b"if-none-match")
        position = (_header(scope, POSITION_NAME) or b"").decode("latin-1")
        watched = await find_cached_turn(self._context, project, session, turn, position)
        if wait and etag is not None:
            has = etag.decode("latin-1")
            until = deadline(self._context, wait)
            await wait_for_change(self._context, watched, lambda turn: not matches(has, turn.tag), until)
        start, body = _select(watched.state, etag)
        stale = stale_headers(self._context, turn)
        if stale:
            more = [(name.lower().encode(), value.encode()) for name, value in stale.items()]
            start = {**start, "headers": [*start["headers"], *more]}
        return start, body


def _parts(path: str) -> tuple[str, str, str] | None:
    """The ids of project, session and turn, if this is the path of a status."""
    if not (path.endswith(SUFFIX) and path.startswith(PREFIX)):
        return None
    parts = path.split("/")
    if len(parts) != 9 or parts[4] != "sessions" or parts[6] != "turns":
        return None
    return parts[3], parts[5], parts[7]


def _header(scope: Scope, name: bytes) -> bytes | None:
    """The value of a request header."""
    for each, value in scope["headers"]:
        if each == name:
            found: bytes = value
            return found
    return None


def _select(turn: RenderedTurn, etag: bytes | None) -> AsgiResponse:
    if etag is not None and (etag == turn.raw_tag or matches(etag.decode("latin-1"), turn.tag)):
        return turn.unchanged
    return turn.status


def wait_of(query: bytes) -> int:
    """The seconds of a long poll."""
    given = parse_qs(query.decode("latin-1"), keep_blank_values=True).get("wait")
    if given is None:
        return 0
    text = given[-1]
    if text.isascii() and text.isdigit() and len(text) <= 4 and int(text) <= MAX_WAIT_SECONDS:
        return int(text)
    reason = f"must be a whole number of seconds from 0 to {MAX_WAIT_SECONDS}"
    raise ApiError(
        422, "invalid_request", "Invalid request: wait. The details say why.", details=[("wait", reason)]
    )
