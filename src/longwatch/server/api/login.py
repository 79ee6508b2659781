"""Sign-in for browsers: a one-time code, or a token in a form, is exchanged for a cookie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated
from urllib.parse import parse_qs

from fastapi import APIRouter, Body, Request
from pydantic import Field
from starlette.responses import Response

from longwatch.journal.deletions import DeletesRuns
from longwatch.model.json_schema import STRICT
from longwatch.server.access.tokens import COOKIE, COOKIE_SECONDS, TokenScope
from longwatch.server.api.openapi import json_responses, write_responses
from longwatch.server.api.parameters import ContextDep, RequestBody
from longwatch.server.errors import ApiError
from longwatch.server.page.plain_pages import HTML_TYPE, NOT_STORED, PAGE_HEADERS, plain_page
from longwatch.server.responses import json_response

COOKIE_HEADER = {
    "Set-Cookie": {
        "description": "The session of this browser: HttpOnly, SameSite=Strict.",
        "schema": {"type": "string"},
    }
}

TOKEN_HINT = " <code>longwatch serve</code> prints a one-time sign-in link and the path of the token file."

router = APIRouter()


class LoginRequest(RequestBody):
    """A token to exchange for a cookie."""

    token: Annotated[str, Field(min_length=1, max_length=1000)]


@dataclass(frozen=True, kw_only=True)
class GrantedScope:
    """What the cookie allows."""

    __pydantic_config__ = STRICT

    scope: TokenScope


@dataclass(frozen=True, kw_only=True)
class AccessView:
    """What this caller may do."""

    __pydantic_config__ = STRICT

    scope: TokenScope
    deletes_runs: Annotated[bool, Field(description="Whether this caller may delete runs of this journal.")]


@router.get("/api/access", tags=["server"], response_class=Response, responses=json_responses(AccessView))
async def show_access(context: ContextDep, request: Request) -> Response:
    """What the token or cookie of this request allows."""
    scope = context.access.scope_of(request.headers.raw)
    may_write = scope is not None and scope.allows(TokenScope.WRITE)
    deletes_runs = may_write and isinstance(context.journal, DeletesRuns)
    view = AccessView(scope=scope or TokenScope.READ, deletes_runs=deletes_runs)
    return json_response(view, headers=NOT_STORED)


@router.post(
    "/api/login",
    tags=["server"],
    response_class=Response,
    responses=write_responses(GrantedScope, headers=COOKIE_HEADER),
)
async def log_in(context: ContextDep, request: Request, given: Annotated[LoginRequest, Body()]) -> Response:
    """Exchange a token for a cookie, with which a page can call the API without the token."""
    scope = context.access.scope_of_token(given.token.encode(errors="replace"))
    if context.access.is_open:
        scope = TokenScope.WRITE
    if scope is None:
        raise unknown_token()
    response = json_response(GrantedScope(scope=scope), headers=NOT_STORED)
    set_cookie(response, context.access.new_cookie(scope), request)
    return response


@router.get("/login", include_in_schema=False, response_class=Response)
async def login_page(context: ContextDep, request: Request, code: str = "") -> Response:
    """Show the form; with a valid code, sign in at once."""
    if not code:
        return _form("This server requires a token." + TOKEN_HINT, status=401)
    if not context.access.redeem(code):
        expired = "This link was used already or is older than ten minutes. Sign in with a token."
        return _form(expired + TOKEN_HINT, status=401)
    return _sign_in(context.access.new_cookie(TokenScope.WRITE), request)


@router.post("/login", include_in_schema=False, response_class=Response)
async def log_in_by_form(context: ContextDep, request: Request) -> Response:
    """Sign in with the token of the form."""
    fields = parse_qs((await request.body())[:4096].decode("latin-1"))
    token = fields.get("token", [""])[-1].strip()
    scope = context.access.scope_of_token(token.encode(errors="replace"))
    if scope is None:
        return _form("Unknown token." + TOKEN_HINT, status=401, is_error=True)
    return _sign_in(context.access.new_cookie(scope), request)


def unknown_token() -> ApiError:
    """The error for a token that the server does not have."""
    headers = {"WWW-Authenticate": "Bearer"}
    return ApiError(
        401,
        "unauthorized",
        "Unknown token. `longwatch serve` prints where the tokens are stored.",
        headers=headers,
    )


def set_cookie(response: Response, value: str, request: Request) -> None:
    """Set a cookie that scripts cannot read and pages of other sites do not send."""
    secure = request.url.scheme == "https"
    response.set_cookie(
        COOKIE, value, max_age=COOKIE_SECONDS, path="/", httponly=True, samesite="strict", secure=secure
    )


def _sign_in(cookie: str, request: Request) -> Response:
    # A browser does not send a strict cookie with a redirect of a navigation from another site. It sends the
    # cookie with the next request of a page of our own.
    page = (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="0;url=/">'
        '<title>longwatch</title><p>Signed in. <a href="/">Continue</a>.</html>'
    )
    response = Response(page, headers={**PAGE_HEADERS, **NOT_STORED}, media_type=HTML_TYPE)
    set_cookie(response, cookie, request)
    return response


def _form(message: str, *, status: int, is_error: bool = False) -> Response:
    """The form, below this message as HTML."""
    emphasis = ' class="is-failed" role="alert"' if is_error else ' class="dim"'
    content = (
        f"<p{emphasis}>{message}</p>"
        '<form method="post" action="/login"><input type="password" name="token" required aria-label="Token" '
        'placeholder="Token" autocomplete="current-password" autofocus>'
        '<button class="primary">Sign in</button></form>'
    )
    return plain_page("Sign in", content, status=status, headers={"WWW-Authenticate": "Bearer"})
