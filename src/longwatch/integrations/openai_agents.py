"""Records OpenAI Agents: agents, tools, handoffs, guardrails, models, and approvals as waits.

Two public hooks complement each other. A trace processor is called in the context of each agent and tool, so
what runs inside belongs to it. Run hooks have what spans lack: the arguments of a tool before it runs, the
messages and the model of a request, and the output of an agent; the methods of `Runner` pass them on.
`untraced_spans` completes the first while tracing is disabled.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from typing import Any

from agents import RunHooks, Runner, add_trace_processor
from agents.items import ModelResponse
from agents.lifecycle import RunHooksBase
from agents.models import get_default_model
from agents.run_state import RunState
from agents.tracing import Span, Trace, TracingProcessor, get_trace_provider

from longwatch.integrations.span_exceptions import SpanExceptions, note_exceptions
from longwatch.integrations.untraced_spans import show_untraced_spans
from longwatch.model.usage import ModelUsage
from longwatch.recording.active_run import ActiveRun
from longwatch.recording.calls import report_fault, reported_faults
from longwatch.recording.capture import capture_value
from longwatch.recording.decorators import ambient_scope
from longwatch.recording.model_calls import MODEL_CALL_LAYER, ModelCall, begin_model_call
from longwatch.recording.open_call import Failure, OpenCall
from longwatch.recording.recorder import get_recorder
from longwatch.recording.scope import SCOPE, RecordingScope
from longwatch.recording.waiting import ActiveWait
from longwatch.telemetry.messages import decode_json, message_of

MAX_SPANS = 10_000  # open spans; beyond that the oldest are dropped, because some never end
PLACEHOLDER_IDS = ("__fake_id__", "resp-789", "scripted-response")  # of models that have none, and of fakes
PARAMETERS = ("temperature", "top_p", "max_tokens", "tool_choice", "parallel_tool_calls", "truncation")


class RunnerCall:
    """One call of `Runner`: a run of its own, unless there is one around it."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._agent_name: str = getattr(options.get("starting_agent"), "name", None) or "agent"
        given = options.get("input")
        self.is_resumed = isinstance(given, RunState)
        self.input = None if self.is_resumed else {"input": given}
        config = options.get("run_config")
        self.model = config.get("model") if isinstance(config, dict) else getattr(config, "model", None)
        self.is_streamed = False
        self.open_model: ModelCall | None = None
        self.response_model: str | None = None
        self.model_error: str | None = None
        self.error: Failure | None = None  # of the last agent
        self._run: ActiveRun | None = None
        self._scope: Token[RecordingScope | None] | None = None
        self._current: Token[RunnerCall | None] | None = None

    def begin(self) -> None:
        """Open a run if there is none, and end the waits of the run that is resumed. Never raises."""
        try:
            _keep_processor()
            outer = SCOPE.get() or ambient_scope()
            if outer is None:
                self._run = ActiveRun(self._agent_name, recorder=get_recorder())
                outer = self._run.begin()
                if outer is None:
                    self._run = None
                    return
            self._scope, self._current = SCOPE.set(outer), _current.set(self)
            if self.is_resumed:
                _end_waits(outer.run_id)
        except Exception as error:  # noqa: BLE001 - recording never breaks the observed code
            report_fault(error)

    def leave(self) -> None:
        """Restore the context of the caller."""
        if self._scope is not None and self._current is not None:
            SCOPE.reset(self._scope)
            _current.reset(self._current)

    def end(self, result: object = None, error: BaseException | None = None) -> None:
        """End the model call and the run that are still open. Never raises."""
        try:
            self.fail_model(error)
            run, self._run = self._run, None
            if run is None:
                return
            recorder = run.recorder
            limits = recorder.limits()
            if result is not None and limits is not None:
                payload, run.captured_weight = capture_value(result, limits, recorder.secrets)
                run.set_result(payload)
            failure = error or self.error
            if isinstance(failure, str):
                run.fail(failure)
                failure = None
            run.end(failure)
        except Exception as fault:  # noqa: BLE001
            report_fault(fault)

    def fail_model(self, error: BaseException | None = None) -> None:
        """Fail the model call if it is still open. The exception says more than the error of its span."""
        call, self.open_model = self.open_model, None
        if call is not None:
            call.fail(error or self.model_error or "the end of the call was not reported")


