"""Executes a query that arrived over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strawberry.schema.exceptions import CannotGetOperationTypeError, InvalidOperationTypeError
from strawberry.types import ExecutionResult
from strawberry.types.graphql import OperationType

from longwatch.server.context import ServerContext
from longwatch.server.errors import ApiError
from longwatch.server.graphql.fields import GraphqlContext
from longwatch.server.graphql.schema import load_schema
from longwatch.server.live.feed import Feed

if TYPE_CHECKING:
    from longwatch.server.graphql.routes import GraphqlRequest


async def execute(server: ServerContext, feed: Feed, wanted: GraphqlRequest) -> ExecutionResult:
    """The result of a query. A subscription is an error: it needs a WebSocket."""
    try:
        result: ExecutionResult = await load_schema().execute(
            wanted.query,
            variable_values=wanted.variables,
            operation_name=wanted.operationName,
            context_value=GraphqlContext(server, feed),
            allowed_operation_types={OperationType.QUERY},
        )
    except CannotGetOperationTypeError as error:
        raise ApiError(
            400,
            "unknown_operation",
            "No such operation. Name one of the operations of the query as `operationName`.",
        ) from error
    except InvalidOperationTypeError as error:
        raise ApiError(
            400,
            "subscription_over_http",
            "Subscriptions need a WebSocket with the subprotocol graphql-transport-ws.",
        ) from error
    return result
