"""The status of a turn in plain ASGI, ahead of the framework: what is asked most often costs least.

The answer comes from the board. Whether the caller has it already is decided by the etag, before a body is
looked at.
"""

from __future__ import annotations

from urllib.parse import parse_qs

from starlette.types import ASGIApp, Receive, Scope, Send

from longwatch.errors import LongwatchError
from longwatch.server.api.long_polling import deadline, find_cached_turn, stale_headers, wait_for_change
from longwatch.server.api.parameters import MAX_WAIT_SECONDS
from longwatch.server.cache.rendered_responses import NOTHING, TURN, AsgiResponse, ToldTurn
from longwatch.server.context import ServerContext
from longwatch.server.errors import ApiError, api_error
from longwatch.server.responses import POSITION, matches

PREFIX = "/api/projects/"
SUFFIX = "/status"
POSITION_NAME = POSITION.lower().encode()
ALLOW = {"Allow": "GET, HEAD"}


class FastStatus:
    """Answers `…/turns/{t}/status`, and lets everything else through."""

    def __init__(self, app: ASGIApp, context: ServerContext) -> None:
        self._app = app
        self._context = context

    def quick(self, scope: Scope) -> AsgiResponse | None:
        """The answer if it is known already, which it is for all but the first who ask about a turn."""
        asked = _parts(scope["path"])
        if asked is None or scope["query_string"] or scope["method"] != "GET":
            return None
        project, session, turn = asked
        if _header(scope, POSITION_NAME) is not None:
            return None  # the journal has to be read
        watched = self._context.run_cache.glance(TURN, turn)
        if watched is None or not watched.state.belongs_to(project, session):
            return None
        if self._context.hub.trouble(turn) is not None:
            return None  # the answer has to say so
        return _told(watched.state, _header(scope, b"if-none-match"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = _parts(scope["path"]) if scope["type"] == "http" else None
        if asked is None:
            await self._app(scope, receive, send)
            return
        try:
            if scope["method"] not in ("GET", "HEAD"):
                raise ApiError(
                    405, "method_not_allowed", "The status of a turn can only be read.", headers=ALLOW
                )
            start, body = await self._answer(scope, *asked)
            await send(start)
            await send(body if scope["method"] == "GET" else NOTHING)
        except LongwatchError as error:
            await api_error(error).send(send)
        except ApiError as error:
            await error.send(send)

    async def _answer(self, scope: Scope, project: str, session: str, turn: str) -> AsgiResponse:
        query: bytes = scope["query_string"]
        wait = wait_of(query) if query else 0
        known = _header(scope, b"if-none-match")
        position = (_header(scope, POSITION_NAME) or b"").decode("latin-1")
        watched = await find_cached_turn(self._context, project, session, turn, position)
        if wait and known is not None:
            has = known.decode("latin-1")
            until = deadline(self._context, wait)
            await wait_for_change(self._context, watched, lambda told: not matches(has, told.tag), until)
        start, body = _told(watched.state, known)
        stale = stale_headers(self._context, turn)
        if stale:
            more = [(name.lower().encode(), value.encode()) for name, value in stale.items()]
            start = {**start, "headers": [*start["headers"], *more]}
        return start, body


def _parts(path: str) -> tuple[str, str, str] | None:
    """Project, session and turn, if the status of a turn is asked for."""
    if not (path.endswith(SUFFIX) and path.startswith(PREFIX)):
        return None
    parts = path.split("/")
    if len(parts) != 9 or parts[4] != "sessions" or parts[6] != "turns":
        return None
    return parts[3], parts[5], parts[7]


def _header(scope: Scope, wanted: bytes) -> bytes | None:
    """The value of a header that the caller sends."""
    for name, value in scope["headers"]:
        if name == wanted:
            found: bytes = value
            return found
    return None


def _told(told: ToldTurn, known: bytes | None) -> AsgiResponse:
    if known is not None and (known == told.raw_tag or matches(known.decode("latin-1"), told.tag)):
        return told.unchanged
    return told.status


def wait_of(query: bytes) -> int:
    """The seconds that a caller is ready to wait."""
    given = parse_qs(query.decode("latin-1"), keep_blank_values=True).get("wait")
    if given is None:
        return 0
    text = given[-1]
    if text.isascii() and text.isdigit() and len(text) <= 4 and int(text) <= MAX_WAIT_SECONDS:
        return int(text)
    reason = f"must be a whole number of seconds from 0 to {MAX_WAIT_SECONDS}"
    raise ApiError(
        422, "invalid_request", "Not acceptable: wait. The details say why.", details=[("wait", reason)]
    )
