"""The HTTP reference names every route and every limit as it is."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import fields
from typing import Any

import pytest

from longwatch.documents.stores.memory import MemoryDocumentStore
from longwatch.journal.base import PAGE_BYTES
from longwatch.journal.codec import MAX_LEVELS
from longwatch.journal.memory import MemoryJournal
from longwatch.server.access.limits import ServerLimits
from longwatch.server.api.openapi import ERRORS
from longwatch.server.app import create_api
from longwatch.server.context import open_context
from longwatch.settings import MAX_PAYLOAD_BYTES
from tests.docs.pages import page

UNDESCRIBED = frozenset({"GET /openapi.json", "GET /metrics", "POST /mcp"})  # no part of the API


@pytest.fixture
async def schema() -> AsyncIterator[dict[str, Any]]:
    with MemoryJournal() as journal, MemoryDocumentStore() as documents:
        async with open_context(journal, documents) as context:
            yield create_api(context).openapi()


def documented_routes() -> set[str]:
    rows = re.findall(
        r"^\| `((?:GET|POST|PUT|DELETE) [^`]+)` \|", page("reference/http.md").text, re.MULTILINE
    )
    return set(rows)


def test_every_route_is_in_the_reference_and_no_other(schema: dict[str, Any]) -> None:
    routes = {f"{method.upper()} {path}" for path, methods in schema["paths"].items() for method in methods}

    assert documented_routes() == routes | UNDESCRIBED


def test_every_operation_is_described_and_its_name_is_its_own(schema: dict[str, Any]) -> None:
    operations = [operation for methods in schema["paths"].values() for operation in methods.values()]

    assert all(operation["description"] for operation in operations)
    assert len({operation["operationId"] for operation in operations}) == len(operations)
    described = [parameter for operation in operations for parameter in operation.get("parameters", ())]
    assert {parameter["name"] for parameter in described if not parameter["schema"]} == set()


def test_every_error_status_is_in_the_reference() -> None:
    text = page("reference/http.md").text
    table = text.partition("## Errors")[2].partition("\n## ")[0]
    listed = {
        int(code) for row in re.findall(r"^\| ([\d, ]+) \|", table, re.MULTILINE) for code in row.split(",")
    }

    assert listed == set(ERRORS)


def test_the_limits_in_the_reference_are_those_of_the_server() -> None:
    text = page("reference/http.md").text.partition("## Limits")[2]
    numbers = [
        int(number.replace(",", "")) for number in re.findall(r"^\| [^|]+ \| ([\d,]+)", text, re.MULTILINE)
    ]
    limits = ServerLimits()
    wanted = [int(getattr(limits, each.name)) for each in fields(limits)]

    assert sorted(numbers) == sorted([*wanted, MAX_PAYLOAD_BYTES, MAX_LEVELS, PAGE_BYTES])
