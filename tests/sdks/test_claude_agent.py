"""The Claude Agent SDK, recorded through the adapter. A transport plays the messages of Claude Code."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import claude_agent_sdk
from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, PermissionResultAllow, Transport

import longwatch
from longwatch.integrations import claude_agent
from tests.integration.sdks.recorded import Recorded

claude_agent.install()

USAGE = {"input_tokens": 5, "cache_read_input_tokens": 7, "output_tokens": 3}
SESSION = {"session_id": "s-1"}


class Played(Transport):  # type: ignore[misc]
    """Answers control requests and then plays messages."""

    def __init__(self, *messages: dict[str, Any]) -> None:
        self._messages = messages
        self._send, self._receive = anyio.create_memory_object_stream[dict[str, Any]](100)

    async def connect(self) -> None:
        """There is no process."""

    async def write(self, data: str) -> None:
        sent = json.loads(data)
        if sent["type"] == "control_request":
            response = {"subtype": "success", "request_id": sent["request_id"], "response": {}}
            await self._send.send({"type": "control_response", "response": response})
        elif sent["type"] == "user":
            for message in self._messages:
                await self._send.send(message)

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        async with self._receive:
            async for message in self._receive:
                yield message
                if message["type"] == "result":
                    return

    async def close(self) -> None:
        self._send.close()

    def is_ready(self) -> bool:
        return True

    async def end_input(self) -> None:
        """The messages are played at once."""


def assistant(*content: dict[str, Any], id: str, parent: str | None = None) -> dict[str, Any]:
    message = {
        "id": id,
        "role": "assistant",
        "model": "claude-test",
        "content": list(content),
        "usage": USAGE,
    }
    return {"type": "assistant", "message": message, "parent_tool_use_id": parent, **SESSION}


def uses(name: str, id: str, **arguments: object) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


def returns(id: str, content: str, *, is_error: bool = False, parent: str | None = None) -> dict[str, Any]:
    result = {"type": "tool_result", "tool_use_id": id, "content": content, "is_error": is_error}
    message = {"role": "user", "content": [result]}
    return {"type": "user", "message": message, "parent_tool_use_id": parent, **SESSION}


def ends(result: str, *, is_error: bool = False) -> dict[str, Any]:
    return {
        "type": "result",
        "subtype": "error_during_execution" if is_error else "success",
        "is_error": is_error,
        "result": result,
        "duration_ms": 5,
        "duration_api_ms": 4,
        "num_turns": 2,
        "usage": USAGE,
        **SESSION,
    }


TEXT = {"type": "text", "text": "Done."}


async def ask(*messages: dict[str, Any]) -> list[Any]:
    return [each async for each in claude_agent_sdk.query(prompt="List.", transport=Played(*messages))]


async def test_a_query_is_a_run_with_its_tools_and_models(recorded: Recorded) -> None:
    await ask(
        assistant({"type": "text", "text": "I look."}, id="m-1"),
        assistant(uses("Bash", "t-1", command="ls"), id="m-1"),
        returns("t-1", "a.txt"),
        assistant(TEXT, id="m-2"),
        ends("Done."),
    )

    assert sorted(recorded.tree()) == sorted(
        [
            "agent claude completed",
            "  model claude-test completed",
            "  tool Bash completed",
            "  model claude-test completed",
        ]
    )
    assert recorded.start("agent", "claude").payload["input"] == {"prompt": "List."}
    assert recorded.end("agent", "claude").payload["output"] == "Done."
    assert recorded.start("tool", "Bash").payload["input"] == {"command": "ls"}
    assert recorded.end("tool", "Bash").payload["output"] == "a.txt"
    ends_of_models = [event.payload for event in recorded.events("model_call") if "output" in event.payload]
    assert [(each["response_id"], each["input_tokens"]) for each in ends_of_models] == [
        ("m-1", 12),
        ("m-2", 12),
    ]
    assert longwatch.current_run_id() is None


async def test_tools_of_a_subagent_are_below_the_tool_that_starts_it(recorded: Recorded) -> None:
    await ask(
        assistant(uses("Task", "t-1", prompt="look"), id="m-1"),
        assistant(uses("Read", "t-2", path="a"), uses("Read", "t-3", path="b"), id="m-2", parent="t-1"),
        returns("t-3", "B", parent="t-1"),
        returns("t-2", "A", parent="t-1"),
        returns("t-1", "looked"),
        ends("Done."),
    )

    lines = recorded.tree()
    assert lines.count("    tool Read completed") == 2
    assert "  tool Task completed" in lines


async def test_failures_are_those_of_their_tool_and_of_the_query(recorded: Recorded) -> None:
    await ask(
        assistant(uses("Bash", "t-1", command="x"), id="m-1"),
        returns("t-1", "not found", is_error=True),
        ends("broken", is_error=True),
    )

    assert "  tool Bash failed" in recorded.tree()
    assert recorded.end("tool", "Bash").payload["error_message"] == "not found"
    assert recorded.end("agent", "claude").payload["status"] == "failed"
    assert recorded.events("workflow_error")


async def test_each_query_of_a_client_is_a_call_of_its_own(recorded: Recorded) -> None:
    with longwatch.run("chat"):
        async with ClaudeSDKClient(transport=Played(assistant(TEXT, id="m-1"), ends("Done."))) as client:
            await client.query("List.")
            assert [type(each).__name__ async for each in client.receive_response()]

    assert recorded.tree() == ["agent claude completed", "  model claude-test completed"]


class Asking(Played):
    """Requests a permission, and plays the rest once it has the answer."""

    async def write(self, data: str) -> None:
        sent = json.loads(data)
        if sent["type"] == "control_response":
            for message in self._messages[1:]:
                await self._send.send(message)
            return
        if sent["type"] != "user":
            await super().write(data)
            return
        await self._send.send(self._messages[0])
        wanted = {"subtype": "can_use_tool", "tool_name": "Bash", "input": {}, "tool_use_id": "t-1"}
        await self._send.send({"type": "control_request", "request_id": "r-1", "request": wanted})


async def test_a_run_waits_while_its_permission_callback_decides(recorded: Recorded) -> None:
    asked: list[str] = []

    async def decide(tool: str, given: dict[str, Any], context: Any) -> PermissionResultAllow:
        asked.append(tool)
        return PermissionResultAllow()

    transport = Asking(
        assistant(uses("Bash", "t-1", command="rm a"), id="m-1"), returns("t-1", ""), ends("Done.")
    )
    options = ClaudeAgentOptions(can_use_tool=decide)
    async with ClaudeSDKClient(options=options, transport=transport) as client:
        await client.query("Remove it.")
        assert [type(each).__name__ async for each in client.receive_response()]

    started, ended = recorded.events("waiting_started", "waiting_ended")
    assert asked == ["Bash"]
    assert started.payload == {"reason": "approval", "detail": "Bash"}
    assert started.call_id == ended.call_id
    assert options.can_use_tool is decide
