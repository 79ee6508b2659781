"""How fields that read something are declared: their cost, their errors, and the pages of connections."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

import strawberry
from graphql import GraphQLError
from strawberry.types import Info
from strawberry.types.field import StrawberryField

from longwatch.errors import InvalidInput, JournalUnavailable, LongwatchError
from longwatch.server.access.tokens import TokenScope
from longwatch.server.context import ServerContext
from longwatch.server.errors import ApiError, api_error
from longwatch.server.graphql.types import description_of, list_of, new_type, plain_field
from longwatch.server.live.feed import Feed

READ_COST = 10  # of a field that reads a store
COST = "cost"  # in the metadata of a field
MAX_TEXT = 2_048  # characters of an id or a text
INTERNAL = "Internal error; the server's log has the details. Retry the request."

log = logging.getLogger("longwatch.server")

Resolver = Callable[..., Awaitable[Any]]


@dataclass(slots=True)
class GraphqlContext:
    """The parts of the server that resolvers use."""

    server: ServerContext
    feed: Feed
    granted: TokenScope | None = None  # by the headers of a WebSocket
    connection_params: Mapping[str, Any] | None = None  # the payload of `connection_init`


def server_of(info: Info[GraphqlContext, None]) -> ServerContext:
    """The parts of the server."""
    return info.context.server


def reading(graphql_type: Any, *, cost: int = READ_COST) -> Callable[[Resolver], StrawberryField]:
    """Declare a field that reads a store. Its description is the docstring."""

    def declare(read: Resolver) -> StrawberryField:
        @wraps(read)
        async def resolve(*args: Any, **kwargs: Any) -> Any:
            try:
                return await read(*args, **kwargs)
            except Exception as error:
                note_failure(server_of(kwargs["info"]), error)
                raise error_of(error) from error

        made: StrawberryField = strawberry.field(
            resolver=resolve,
            graphql_type=graphql_type,
            description=description_of(read),
            metadata={COST: cost},
        )
        return made

    return declare


def error_of(error: Exception) -> GraphQLError:
    """The error that a client sees: our own with its code, any other without its content, which is logged."""
    if isinstance(error, GraphQLError):
        return error
    found = api_error(error) if isinstance(error, LongwatchError) else error
    if not isinstance(found, ApiError) or found.status == 500:
        log.error("internal error in %s", "a field of GraphQL", exc_info=error)
        return GraphQLError(INTERNAL, extensions={"code": "internal_error", "status": 500})
    extensions: dict[str, Any] = {"code": found.code, "status": found.status}
    if found.position is not None:
        extensions["position"] = found.position
    if found.details:
        extensions["details"] = [{"field": name, "message": text} for name, text in found.details]
    return GraphQLError(found.message, extensions=extensions)


def note_failure(server: ServerContext, error: Exception) -> None:
    """Count requests that found the journal unavailable, as the other routes do."""
    if isinstance(error, JournalUnavailable):
        server.traffic.journal_failures += 1


def checked(text: str | None, name: str, *, most: int = MAX_TEXT) -> str:
    """A text argument, empty if it was left out; or the error that it is too long or not valid Unicode."""
    text = text or ""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(f"Invalid {name}: it cannot be encoded as UTF-8.") from error
    if len(text) > most:
        raise InvalidInput(f"Invalid {name}: longer than {most} characters.")
    return text


def checked_first(first: int, most: int) -> int:
    """The size of a page, or the error that it is out of range."""
    if 1 <= first <= most:
        return first
    raise InvalidInput(f"Invalid first: {first}. Use 1 to {most}.")


PageInfo = new_type(
    "PageInfo",
    {
        "has_next_page": plain_field(bool),
        "end_cursor": plain_field(str | None, "For `after`. A page may have fewer items than `first`."),
    },
    "Whether there is more, and where it begins.",
)


def connection_type(node: Any, further: Mapping[str, StrawberryField] | None = None) -> Any:
    """A page of a list, as Relay and Apollo page lists."""
    name = node.__name__
    edge = new_type(
        f"{name}Edge",
        {"node": plain_field(node), "cursor": plain_field(str | None, "Null within a page of the journal.")},
        f"A {name} in a list.",
    )
    declared = {
        "nodes": plain_field(list_of(node)),
        "edges": plain_field(list_of(edge)),
        "page_info": plain_field(PageInfo),
        **(further or {}),
    }
    return new_type(f"{name}Connection", declared, f"A page of a list of {name}.")


def connection(
    nodes: Sequence[Any],
    end: str | None,
    *,
    more: bool,
    cursors: Sequence[str] | None = None,
    **further: Any,
) -> dict[str, Any]:
    """The source of a connection. Without cursors of all items, only the last one has one: the page's."""
    each_cursor: Sequence[str | None] = cursors or [*([None] * (len(nodes) - 1)), end]
    return {
        "nodes": nodes,
        "edges": [{"node": node, "cursor": cursor} for node, cursor in zip(nodes, each_cursor, strict=False)],
        "page_info": {"has_next_page": more, "end_cursor": end},
        **further,
    }


def slice_of(items: Sequence[Any], keys: Sequence[str], after: str | None, first: int) -> dict[str, Any]:
    """A page of a list that is in memory. The cursor of an item is its key."""
    begin = 0
    if after:
        if after not in keys:
            raise InvalidInput(
                f"Unknown cursor {after[:40]!r}. Leave `after` out to start from the beginning."
            )
        begin = keys.index(after) + 1
    found, names = items[begin : begin + first], keys[begin : begin + first]
    end = names[-1] if names else after or None
    return connection(found, end, more=begin + first < len(items), cursors=names)
