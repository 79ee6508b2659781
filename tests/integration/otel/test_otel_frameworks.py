"""Spans as Strands 1.62 and the instrumentation of OpenAI Agents 0.24 emit them, attribute by attribute."""

from __future__ import annotations

from collections.abc import Mapping

from opentelemetry import trace
from opentelemetry.trace import Span, StatusCode

from tests.integration.otel.bench import Bench

OPENAI = {"gen_ai.provider.name": "openai", "gen_ai.system": "openai"}
DEFAULT_AGENT = {"gen_ai.agent.name": "OpenAI Agent", "gen_ai.agent.id": "agent"}


class StrandsTracer:
    """Starts spans without attributes and sets them right afterwards; messages are events of the span."""

    def __init__(self, bench: Bench) -> None:
        self._tracer = bench.tracer

    def start(self, name: str, parent: Span | None, attributes: Mapping[str, str]) -> Span:
        context = trace.set_span_in_context(parent) if parent is not None else None
        span = self._tracer.start_span(name, context=context)
        span.set_attributes({"gen_ai.system": "strands-agents", **attributes})
        return span

    def agent(self) -> Span:
        attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "Ada"}
        return self.start("invoke_agent Ada", None, attributes)

    def chat(self, parent: Span) -> None:
        span = self.start("chat", parent, {"gen_ai.operation.name": "chat"})
        span.add_event("gen_ai.user.message", {"content": '[{"text": "1+2?"}]'})
        span.set_attributes({"gen_ai.usage.input_tokens": 5, "gen_ai.usage.output_tokens": 6})
        span.add_event("gen_ai.choice", {"finish_reason": "tool_use", "message": '[{"toolUse": {}}]'})
        span.end()

    def tool(self, parent: Span, *, error: str | None = None) -> None:
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "add",
            "gen_ai.tool.call.id": "t1",
        }
        span = self.start("execute_tool add", parent, attributes)
        content = '{"a": 1, "b": 2, "password": "hunter2"}'
        span.add_event("gen_ai.tool.message", {"role": "tool", "content": content, "id": "t1"})
        span.add_event("gen_ai.choice", {"message": f'[{{"text": "{error or 3}"}}]', "id": "t1"})
        if error is not None:
            span.set_status(StatusCode.ERROR, error)
        span.end()


def test_strands_tools_keep_their_input_and_output_without_secrets(bench: Bench) -> None:
    strands = StrandsTracer(bench)
    agent = strands.agent()
    strands.tool(agent)
    strands.tool(agent, error="no such number")
    agent.end()

    calls = [event.payload for event in bench.events() if event.type == "tool_call"]
    assert [call["status"] for call in calls] == ["started", "completed", "started", "failed"]
    assert "output" not in calls[0]
    assert calls[1]["input"] == {"a": 1, "b": 2, "password": "[redacted]"}
    assert calls[1]["output"] == [{"text": "3"}]
    assert calls[3]["output"] == [{"text": "no such number"}]


def test_a_strands_model_without_a_name_is_left_unnamed_and_starts_without_tokens(bench: Bench) -> None:
    strands = StrandsTracer(bench)
    agent = strands.agent()
    strands.chat(agent)
    agent.end()

    started, ended = (event.payload for event in bench.events() if event.type == "model_call")
    assert started == {
        "status": "started",
        "operation": "chat",
        "provider": "strands-agents",
        "recorded_by": "otel",
        "input": [{"role": "user", "content": "1+2?"}],
    }
    assert "model" not in ended
    assert (ended["input_tokens"], ended["output_tokens"]) == (5, 6)


def test_an_openai_agent_has_its_own_name_from_its_start(bench: Bench) -> None:
    attributes = {**OPENAI, **DEFAULT_AGENT, "gen_ai.operation.name": "invoke_agent"}
    tool = {**OPENAI, **DEFAULT_AGENT, "gen_ai.operation.name": "execute_tool"}
    with bench.tracer.start_as_current_span("invoke_agent Ada", attributes=attributes) as agent:
        with bench.tracer.start_as_current_span("execute_tool add", attributes=tool) as span:
            span.set_attributes({"gen_ai.tool.name": "add", "gen_ai.tool.call.result": "3"})
        agent.set_attribute("gen_ai.agent.name", "Ada")

    named = [event.agent_name for event in bench.events() if event.call_id is not None]
    assert named == ["Ada"] * 4


def test_an_agent_named_after_its_start_has_its_name_at_the_end(bench: Bench) -> None:
    with bench.tracer.start_as_current_span("invoke_agent") as agent:
        agent.set_attribute("gen_ai.agent.name", "Ada")

    end = next(event for event in bench.events() if event.type == "agent_end")
    assert end.agent_name == "Ada"
