"""Records smolagents: agents, tools and models.

Step callbacks report a step when it is over and have no context, so the public methods that run an agent, a
tool and a model are wrapped.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from smolagents.agents import MultiStepAgent
from smolagents.tools import Tool

from longwatch.model.usage import ModelUsage
from longwatch.recording.calls import report_fault, reported_faults
from longwatch.recording.model_calls import MODEL_CALL_LAYER, ModelCall, begin_model_call, end_layer
from longwatch.recording.open_call import CallBlock, is_recorded_as_tool
from longwatch.recording.scope import SCOPE, RecordingScope
from longwatch.telemetry.messages import message_of

PROVIDERS = {
    "OpenAIModel": "openai",
    "OpenAIServerModel": "openai",
    "AzureOpenAIModel": "azure.ai.openai",
    "AzureOpenAIServerModel": "azure.ai.openai",
    "AmazonBedrockModel": "aws.bedrock",
    "AmazonBedrockServerModel": "aws.bedrock",
}
PARAMETERS = ("temperature", "top_p", "max_tokens", "stop_sequences")


def _record_run(run: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(run)
    def recorded(self: Any, task: str, stream: bool = False, *args: Any, **options: Any) -> Any:
        _record_model(self.model)
        block = CallBlock("agent", self.name or type(self).__name__, input={"task": task})
        if stream:
            return _stream(block, functools.partial(run, self, task, stream, *args, **options))
        with block:
            result = run(self, task, stream, *args, **options)
            block.output = getattr(result, "output", result)
        return result

    return recorded


def _stream(block: CallBlock, run: Callable[[], Iterator[Any]]) -> Iterator[Any]:
    """The steps of an agent. Code between the steps belongs to the caller."""
    outer = SCOPE.get()
    with block:
        scope, steps = SCOPE.get(), run()
        while True:
            _set_scope(scope)
            try:
                step = next(steps)
            except StopIteration:
                return
            finally:
                _set_scope(outer)
            block.output = getattr(step, "output", None)
            yield step


def _set_scope(scope: RecordingScope | None) -> None:
    SCOPE.set(scope)


def _record_tool(call: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call)
    def recorded(self: Any, *args: Any, **options: Any) -> Any:
        if is_recorded_as_tool(self.name):  # a tool that calls the method of its base class
            return call(self, *args, **options)
        given = {name: value for name, value in options.items() if name != "sanitize_inputs_outputs"}
        named = {**dict(zip(self.inputs, args, strict=False)), **given}
        with CallBlock("tool", self.name, input=named) as block:
            block.output = call(self, *args, **options)
        return block.output

    return recorded


def _record_model(model: Any) -> None:
    """Wrap the methods of one model: every class of models has methods of its own."""
    try:
        for name, wrap in (("generate", _record_generate), ("generate_stream", _record_stream)):
            method = getattr(model, name, None)
            if method is not None and not hasattr(method, "__wrapped__"):
                setattr(model, name, wrap(model, method))
    except Exception as error:  # noqa: BLE001 - recording never breaks the observed code
        report_fault(error)


def _record_generate(model: Any, generate: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(generate)
    def recorded(messages: Any, *args: Any, **options: Any) -> Any:
        call = _begin(model, messages, options)
        if call is None:
            return generate(messages, *args, **options)
        token = MODEL_CALL_LAYER.set(call)
        try:
            response = generate(messages, *args, **options)
        except BaseException as error:
            call.fail(error)
            raise
        finally:
            MODEL_CALL_LAYER.reset(token)
        output: list[dict[str, object]] | None = None
        with reported_faults():
            output = [_message(response)]
        call.succeed(usage=_usage(response), output=output)
        return response

    return recorded


def _record_stream(model: Any, generate: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(generate)
    def recorded(messages: Any, *args: Any, **options: Any) -> Iterator[Any]:
        call = _begin(model, messages, {**options, "stream": True})
        if call is None:
            yield from generate(messages, *args, **options)
            return
        MODEL_CALL_LAYER.set(call)  # has no effect once the call has ended
        text, usage = [], None
        try:
            for delta in generate(messages, *args, **options):
                call.chunk()
                end_layer(call)
                text.append(getattr(delta, "content", None) or "")
                usage = _usage(delta) or usage
                yield delta
        except BaseException as error:
            call.fail(error, usage=usage)
            raise
        call.succeed(usage=usage, output=[{"role": "assistant", "content": "".join(map(str, text))}])

    return recorded


def _begin(model: Any, messages: Any, options: dict[str, Any]) -> ModelCall | None:
    try:
        known = {**(getattr(model, "kwargs", None) or {}), **options}
        parameters = {name: known[name] for name in (*PARAMETERS, "stream") if known.get(name) is not None}
        tools = [tool.name for tool in options.get("tools_to_call_from") or ()]
        return begin_model_call(
            getattr(model, "model_id", None) or type(model).__name__,
            recorded_by="smolagents",
            provider=PROVIDERS.get(type(model).__name__),
            parameters={**parameters, "tools": tools} if tools else parameters,
            input=[_message(message) for message in messages],
        )
    except Exception as error:  # noqa: BLE001
        report_fault(error)
        return None


def _message(message: Any) -> dict[str, object]:
    if isinstance(message, dict):
        return message_of(message, role="user")
    calls = [
        {"id": call.id, "name": call.function.name, "arguments": call.function.arguments}
        for call in message.tool_calls or ()
    ]
    role = getattr(message.role, "value", message.role)
    return message_of({"role": role, "content": message.content, "tool_calls": calls}, role="user")


def _usage(message: Any) -> ModelUsage | None:
    usage = getattr(message, "token_usage", None)
    if usage is None:
        return None
    return ModelUsage(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)


def install() -> None:
    """Wrap the methods that run agents and tools."""
    if not hasattr(MultiStepAgent.run, "__wrapped__"):
        MultiStepAgent.run = _record_run(MultiStepAgent.run)
        Tool.__call__ = _record_tool(Tool.__call__)
