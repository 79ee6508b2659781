"""The schema, and what applies to every operation: limits, and errors that leak nothing."""

from __future__ import annotations

import logging
from functools import cache
from types import NoneType
from typing import Any

import strawberry
from graphql import GraphQLError
from strawberry.extensions import MaskErrors
from strawberry.schema.exceptions import CannotGetOperationTypeError
from strawberry.types import ExecutionContext

from longwatch.server.graphql.executions import ExecutionQueries
from longwatch.server.graphql.fields import INTERNAL
from longwatch.server.graphql.limits import MAX_DEPTH, CostLimit, token_limit
from longwatch.server.graphql.projects import ProjectQueries
from longwatch.server.graphql.runs import RunQueries
from longwatch.server.graphql.subscriptions import Subscriptions
from longwatch.server.graphql.types import CONFIG, fields_of, new_type

log = logging.getLogger("longwatch.server")


class HiddenErrors(MaskErrors):
    """Replaces errors that are neither the client's nor ours. They are logged."""

    def __init__(self) -> None:
        super().__init__(_is_unexpected, INTERNAL)

    def anonymise_error(self, error: GraphQLError) -> GraphQLError:
        if isinstance(error.original_error, RecursionError):
            return GraphQLError(
                f"The operation is nested too deeply. The maximum is {MAX_DEPTH} fields.",
                extensions={"code": "too_deep", "status": 400, "maximum": MAX_DEPTH},
            )
        log.error("internal error in %s", f"GraphQL at {error.path}", exc_info=error.original_error)
        return GraphQLError(
            INTERNAL,
            nodes=error.nodes,
            path=error.path,
            extensions={"code": "internal_error", "status": 500},
        )


def _is_unexpected(error: GraphQLError) -> bool:
    expected = (GraphQLError, CannotGetOperationTypeError, NoneType)
    return not isinstance(error.original_error, expected)


class QuietSchema(strawberry.Schema):
    """Logs nothing about errors of clients."""

    def process_errors(
        self, errors: list[GraphQLError], execution_context: ExecutionContext | None = None
    ) -> None:
        """`HiddenErrors` and `error_of` log what is ours."""


@cache
def load_schema() -> Any:
    """The schema, built once for a process."""
    queries = {**fields_of(RunQueries), **fields_of(ProjectQueries), **fields_of(ExecutionQueries)}
    return QuietSchema(
        query=new_type("Query", queries, "Reads runs, projects and executions. Nothing can be changed."),
        subscription=new_type(
            "Subscription",
            fields_of(Subscriptions),
            "Follows runs, turns and executions. `after` resumes behind an earlier update.",
        ),
        config=CONFIG,
        extensions=[token_limit, CostLimit, HiddenErrors],
    )
