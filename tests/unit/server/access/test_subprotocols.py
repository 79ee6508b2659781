"""Tokens among the subprotocols of a WebSocket."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from longwatch.server.access.subprotocols import offered_token, without_token
from longwatch.server.access.tokens import COOKIE, Access, Tokens, TokenScope

TOKENS = Tokens("write-token-0123456789", "read-token-0123456789")


def offer(token: str) -> list[str]:
    encoded = base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")
    return ["longwatch", f"longwatch.bearer.{encoded}"]


@pytest.mark.parametrize(
    ("offered", "scope"),
    [
        (offer(TOKENS.write), TokenScope.WRITE),
        (offer("read-token-0123456789"), TokenScope.READ),
        (["graphql-transport-ws", *offer(TOKENS.write)[1:]], TokenScope.WRITE),
        (offer("wrong"), None),
        (["longwatch", "longwatch.bearer."], None),
        (["longwatch", "longwatch.bearer.!"], None),
        (["longwatch", "longwatch.bearer.é"], None),
        (["longwatch", f"longwatch.bearer.{TOKENS.write}"], None),
        (["longwatch"], None),
        ([], None),
    ],
)
def test_the_scope_is_that_of_the_offered_token(offered: list[str], scope: TokenScope | None) -> None:
    assert Access(TOKENS).scope_of([], offered) is scope


def test_a_header_takes_precedence_over_a_subprotocol_and_that_over_a_cookie() -> None:
    access = Access(TOKENS)
    cookie = [(b"cookie", f"{COOKIE}={access.new_cookie(TokenScope.WRITE)}".encode())]

    assert access.scope_of([(b"authorization", b"Bearer wrong")], offer(TOKENS.write)) is None
    assert access.scope_of(cookie, offer("wrong")) is None
    assert access.scope_of(cookie, ["longwatch"]) is TokenScope.WRITE


@pytest.mark.parametrize(
    ("offered", "selected_by_application", "rest", "selected"),
    [
        (offer("t"), None, [], "longwatch"),
        (["longwatch"], None, [], "longwatch"),
        ([*offer("t"), "graphql-transport-ws"], "graphql-transport-ws", ["graphql-transport-ws"], None),
        (["graphql-transport-ws"], None, ["graphql-transport-ws"], None),
        ([], None, [], None),
    ],
)
async def test_the_application_does_not_see_the_token(
    offered: list[str], selected_by_application: str | None, rest: list[str], selected: str | None
) -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope, reply = without_token({"type": "websocket", "subprotocols": offered}, send)
    await reply({"type": "websocket.accept", "subprotocol": selected_by_application})

    assert scope["subprotocols"] == rest
    assert sent[0]["subprotocol"] == (selected_by_application or selected)
    assert offered_token(scope["subprotocols"]) is None
