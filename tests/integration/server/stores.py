"""Stores of their own for tests of the server, on every engine, and servers over them in this process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from longwatch.documents.store import DocumentStore
from longwatch.documents.stores.dynamodb import DynamoDocumentStore
from longwatch.documents.stores.sqlite import SqliteDocumentStore
from longwatch.journal.base import Journal
from longwatch.journal.dynamodb.journal import open_dynamodb
from longwatch.journal.sqlite import SqliteJournal
from longwatch.server.app import create_app
from longwatch.server.cache.rendered_responses import TURN
from longwatch.server.context import ServerContext, open_context
from longwatch.storage.urls import TableAddress
from tests.contract.documents_tables import SharedDocumentTable, new_document_table
from tests.contract.tables import REGION, new_table

BASE = "http://127.0.0.1:8321"
LINES = {"content-type": "application/x-ndjson"}
TEXT = {"content-type": "text/plain"}


@dataclass(frozen=True, slots=True)
class Stores:
    """What one or several servers stand on. Each server opens them for itself."""

    file: Path | None = None
    endpoint: str | None = None
    table: str = ""
    documents_table: str = ""

    @contextmanager
    def opened(self) -> Iterator[tuple[Journal, DocumentStore]]:
        with ExitStack() as stack:
            if self.file is not None:
                journal: Journal = stack.enter_context(SqliteJournal(self.file))
                yield journal, stack.enter_context(SqliteDocumentStore(self.file))
                return
            dynamo = open_dynamodb(TableAddress(table=self.table, region=REGION, endpoint=self.endpoint))
            address = TableAddress(table=self.documents_table, region=REGION, endpoint=self.endpoint)
            documents = DynamoDocumentStore(SharedDocumentTable(address))
            yield stack.enter_context(dynamo), stack.enter_context(documents)


@contextmanager
def dynamodb_stores(endpoint: str) -> Iterator[Stores]:
    """A table for the journal and one for documents, deleted afterwards."""
    with new_table(endpoint, "workflow") as journal, new_document_table(endpoint) as documents:
        yield Stores(endpoint=endpoint, table=journal.table, documents_table=documents.table)


@dataclass(frozen=True, slots=True)
class Served:
    """A server in this process, and a client of it."""

    http: httpx2.AsyncClient
    context: ServerContext


@asynccontextmanager
async def served(
    stores: Stores, *, headers: dict[str, str] | None = None, **options: Any
) -> AsyncIterator[Served]:
    """A server over these stores."""
    with stores.opened() as (journal, documents):
        async with open_context(journal, documents, **options) as context:
            transport = httpx2.ASGITransport(app=create_app(context))
            async with httpx2.AsyncClient(transport=transport, base_url=BASE, headers=headers) as http:
                yield Served(http, context)


async def new_turn(http: httpx2.AsyncClient, prompt: str = "go") -> str:
    """The address of a turn in session s1 of project p1, which are made."""
    await http.post("/api/projects", json={"id": "p1"})
    await http.post("/api/projects/p1/sessions", json={"id": "s1"})
    response = await http.post("/api/projects/p1/sessions/s1/turns", json={"prompt": prompt})
    assert response.status_code == 201, response.text
    return f"/api/projects/p1/sessions/s1/turns/{response.json()['id']}"


def assistant(*texts: str) -> str:
    """A line of stream-JSON with these texts."""
    items = [{"type": "text", "text": text} for text in texts]
    return json.dumps({"type": "assistant", "message": {"content": items}})


def result(*, is_error: bool = False) -> str:
    """The line that ends a turn."""
    return json.dumps({"type": "result", "is_error": is_error, "result": "done"})


async def until(condition: Callable[[], bool], *, seconds: float = 20.0) -> None:
    """Let the event loop turn until this holds."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - what is waited for is inside the server
            await asyncio.sleep(0)


def is_polled(server: ServerContext, turn: str) -> bool:
    """Whether a request waits for news of the turn at this path."""
    watched = server.run_cache.peek(TURN, turn.rpartition("/")[2])
    return watched is not None and watched.is_waited_for
