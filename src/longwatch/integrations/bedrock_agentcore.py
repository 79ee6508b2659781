"""A drop-in replacement for the app of Amazon Bedrock AgentCore that journals its sessions.

    from longwatch.integrations.bedrock_agentcore import BedrockAgentCoreApp

    app = BedrockAgentCoreApp()

    @app.entrypoint
    async def handle(payload, context): ...

    @app.async_task
    async def research(question): ...

The entrypoint writes AGENT_ENTRYPOINT_STARTED and, if it fails, AGENT_ENTRYPOINT_FAILED; an async task writes
AGENT_BACKGROUND_TASK_STARTED and COMPLETED or FAILED. On SIGTERM, running tasks are journaled as failed
before the server shuts down. LONGWATCH_TABLE_NAME and LONGWATCH_REGION name the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from longwatch.errors import MissingExtra
from longwatch.recording.sessions.agent import (
    OpenRecorder,
    agent_entrypoint,
    background_task,
    chain_sigterm,
    session_recorder,
)
from longwatch.recording.sessions.recorder import SessionRecorder

try:
    from bedrock_agentcore.runtime import BedrockAgentCoreApp as _App
    from bedrock_agentcore.runtime.context import BedrockAgentCoreContext
except ImportError as error:
    raise MissingExtra("longwatch.integrations.bedrock_agentcore", "agentcore") from error


class BedrockAgentCoreApp(_App):
    """AgentCore's app, whose entrypoint and async tasks are journaled."""

    def __init__(self, *args: Any, does_the_work: bool = False, **options: Any) -> None:
        """`does_the_work`: there is no async task, the entrypoint itself is the work."""
        super().__init__(*args, **options)
        self._does_the_work = does_the_work

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        # Entrypoints run in threads; this is the server's own, after it has set its SIGTERM handler.
        chain_sigterm()
        await super().__call__(scope, receive, send)

    def entrypoint(self, func: Callable[..., Any]) -> Callable[..., Any]:
        open_recorder: OpenRecorder = recorder_of
        journaled = agent_entrypoint(does_the_work=self._does_the_work, open_recorder=open_recorder)(func)
        return super().entrypoint(journaled)

    def async_task(self, func: Callable[..., Any]) -> Callable[..., Any]:
        return super().async_task(background_task(func))


def recorder_of(payload: object, context: object = None) -> SessionRecorder | None:
    """The recorder for a request's session, named by its payload, otherwise by AgentCore's header."""
    request = payload if isinstance(payload, Mapping) else {}
    if request.get("session_id"):
        return session_recorder(request)
    session_id = getattr(context, "session_id", None) or BedrockAgentCoreContext.get_session_id()
    return session_recorder({**request, "session_id": session_id} if session_id else request)
