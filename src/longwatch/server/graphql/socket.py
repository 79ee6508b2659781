"""GraphQL over a WebSocket: the protocol `graphql-transport-ws`, with the token of the other routes."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from math import ceil
from typing import Any

from graphql import GraphQLError
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send
from starlette.websockets import WebSocket
from strawberry.asgi import GraphQL
from strawberry.exceptions import ConnectionRejectionError
from strawberry.subscriptions import GRAPHQL_TRANSPORT_WS_PROTOCOL
from strawberry.subscriptions.protocols.graphql_transport_ws.handlers import BaseGraphQLTransportWSHandler
from strawberry.types.unset import UNSET, UnsetType

from longwatch.server.access.guard import GRANTED, client_of
from longwatch.server.access.limits import Rates
from longwatch.server.context import ServerContext
from longwatch.server.graphql.fields import GraphqlContext
from longwatch.server.graphql.routes import MAX_QUERY
from longwatch.server.graphql.schema import load_schema
from longwatch.server.live.feed import Feed

GOING_AWAY = 1012  # "service restart": a client comes back by itself
TOO_LARGE = 1009
INIT_SECONDS = 10  # for `connection_init` to arrive
MAX_OPERATIONS = 100  # of one connection at once
MAX_MESSAGE = 2 * MAX_QUERY  # characters
INVALID = "Invalid message"

log = logging.getLogger("longwatch.server")


class SocketHandler(BaseGraphQLTransportWSHandler[GraphqlContext, None]):
    """Rejects what the library does not: messages of another shape, and operations that come too fast."""

    view: GraphqlSockets

    async def handle_message(self, message: Any) -> None:
        if is_message(message):
            await super().handle_message(message)
        else:
            await self.handle_invalid_message(INVALID)

    async def handle_subscribe(self, message: Any) -> None:
        wait_seconds = self.view.wait_before(self.websocket) if self.connection_acknowledged else 0.0
        if not wait_seconds or message["id"] in self.operations:
            await super().handle_subscribe(message)
            return
        text = f"Too many operations. Retry after {ceil(wait_seconds)} s."
        error = GraphQLError(text, extensions={"code": "too_many_requests", "status": 429})
        await self.send_message({"id": message["id"], "type": "error", "payload": [error.formatted]})

    @staticmethod
    def _get_pre_execution_close_reason(error: GraphQLError) -> str | None:
        return None  # a mistake in one operation does not end the others


def is_message(message: Any) -> bool:
    """Whether a message has the form of the protocol."""
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        return False
    if message["type"] == "complete":
        return isinstance(message.get("id"), str)
    if message["type"] != "subscribe":
        return True
    payload = message.get("payload")
    return (
        isinstance(message.get("id"), str)
        and isinstance(payload, dict)
        and isinstance(payload.get("query"), str)
        and payload["query"] != ""
        and isinstance(payload.get("variables"), dict | None)
        and isinstance(payload.get("operationName"), str | None)
    )


class GraphqlSockets(GraphQL[GraphqlContext, None]):
    """All sockets of a server."""

    graphql_transport_ws_handler_class = SocketHandler

    def __init__(self, server: ServerContext, feed: Feed) -> None:
        super().__init__(
            load_schema(),
            graphql_ide=None,
            subscription_protocols=[GRAPHQL_TRANSPORT_WS_PROTOCOL],
            connection_init_wait_timeout=timedelta(seconds=INIT_SECONDS),
            max_subscriptions_per_connection=MAX_OPERATIONS,
            allowed_origins=["*"],  # the guard has checked the origin
        )
        self._server = server
        self._feed = feed
        self._rates = Rates(server.limits.writes_per_second, server.limits.writes_at_once)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection = Connection(self._server.closing, receive, send)
        try:
            await super().__call__(scope, connection.receive, connection.send)
        except Exception:
            log.exception("internal error in %s", "a WebSocket of GraphQL")
            await connection.close(1011, "internal error")
        finally:
            connection.end()

    async def get_context(
        self, request: Request | WebSocket, response: Response | WebSocket
    ) -> GraphqlContext:
        return GraphqlContext(self._server, self._feed, granted=request.scope.get(GRANTED))

    async def on_ws_connect(self, context: GraphqlContext) -> UnsetType | dict[str, object] | None:
        """Accept the connection if it has a token: in its headers, or in the payload of `connection_init`."""
        access = self._server.access
        token = token_of(context.connection_params or {})
        granted = context.granted if token is None else access.scope_of_token(token)
        if granted is None and not access.is_open:
            raise ConnectionRejectionError
        no_payload: UnsetType = UNSET
        return no_payload

    def decode_json(self, data: str | bytes) -> object:
        try:
            return json.loads(data)
        except RecursionError as error:
            raise json.JSONDecodeError("nested too deeply", "", 0) from error

    def encode_json(self, data: object) -> str:
        return json.dumps(data, separators=(",", ":"), default=vars)

    def wait_before(self, websocket: Any) -> float:
        """Seconds to wait before this client's next operation. All of its connections count together."""
        return self._rates.take(client_of(websocket.ws.scope), asyncio.get_running_loop().time())


def token_of(payload: Mapping[str, object]) -> bytes | None:
    """The token in the payload of `connection_init`: `token`, or `Authorization` as in a header."""
    for name, value in payload.items():
        if not isinstance(value, str):
            continue
        if name == "token":
            return value.encode(errors="replace")
        if name.lower() == "authorization":
            kind, _, token = value.partition(" ")
            return token.strip().encode(errors="replace") if kind.lower() == "bearer" else b""
    return None


class Connection:
    """The messages of one socket: limits their size, and closes the socket when the server shuts down."""

    def __init__(self, closing: asyncio.Event, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._is_closed = False
        self._closing = asyncio.ensure_future(closing.wait())
        self._receiving: asyncio.Future[Message] | None = None

    async def receive(self) -> Message:
        """The next message; a disconnect once the socket was closed here."""
        if self._receiving is None:
            self._receiving = asyncio.ensure_future(self._receive())
        await asyncio.wait((self._receiving, self._closing), return_when=asyncio.FIRST_COMPLETED)
        if self._closing.done():
            return await self.close(GOING_AWAY, "the server shuts down")
        message, self._receiving = self._receiving.result(), None
        if len(message.get("text") or "") > MAX_MESSAGE:
            return await self.close(TOO_LARGE, f"a message has at most {MAX_MESSAGE} characters")
        return message

    async def send(self, message: Message) -> None:
        """Send a message. After the end it is dropped."""
        if self._is_closed:
            return
        self._is_closed = message["type"] == "websocket.close"
        with suppress(OSError):  # it disconnected just now; `receive` reports that too
            await self._send(message)

    async def close(self, code: int, reason: str) -> Message:
        """Close the socket; returns what a reader of it gets then."""
        with suppress(RuntimeError):  # it is closed already
            await self.send({"type": "websocket.close", "code": code, "reason": reason})
        return {"type": "websocket.disconnect", "code": code}

    def end(self) -> None:
        """Stop waiting."""
        self._closing.cancel()
        if self._receiving is not None:
            self._receiving.cancel()