_current: ContextVar[RunnerCall | None] = ContextVar("longwatch_openai_agents", default=None)
_waits: OrderedDict[str, list[ActiveWait]] = OrderedDict()  # approvals that runs wait for
_outputs: dict[str, object] = {}  # of agents, by the id of their call, until their span ends


class RecordingProcessor(TracingProcessor):
    """Records agents, tools, handoffs and guardrails from spans. The SDK calls it in their context."""

    def __init__(self) -> None:
        # Open spans: the scope of what is inside each, and how to restore the one around it.
        self._scopes: OrderedDict[str, RecordingScope | None] = OrderedDict()
        self._tokens: dict[str, Token[RecordingScope | None]] = {}
        self.exceptions = SpanExceptions()

    def on_span_start(self, span: Span[Any]) -> None:
        try:
            self._start(span)
        except Exception as error:  # noqa: BLE001 - recording never breaks the observed code
            report_fault(error)

    def on_span_end(self, span: Span[Any]) -> None:
        try:
            self._end(span)
        except Exception as error:  # noqa: BLE001
            report_fault(error)

    def on_trace_start(self, trace: Trace) -> None:
        """A trace is a group of runs; the methods of `Runner` begin and end runs."""

    def on_trace_end(self, trace: Trace) -> None:
        """See `on_trace_start`."""

    def shutdown(self) -> None:
        """The recorder stores everything when the process exits."""

    def force_flush(self) -> None:
        """See `shutdown`."""

    def _start(self, span: Span[Any]) -> None:
        data, outer = span.span_data, SCOPE.get()
        if data.type != "task" and span.parent_id is not None:
            outer = self._scopes.get(span.parent_id, outer)
        call: OpenCall | None = None
        if outer is not None:
            call = _begin_call(data, outer)
        self._scopes[span.span_id] = call or outer
        if len(self._scopes) > MAX_SPANS:
            self._scopes.popitem(last=False)
        if call is not None:
            self._tokens[span.span_id] = SCOPE.set(call)
            self.exceptions.start(span.span_id)
        runner = _current.get()
        if data.type in ("response", "generation") and runner is not None:
            MODEL_CALL_LAYER.set(runner.open_model)  # has no effect once the call has ended

    def _end(self, span: Span[Any]) -> None:
        call = self._scopes.pop(span.span_id, None)
        token = self._tokens.pop(span.span_id, None)
        data, runner = span.span_data, _current.get()
        raised = self.exceptions.end(span.span_id)
        if runner is not None and runner.is_streamed and isinstance(raised, asyncio.CancelledError):
            raised = None  # its consumer stopped reading
        is_own = data.type in ("agent", "function")
        error: Failure | None = raised if is_own and raised is not None else _error_text(span.error)
        if token is not None and isinstance(call, OpenCall):
            try:
                SCOPE.reset(token)
            except ValueError:  # the span ends in another context than it began in
                pass
            _end_call(call, data, error)
        if runner is None:
            return
        if data.type == "task":
            if runner.is_streamed:  # otherwise the method of `Runner` ends it
                runner.end()
        elif data.type == "agent":
            runner.error = error
        elif data.type in ("response", "generation"):
            runner.response_model = getattr(getattr(data, "response", None), "model", None)
            runner.model_error = _error_text(span.error)  # the SDK may retry


_processor = RecordingProcessor()


def _keep_processor() -> None:
    """Add the processor again if the program or an instrumentation has replaced those of the SDK."""
    provider: Any = get_trace_provider()
    processors = getattr(getattr(provider, "_multi_processor", None), "_processors", None)
    if isinstance(processors, tuple) and _processor not in processors:
        provider.set_processors([_processor, *processors])


def _begin_call(data: Any, outer: RecordingScope) -> OpenCall | None:
    """The call of a span; None for spans that are not recorded."""
    runner = _current.get()
    match data.type:
        case "agent":
            call = OpenCall("agent", data.name, outer)
            given = None
            if runner is not None:  # the first agent gets the input, the others the conversation so far
                given, runner.input = runner.input, None
            call.start({"input": given}, {})
        case "function":  # its arguments are not known yet: `on_tool_start` records the start
            call = OpenCall("tool", data.name, outer)
        case "handoff":
            call = OpenCall("node", "handoff", outer)
            call.start({}, {"node_type": "handoff", "from_agent": data.from_agent})
        case "guardrail":
            call = OpenCall("node", data.name, outer)
            call.start({}, {"node_type": "guardrail"})
        case _:
            return None
    return call


