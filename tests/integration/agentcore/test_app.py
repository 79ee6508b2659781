"""The drop-in for AgentCore's app, with the real SDK."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from longwatch.aws.invoker import header_text
from longwatch.integrations.bedrock_agentcore import BedrockAgentCoreApp
from longwatch.journal.factory import open_journal
from longwatch.model.event import Event

JOURNAL = "memory://agentcore"
HEADER = "X-Amzn-Bedrock-AgentCore-Runtime-Session-Id"


@pytest.fixture(autouse=True)
def _journal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGWATCH_JOURNAL", JOURNAL)
    for name in ("LONGWATCH_SESSION_ID", "LONGWATCH_EXECUTION"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def new_session() -> str:
    return f"session-{uuid.uuid4()}"


def journaled(session_id: str) -> list[Event]:
    return list(open_journal(JOURNAL).read(session_id).events)


def types(session_id: str) -> list[str]:
    return [event.type for event in journaled(session_id)]


async def post(app: Any, payload: object, session_id: str | None = None) -> httpx2.Response:
    headers = {HEADER: session_id} if session_id else {}
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://agent") as client:
        return await client.post("/invocations", json=payload, headers=headers)


async def until(condition: Callable[[], bool]) -> None:
    def wait() -> bool:
        give_up_at = time.monotonic() + 10
        while not condition() and time.monotonic() < give_up_at:
            time.sleep(0.005)  # another thread has to get on
        return condition()

    assert await asyncio.to_thread(wait)


async def test_an_entrypoint_and_its_async_task_are_journaled() -> None:
    app, session_id = BedrockAgentCoreApp(), new_session()
    running: list[asyncio.Task[None]] = []

    @app.async_task
    async def research(question: str) -> None:
        await asyncio.sleep(0)

    @app.entrypoint
    async def handle(payload: dict[str, Any], context: Any) -> dict[str, str]:
        running.append(asyncio.create_task(research(payload["question"])))
        return {"session": context.session_id}

    response = await post(app, {"question": "why", "session_id": session_id, "execution": "e-1"}, session_id)
    await until(lambda: "AGENT_BACKGROUND_TASK_COMPLETED" in types(session_id))

    assert response.json() == {"session": session_id}
    assert types(session_id) == [
        "AGENT_ENTRYPOINT_STARTED",
        "AGENT_BACKGROUND_TASK_STARTED",
        "AGENT_BACKGROUND_TASK_COMPLETED",
    ]
    assert {event.payload["execution"] for event in journaled(session_id)} == {"e-1"}


async def test_the_session_is_read_from_agentcore_s_own_header() -> None:
    app, session_id = BedrockAgentCoreApp(), new_session()

    @app.entrypoint
    def handle(payload: object) -> str:
        return "ok"

    await post(app, {"question": "why"}, session_id)

    assert types(session_id) == ["AGENT_ENTRYPOINT_STARTED"]


async def test_a_session_id_beyond_ascii_is_the_one_in_the_payload() -> None:
    app, session_id = BedrockAgentCoreApp(), f"セッション-{uuid.uuid4()}"

    @app.entrypoint
    def handle(payload: object) -> str:
        return "ok"

    await post(app, {"session_id": session_id}, header_text(session_id))

    assert types(session_id) == ["AGENT_ENTRYPOINT_STARTED"]


async def test_an_entrypoint_that_fails_is_journaled_and_responds_as_usual() -> None:
    app, session_id = BedrockAgentCoreApp(), new_session()

    @app.entrypoint
    def handle(payload: dict[str, str]) -> str:
        return payload["question"]

    response = await post(app, {"session_id": session_id})

    assert response.status_code == 500
    assert types(session_id) == ["AGENT_ENTRYPOINT_STARTED", "AGENT_ENTRYPOINT_FAILED"]
    assert journaled(session_id)[-1].payload["error_message"] == "KeyError: 'question'"


async def test_a_task_that_fails_is_journaled() -> None:
    app, session_id = BedrockAgentCoreApp(), new_session()
    running: list[asyncio.Task[None]] = []

    @app.async_task
    async def research() -> None:
        raise RuntimeError("out of luck")

    @app.entrypoint
    async def handle(payload: object) -> str:
        running.append(asyncio.create_task(research()))
        return "accepted"

    await post(app, {"session_id": session_id})
    await until(lambda: "AGENT_BACKGROUND_TASK_FAILED" in types(session_id))

    assert journaled(session_id)[-1].payload["error_message"] == "RuntimeError: out of luck"
    await until(lambda: all(task.done() for task in running))
    assert [repr(task.exception()) for task in running] == ["RuntimeError('out of luck')"]


async def test_an_entrypoint_that_does_the_work_writes_its_end() -> None:
    app, session_id = BedrockAgentCoreApp(does_the_work=True), new_session()

    @app.entrypoint
    async def handle(payload: object) -> str:
        return "done"

    await post(app, {"session_id": session_id})

    assert types(session_id)[-1] == "AGENT_BACKGROUND_TASK_COMPLETED"


async def test_the_app_still_reports_whether_it_is_busy() -> None:
    app = BedrockAgentCoreApp()
    gate, ping = asyncio.Event(), list[str]()

    @app.async_task
    async def research() -> None:
        ping.append(app.get_current_ping_status().value)
        gate.set()

    await research()

    assert ping == ["HealthyBusy"]
    assert app.get_current_ping_status().value == "Healthy"
