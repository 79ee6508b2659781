"""Records CrewAI: crews, tasks, agents, tools and models.

Models are recorded from events, as they are emitted: the event bus calls its listeners in threads of its own,
later and in any order. For what has to be the scope of the code inside it, the public methods are wrapped.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from crewai.agent import Agent
from crewai.crew import Crew
from crewai.events import crewai_event_bus
from crewai.events.types.llm_events import (
    LLMCallCompletedEvent,
    LLMCallFailedEvent,
    LLMCallStartedEvent,
    LLMStreamChunkEvent,
)
from crewai.task import Task
from crewai.tools.base_tool import BaseTool, Tool
from crewai.tools.structured_tool import CrewStructuredTool

from longwatch.model.usage import ModelUsage
from longwatch.recording.call_tracker import CallTracker
from longwatch.recording.calls import report_fault
from longwatch.recording.model_calls import MODEL_CALL_LAYER, ModelCall
from longwatch.recording.open_call import CallBlock, is_recorded_as_tool
from longwatch.telemetry.messages import decode_json, messages_of

NAME_CHARACTERS = 60  # of a task that has a description only
PARAMETERS = (
    *("temperature", "top_p", "max_tokens", "stream", "seed", "stop_sequences"),
    *("frequency_penalty", "presence_penalty"),
)

tracker = CallTracker("crewai")

MakeBlock = Callable[..., CallBlock | None]


def _crew(crew: Any, inputs: object = None, *args: Any, **options: Any) -> CallBlock | None:
    if (
        crew.stream
    ):  # it returns at once, and is called again without the option in a thread or task of its own
        return None
    return CallBlock("agent", crew.name or "crew", input=inputs)


def _task(task: Any, *args: Any, **options: Any) -> CallBlock:
    name = task.name or task.description[:NAME_CHARACTERS]
    given = {"description": task.description, "expected_output": task.expected_output}
    return CallBlock("node", name, input=given, fields={"node_type": "task"})


def _agent(agent: Any, task: Any, context: object = None, *args: Any, **options: Any) -> CallBlock:
    return CallBlock("agent", agent.role.strip(), input={"task": task.description, "context": context})


def _structured_tool(tool: Any, input: object, *args: Any, **options: Any) -> CallBlock | None:
    if is_recorded_as_tool(tool.name):
        return None
    return CallBlock("tool", tool.name, input=decode_json(input))


def _tool(tool: Any, *args: Any, **options: Any) -> CallBlock | None:
    if is_recorded_as_tool(tool.name):
        return None
    return CallBlock("tool", tool.name, input={"args": args, **options} if args else options)


def _wrap(method: Callable[..., Any], make_block: MakeBlock) -> Callable[..., Any]:
    def block_for(args: Any, options: Any) -> CallBlock | None:
        try:
            return make_block(*args, **options)
        except Exception as error:  # noqa: BLE001 - recording never breaks the observed code
            report_fault(error)
            return None

    if inspect.iscoroutinefunction(method):

        @functools.wraps(method)
        async def recorded_async(*args: Any, **options: Any) -> Any:
            block = block_for(args, options)
            if block is None:
                return await method(*args, **options)
            with block:
                result = await method(*args, **options)
                block.output = _output(result)
            return result

        return recorded_async

    @functools.wraps(method)
    def recorded(*args: Any, **options: Any) -> Any:
        block = block_for(args, options)
        if block is None:
            return method(*args, **options)
        with block:
            result = method(*args, **options)
            block.output = _output(result)
        return result

    return recorded


def _output(result: object) -> object:
    """What crews and tasks return has the text in `raw`."""
    return getattr(result, "raw", result)


def on_start(source: Any, event: Any) -> None:
    provider, _, name = (event.model or "model").rpartition("/")
    parameters = {key: value for key in PARAMETERS if (value := getattr(event, key, None)) is not None}
    tools = [(tool.get("function") or tool).get("name") for tool in event.tools or ()]
    tracker.begin(
        event.call_id,
        "model",
        name,
        input=messages_of(event.messages, role="user"),
        fields={
            "provider": provider or getattr(source, "provider", None),
            "parameters": {**parameters, "tools": tools} if tools else parameters or None,
        },
    )
    call = tracker.scope_of(event.call_id)
    if isinstance(call, ModelCall):
        MODEL_CALL_LAYER.set(call)  # never reset: it has no effect once the call has ended


def on_chunk(source: Any, event: Any) -> None:
    tracker.chunk(event.call_id)


def on_completion(source: Any, event: Any) -> None:
    fields = {
        "usage": _usage(event.usage),
        "response_id": event.response_id,
        "finish_reasons": [event.finish_reason] if event.finish_reason else None,
    }
    response = event.response
    output = [{"role": "assistant", "content": response if isinstance(response, str) else str(response)}]
    tracker.end(event.call_id, output=output, fields=fields)


def on_failure(source: Any, event: Any) -> None:
    tracker.end(event.call_id, error=event.error)


def _usage(usage: Mapping[str, Any] | None) -> ModelUsage | None:
    if not usage:
        return None
    given = usage.get("prompt_tokens", usage.get("input_tokens"))
    return ModelUsage(
        input_tokens=given,
        output_tokens=usage.get("completion_tokens", usage.get("output_tokens")),
        cache_read_tokens=usage.get("cached_prompt_tokens") or None,
        cache_write_tokens=usage.get("cache_creation_tokens") or None,
        reasoning_tokens=usage.get("reasoning_tokens") or None,
    )


LISTENERS: Mapping[type, Callable[[Any, Any], None]] = {
    LLMCallStartedEvent: on_start,
    LLMStreamChunkEvent: on_chunk,
    LLMCallCompletedEvent: on_completion,
    LLMCallFailedEvent: on_failure,
}


def _listen(emit: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(emit)
    def emitting(self: Any, source: Any, event: Any) -> Any:
        listener = LISTENERS.get(type(event))
        if listener is not None:
            try:
                listener(source, event)
            except Exception as error:  # noqa: BLE001
                report_fault(error)
        return emit(self, source, event)

    return emitting


METHODS: tuple[tuple[type, str, MakeBlock], ...] = (
    (Crew, "kickoff", _crew),
    (Crew, "akickoff", _crew),
    (Task, "execute_sync", _task),
    (Task, "aexecute_sync", _task),
    (Agent, "execute_task", _agent),
    (Agent, "aexecute_task", _agent),
    (CrewStructuredTool, "invoke", _structured_tool),
    (CrewStructuredTool, "ainvoke", _structured_tool),
    (BaseTool, "run", _tool),
    (BaseTool, "arun", _tool),
    (Tool, "run", _tool),
    (Tool, "arun", _tool),
)
_is_installed = False


def install() -> None:
    """Wrap the methods of crews, tasks, agents and tools, and listen to the events of models."""
    global _is_installed  # noqa: PLW0603 - once for the process
    if _is_installed:
        return
    _is_installed = True
    for owner, name, make_block in METHODS:
        setattr(owner, name, _wrap(getattr(owner, name), make_block))
    bus = type(crewai_event_bus)
    bus.emit = _listen(bus.emit)
    bus.aemit = _listen(bus.aemit)
