"""Queries of GraphQL for tests: whole objects, in the form that the other routes return them."""

from __future__ import annotations

import re
from typing import Any

import httpx2
from graphql import GraphQLObjectType, get_named_type

from longwatch.server.graphql.schema import load_schema


async def query(http: httpx2.AsyncClient, text: str, **variables: Any) -> Any:
    """The data of a query without errors."""
    response = await http.post("/graphql", json={"query": text, "variables": variables})
    assert response.status_code == 200, response.text
    body = response.json()
    assert "errors" not in body, body["errors"]
    return body["data"]


async def codes(http: httpx2.AsyncClient, text: str, **variables: Any) -> list[str | None]:
    """The codes of the errors of a query."""
    response = await http.post("/graphql", json={"query": text, "variables": variables})
    assert response.status_code == 200, response.text
    return [error.get("extensions", {}).get("code") for error in response.json()["errors"]]


def everything(type_name: str, *, without: frozenset[str] = frozenset()) -> str:
    """A selection of all fields of a type and of the objects in it, but for connections."""
    found = load_schema()._schema.get_type(type_name)
    assert isinstance(found, GraphQLObjectType)
    parts: list[str] = []
    for name, field in found.fields.items():
        inner = get_named_type(field.type)
        if name in without or inner.name.endswith("Connection"):
            continue
        parts.append(f"{name} {everything(inner.name)}" if isinstance(inner, GraphQLObjectType) else name)
    return f"{{ {' '.join(parts)} }}"


def as_view(value: Any) -> Any:
    """A response with the names of the other routes, and with maps for lists of entries."""
    if isinstance(value, list):
        if value and all(isinstance(each, dict) and each.keys() == {"key", "value"} for each in value):
            return {each["key"]: as_view(each["value"]) for each in value}
        return [as_view(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {_snake(name): as_view(each) for name, each in value.items()}


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
