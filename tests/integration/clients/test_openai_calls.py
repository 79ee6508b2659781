"""The real client `openai`: faults of the adapter, enclosing calls, threads and tasks."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import pytest

import longwatch
from longwatch.integrations import generated_clients
from longwatch.integrations import openai as adapter
from longwatch.recording.model_calls import MODEL_CALL_LAYER
from longwatch.testing import MemoryJournal, ModelReply, ModelServer
from longwatch.testing.model_server import ModelRequest
from tests.integration.clients.conftest import Recorded
from tests.integration.clients.openai_samples import (
    MESSAGES,
    REPLY,
    check_pair,
)

pytestmark = pytest.mark.usefixtures("openai_adapter")


@pytest.mark.parametrize("broken", ["begin_model_call", "Chunks", "notify_on_close"])
def test_a_fault_of_the_adapter_does_not_reach_the_program(
    broken: str,
    client: openai.OpenAI,
    server: ModelServer,
    recorded: Recorded,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*args: Any, **options: Any) -> Any:
        raise RuntimeError("a bug in the adapter")

    monkeypatch.setattr(generated_clients, broken, fail)
    server.add(REPLY, REPLY)

    answer = client.chat.completions.create(model="gpt", messages=MESSAGES)
    chunks = list(client.chat.completions.create(model="gpt", messages=MESSAGES, stream=True))

    assert answer.choices[0].message.content == "good day"
    assert len(chunks) == 4
    starts = [each for each in recorded() if each["status"] == "started"]
    assert len(recorded()) == 2 * len(starts)  # what began has ended


def test_a_fault_while_a_stream_is_read_does_not_reach_the_program(
    client: openai.OpenAI, server: ModelServer, recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter.ChatStream, "_add_choice", lambda *_: 1 / 0)
    server.add(REPLY)

    chunks = list(client.chat.completions.create(model="gpt", messages=MESSAGES, stream=True))

    assert len(chunks) == 4
    check_pair(recorded(), status="completed", output=None)


def test_other_requests_are_not_model_calls(
    client: openai.OpenAI, server: ModelServer, recorded: Recorded
) -> None:
    with pytest.raises(openai.NotFoundError):
        client.post("/images/generations", cast_to=object, body={"model": "gpt"})

    assert recorded() == []


def test_a_call_belongs_to_the_tool_or_agent_that_makes_it(
    client: openai.OpenAI, server: ModelServer, journal: MemoryJournal, recorded: Recorded
) -> None:
    server.add(REPLY)

    @longwatch.agent
    def writer() -> None:
        client.chat.completions.create(model="gpt", messages=MESSAGES)

    writer()

    start = recorded()[0]
    run_id = longwatch.current_run_id()
    assert run_id is not None
    agent = next(each for each in journal.read(run_id).events if each.type == "agent_start")
    assert start["parent_call_id"] == agent.call_id


def test_a_call_that_an_outer_layer_records_is_not_recorded_again(
    client: openai.OpenAI, server: ModelServer, recorded: Recorded
) -> None:
    server.add(REPLY, REPLY)

    token = MODEL_CALL_LAYER.set("framework")
    client.chat.completions.create(model="gpt", messages=MESSAGES)
    MODEL_CALL_LAYER.reset(token)
    client.chat.completions.create(model="gpt", messages=MESSAGES)

    assert len(recorded()) == 2


def echo(request: ModelRequest) -> ModelReply:
    return ModelReply(
        str(request.body["messages"][0]["content"]),
        response_id=f"id-{request.body['messages'][0]['content']}",
    )


def test_calls_in_threads_are_apart(recorded: Recorded) -> None:
    def ask(number: int) -> None:
        stream = shared.chat.completions.create(
            model="gpt", messages=[{"role": "user", "content": str(number)}], stream=True
        )
        list(stream)

    with (
        ModelServer(respond=echo) as server,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="x") as shared,
        ThreadPoolExecutor(8) as pool,
    ):
        list(pool.map(ask, range(40)))

    check_each_answer(recorded(), 40)


async def test_parallel_tasks_are_apart(recorded: Recorded) -> None:
    with ModelServer(respond=echo) as server:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="x") as client:

            async def ask(number: int) -> None:
                async for _ in await client.chat.completions.create(
                    model="gpt", messages=[{"role": "user", "content": str(number)}], stream=True
                ):
                    pass

            await asyncio.gather(*(ask(number) for number in range(40)))

    check_each_answer(recorded(), 40)


def check_each_answer(events: list[dict[str, Any]], count: int) -> None:
    starts = {each["call_id"]: each["input"][0]["content"] for each in events if each["status"] == "started"}
    ends = {each["call_id"]: each["output"][0]["content"] for each in events if each["status"] == "completed"}
    assert len(starts) == count
    assert starts == ends


def test_outside_any_run_a_call_is_a_run(
    client: openai.OpenAI, server: ModelServer, journal: MemoryJournal
) -> None:
    server.add(REPLY)

    client.chat.completions.create(model="gpt", messages=MESSAGES)

    assert longwatch.flush()
    (run,) = journal.find_runs().runs
    assert (run.name, run.status) == ("gpt", "succeeded")


@pytest.mark.parametrize(
    ("url", "provider"),
    [
        ("https://api.openai.com/v1", "openai"),
        ("https://west.openai.azure.com/openai", "azure.ai.openai"),
        ("https://api.deepseek.com", "deepseek"),
        ("https://notdeepseek.com", "openai"),
        ("http://127.0.0.1:8000/v1", "openai"),
    ],
)
def test_the_provider_is_named_by_its_host(url: str, provider: str) -> None:
    from longwatch.integrations.generated_clients import provider_of

    assert provider_of(url, "openai") == provider