def _end_call(call: OpenCall, data: Any, error: Failure | None) -> None:
    match data.type:
        case "agent":
            call.finish(output=_outputs.pop(call.call_id or "", None), error=error)
        case "function":
            is_pending = not call.has_started and error is None
            if not call.has_started:
                call.start({"input": decode_json(data.input)}, {})
            call.finish(output=data.output, error=error, fields={"interrupted": True} if is_pending else None)
            if is_pending:
                _begin_wait(call)
        case "handoff":
            call.finish(error=error, fields={"from_agent": data.from_agent, "to_agent": data.to_agent})
        case _:
            call.finish(error=error, fields={"triggered": data.triggered})


def _begin_wait(tool: OpenCall) -> None:
    """A tool that was to run and did not waits for an approval."""
    _waits.setdefault(tool.run_id, []).append(ActiveWait("approval", detail=tool.name, scope=tool).begin())
    while len(_waits) > MAX_SPANS:
        _waits.popitem(last=False)


def _end_waits(run_id: str) -> None:
    for wait in _waits.pop(run_id, ()):
        wait.end()


class RecordingHooks(RunHooks[Any]):
    """Records models, and what spans lack of tools and agents; then calls the hooks of the program."""

    def __init__(self, runner: RunnerCall, own: RunHooksBase[Any, Any] | None) -> None:
        self._runner = runner
        self._own = own if own is not None else RunHooks[Any]()

    async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, input_items: Any) -> None:
        with reported_faults():
            self._begin_model(agent, system_prompt, input_items)
        await self._own.on_llm_start(context, agent, system_prompt, input_items)

    async def on_llm_end(self, context: Any, agent: Any, response: ModelResponse) -> None:
        call, self._runner.open_model = self._runner.open_model, None
        if call is not None:
            call.succeed(**_read_response(response), response_model=self._runner.response_model)
        await self._own.on_llm_end(context, agent, response)

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        call = SCOPE.get()
        if isinstance(call, OpenCall) and call.kind == "tool" and not call.has_started:
            with reported_faults():
                fields = {"tool_call_id": getattr(context, "tool_call_id", None)}
                call.start({"input": decode_json(getattr(context, "tool_arguments", None))}, fields)
        await self._own.on_tool_start(context, agent, tool)

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        await self._own.on_tool_end(context, agent, tool, result)

    async def on_agent_start(self, context: Any, agent: Any) -> None:
        await self._own.on_agent_start(context, agent)

    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
        call = SCOPE.get()
        if isinstance(call, OpenCall) and call.kind == "agent" and call.call_id is not None:
            _outputs[call.call_id] = output
        await self._own.on_agent_end(context, agent, output)

    async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:
        await self._own.on_handoff(context, from_agent, to_agent)

    def _begin_model(self, agent: Any, system_prompt: Any, items: Any) -> None:
        model = self._runner.model or agent.model or get_default_model()
        settings = agent.model_settings
        parameters = {
            name: value for name in PARAMETERS if (value := getattr(settings, name, None)) is not None
        }
        tools = [tool.name for tool in agent.tools]
        instructions = [{"role": "system", "content": system_prompt}] if system_prompt else []
        self._runner.fail_model()
        self._runner.response_model = self._runner.model_error = None
        self._runner.open_model = begin_model_call(
            model if isinstance(model, str) else str(getattr(model, "model", type(model).__name__)),
            recorded_by="openai_agents",
            provider=_provider(model),
            parameters={**parameters, "tools": tools} if tools else parameters,
            input=[*instructions, *(_message(item) for item in items)],
        )


def _provider(model: Any) -> str | None:
    """OpenAI for its own models; a name such as `litellm/anthropic/…` has the provider."""
    if isinstance(model, str):
        parts = model.split("/")
        return "openai" if len(parts) == 1 else parts[-2]
    return "openai" if type(model).__module__.startswith("agents.models.openai") else None


def _read_response(response: ModelResponse) -> dict[str, Any]:
    try:
        usage = response.usage
        is_known = usage.requests > 0 and usage.total_tokens > 0
        read, written = usage.input_tokens_details, usage.output_tokens_details
        counts = ModelUsage(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=getattr(read, "cached_tokens", None) or None,
            cache_write_tokens=getattr(read, "cache_write_tokens", None) or None,
            reasoning_tokens=getattr(written, "reasoning_tokens", None) or None,
        )
        return {
            "usage": counts if is_known else None,
            "output": [_message(item) for item in response.output],
            "response_id": None if response.response_id in PLACEHOLDER_IDS else response.response_id,
        }
    except Exception as error:  # noqa: BLE001 - the end is recorded all the same
        report_fault(error)
        return {}


