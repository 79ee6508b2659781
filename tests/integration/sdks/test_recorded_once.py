"""A model call that a framework makes through the client `openai` is recorded once, by the adapter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest
from agents import Agent as OpenAIAgent
from agents import ModelSettings, RunConfig, Runner
from agents.models.openai_chatcompletions import OpenAIChatCompletionsModel
from agents.models.openai_responses import OpenAIResponsesModel
from langchain_openai import ChatOpenAI
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

import longwatch
from longwatch.integrations import langchain, openai_agents, pydantic_ai
from longwatch.integrations import openai as openai_client
from longwatch.model.usage import UsageCounter
from longwatch.testing import ModelServer
from longwatch.testing.model_server import ModelFailure, ModelReply
from tests.integration.sdks.recorded import Recorded

REPLY = ModelReply("Paris it is", input_tokens=12, output_tokens=3)


@pytest.fixture(autouse=True)
def _attached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    for adapter in (openai_client, langchain, openai_agents, pydantic_ai):
        adapter.install()


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


def chat_model(server: ModelServer) -> ChatOpenAI:
    options: dict[str, Any] = {"base_url": f"{server.url}/v1", "api_key": "test", "max_retries": 0}
    return ChatOpenAI(model="gpt-test", temperature=0.5, stream_usage=True, **options)


def client(server: ModelServer) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="test", max_retries=0)


def only_end(recorded: Recorded, recorded_by: str) -> dict[str, Any]:
    """The end of the only model call, after a look at its start."""
    start, end = recorded.events("model_call")
    assert (start.payload["status"], start.payload["model"]) == ("started", "gpt-test")
    assert {start.payload["recorded_by"], end.payload["recorded_by"]} == {recorded_by}
    assert start.payload["provider"] == "openai"
    return dict(end.payload)


def check(end: dict[str, Any]) -> None:
    assert (end["status"], end["input_tokens"], end["output_tokens"]) == ("completed", 12, 3)
    assert end["output"] == [{"role": "assistant", "content": "Paris it is"}]
    assert "same_as" not in end


def test_langchain(recorded: Recorded, server: ModelServer) -> None:
    server.add(REPLY)

    with longwatch.run("test"):
        chat_model(server).invoke("Capital of France?")

    end = only_end(recorded, "langchain")
    check(end)
    assert end["finish_reasons"] == ["stop"]
    assert end["response_id"].startswith("chatcmpl-")


async def test_langchain_async_and_a_later_call_of_the_client_alone(
    recorded: Recorded, server: ModelServer
) -> None:
    server.add(REPLY, REPLY)

    with longwatch.run("test"):
        await chat_model(server).ainvoke("Capital of France?")
        async with client(server) as plain:
            await plain.chat.completions.create(
                model="gpt-test", messages=[{"role": "user", "content": "Again?"}]
            )

    layers = [event.payload["recorded_by"] for event in recorded.events("model_call")]
    assert layers == ["langchain", "langchain", "openai", "openai"]


async def test_langchain_streaming(recorded: Recorded, server: ModelServer) -> None:
    server.add(REPLY)

    with longwatch.run("test"):
        chunks = [chunk async for chunk in chat_model(server).astream("Capital of France?")]

    end = only_end(recorded, "langchain")
    check(end)
    assert 0 < end["chunk_count"] <= len(chunks)
    assert end["time_to_first_token_ms"] <= end["duration_ms"]


async def test_calls_of_the_client_between_the_chunks_of_langchain(
    recorded: Recorded, server: ModelServer
) -> None:
    server.add(REPLY, REPLY, REPLY, REPLY)
    question: Any = [{"role": "user", "content": "Again?"}]
    plain = openai.OpenAI(base_url=f"{server.url}/v1", api_key="test", max_retries=0)

    with longwatch.run("test"), plain:
        for number, _ in enumerate(chat_model(server).stream("Capital of France?")):
            if number == 0:
                plain.chat.completions.create(model="gpt-test", messages=question)
        async with client(server) as other:
            first = True
            async for _ in chat_model(server).astream("Capital of France?"):
                if first:
                    await other.chat.completions.create(model="gpt-test", messages=question)
                first = False

    starts = [
        event.payload for event in recorded.events("model_call") if event.payload["status"] == "started"
    ]
    assert [start["recorded_by"] for start in starts] == ["langchain", "openai"] * 2


def test_langchain_failure(recorded: Recorded, server: ModelServer) -> None:
    server.add(ModelFailure(500))

    with longwatch.run("test"), pytest.raises(openai.InternalServerError):
        chat_model(server).invoke("Capital of France?")

    assert only_end(recorded, "langchain")["status"] == "failed"


@pytest.mark.parametrize("model", [OpenAIResponsesModel, OpenAIChatCompletionsModel])
@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("is_traced", [False, True])
async def test_openai_agents(
    recorded: Recorded, server: ModelServer, model: Any, is_streamed: bool, is_traced: bool
) -> None:
    server.add(REPLY)

    async with client(server) as plain:
        settings = ModelSettings(include_usage=True)
        agent = OpenAIAgent(name="Guide", model=model("gpt-test", plain), model_settings=settings)
        config = RunConfig(tracing_disabled=not is_traced)
        with longwatch.run("test"):
            if is_streamed:
                result = Runner.run_streamed(agent, "Capital of France?", run_config=config)
                assert [event async for event in result.stream_events()]
            else:
                await Runner.run(agent, "Capital of France?", run_config=config)

    end = only_end(recorded, "openai_agents")
    check(end)
    assert ("time_to_first_token_ms" in end) is is_streamed  # from the client, which sees the chunks
    assert recorded.tree() == ["agent Guide completed", "  model gpt-test completed"]


@pytest.mark.parametrize("model", [OpenAIResponsesModel, OpenAIChatCompletionsModel])
async def test_openai_agents_failure(recorded: Recorded, server: ModelServer, model: Any) -> None:
    server.add(ModelFailure(400))

    async with client(server) as plain:
        agent = OpenAIAgent(name="Guide", model=model("gpt-test", plain))
        with longwatch.run("test"), pytest.raises(openai.BadRequestError):
            await Runner.run(agent, "Capital of France?")

    assert only_end(recorded, "openai_agents")["status"] == "failed"


def guide(plain: openai.AsyncOpenAI) -> PydanticAgent[None, str]:
    model = OpenAIChatModel("gpt-test", provider=OpenAIProvider(openai_client=plain))
    return PydanticAgent(model, name="guide")


async def test_pydantic_ai(recorded: Recorded, server: ModelServer) -> None:
    server.add(REPLY)

    async with client(server) as plain:
        with longwatch.run("test"):
            await guide(plain).run("Capital of France?")

    check(only_end(recorded, "pydantic_ai"))


async def test_pydantic_ai_streams_in_another_context_so_both_records_are_joined(
    recorded: Recorded, server: ModelServer
) -> None:
    server.add(REPLY)

    async with client(server) as plain:
        with longwatch.run("test"):
            async with guide(plain).run_stream("Capital of France?") as result:
                assert [text async for text in result.stream_text(delta=True)]

    assert recorded.tree() == ["agent guide completed", "  model gpt-test completed"]
    counter = UsageCounter()
    for event in recorded.events():
        counter.add(event)
    usage = counter.usage()
    (counts,) = usage.tokens.values()
    assert (usage.model_calls, counts.input_tokens, counts.output_tokens) == (1, 12, 3)
