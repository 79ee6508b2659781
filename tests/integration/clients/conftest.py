"""A scripted model, a journal in memory, and a run around each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import openai
import pytest

import longwatch
from longwatch.integrations import openai as adapter
from longwatch.testing import MemoryJournal, ModelServer

Recorded = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture
def journal() -> Iterator[MemoryJournal]:
    with MemoryJournal() as journal:
        longwatch.configure(journal)
        yield journal
        longwatch.configure("memory://")


@pytest.fixture
def recorded(journal: MemoryJournal, monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorded]:
    """The payloads of the model calls of the run, each with `call_id` and `parent_call_id`."""
    monkeypatch.setenv("LONGWATCH_CAPTURE", "full")
    longwatch.configure(journal)
    with longwatch.run("test") as run:

        def read() -> list[dict[str, Any]]:
            assert longwatch.flush()
            events = journal.read(run.run_id, limit=10_000).events
            return [
                {**event.payload, "call_id": event.call_id, "parent_call_id": event.parent_call_id}
                for event in events
                if event.type == "model_call"
            ]

        yield read


@pytest.fixture
def openai_adapter() -> None:
    adapter.install()
    adapter.install()


@pytest.fixture
def client(openai_adapter: None, server: ModelServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="test", max_retries=0) as client:
        yield client


@pytest.fixture
async def async_client(openai_adapter: None, server: ModelServer) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="test", max_retries=0) as client:
        yield client