def _message(item: Any) -> dict[str, object]:
    """An item of a conversation in the form of OpenAI's responses, as a message."""
    fields = item if isinstance(item, Mapping) else item.model_dump(exclude_none=True)
    match fields.get("type"):
        case "function_call":
            part = {"type": "tool_call", "id": fields.get("call_id"), "name": fields.get("name")}
            arguments = decode_json(fields.get("arguments"))
            return {"role": "assistant", "content": [{**part, "arguments": arguments}]}
        case "function_call_output":
            part = {"type": "tool_result", "id": fields.get("call_id"), "result": fields.get("output")}
            return {"role": "tool", "content": [part]}
        case "reasoning":
            texts = [str(part.get("text", "")) for part in fields.get("summary") or ()]
            return {"role": "assistant", "content": [{"type": "reasoning", "text": "\n".join(texts)}]}
        case None | "message":
            return message_of(fields, role="assistant")
    return {"role": "assistant", "content": [dict(fields)]}


def _error_text(error: Any) -> str | None:
    """The message of a span's error, and the error itself if the SDK states it."""
    if error is None:
        return None
    detail = (error.get("data") or {}).get("error")
    return f"{error.get('message')}: {detail}" if detail else str(error.get("message"))


def _begin_runner(signature: inspect.Signature, args: Any, options: Any) -> tuple[RunnerCall, Any] | None:
    """A call of `Runner` and its arguments with our hooks; None if the arguments are invalid."""
    try:
        bound = signature.bind(*args, **options)
        own = bound.arguments.get("hooks")
        if own is not None and not isinstance(own, RunHooksBase):
            return None  # the SDK reports it
        runner = RunnerCall(bound.arguments)
        bound.arguments["hooks"] = RecordingHooks(runner, own)
    except Exception as error:  # noqa: BLE001 - recording never breaks the observed code
        if not isinstance(error, TypeError):
            report_fault(error)
        return None
    return runner, bound


def _record_run(run: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(run)

    @functools.wraps(run)
    async def recorded(*args: Any, **options: Any) -> Any:
        found = _begin_runner(signature, args, options)
        if found is None:
            return await run(*args, **options)
        runner, bound = found
        runner.begin()
        try:
            result = await run(*bound.args, **bound.kwargs)
        except BaseException as error:
            runner.end(error=error)
            raise
        finally:
            runner.leave()
        runner.end(result.final_output)
        return result

    return recorded


def _record_run_sync(run: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(run)

    @functools.wraps(run)
    def recorded(*args: Any, **options: Any) -> Any:
        found = _begin_runner(signature, args, options)
        if found is None:
            return run(*args, **options)
        runner, bound = found
        runner.begin()
        try:
            result = run(*bound.args, **bound.kwargs)
        except BaseException as error:
            runner.end(error=error)
            raise
        finally:
            runner.leave()
        runner.end(result.final_output)
        return result

    return recorded


def _record_run_streamed(run: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(run)

    @functools.wraps(run)
    def recorded(*args: Any, **options: Any) -> Any:
        found = _begin_runner(signature, args, options)
        if found is None:
            return run(*args, **options)
        runner, bound = found
        runner.is_streamed = True  # it ends with its span: the run continues in its own task
        runner.begin()
        try:
            return run(*bound.args, **bound.kwargs)
        except BaseException as error:
            runner.end(error=error)
            raise
        finally:
            runner.leave()

    return recorded


_is_installed = False


def install() -> None:
    """Add the trace processor, and pass hooks to every run."""
    global _is_installed  # noqa: PLW0603 - once for the process
    if _is_installed:
        return
    _is_installed = True
    add_trace_processor(_processor)
    note_exceptions(_processor.exceptions)
    show_untraced_spans(_processor, lambda: _current.get() is not None)
    wrappers = {"run": _record_run, "run_sync": _record_run_sync, "run_streamed": _record_run_streamed}
    for name, wrapper in wrappers.items():
        setattr(Runner, name, classmethod(wrapper(Runner.__dict__[name].__func__)))
