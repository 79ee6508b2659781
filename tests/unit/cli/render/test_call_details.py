"""One call of a model in full."""

from __future__ import annotations

from datetime import UTC
from decimal import Decimal

from longwatch.cli.render.call_details import call_lines
from longwatch.cli.render.styles import paint
from longwatch.journal.call_views import CallDetails
from longwatch.model.event import Event
from longwatch.model.run import fold
from tests.unit.cli.samples import START_MS

MESSAGES = [{"role": "user", "parts": [{"type": "text", "content": "Two\nlines"}]}]
REPLY = [{"role": "assistant", "parts": [{"type": "tool_call", "name": "search", "arguments": {"q": "gas"}}]}]


def event(number: int, **payload: object) -> Event:
    return Event(
        run_id="r",
        event_id=f"e{number}",
        type="model_call",
        occurred_at=START_MS + number,
        call_id="m1",
        payload=payload,
    )


def test_a_call_of_a_model_has_its_messages_and_its_tokens() -> None:
    events = [
        event(
            0,
            status="started",
            model="m",
            provider="p",
            parameters={"temperature": Decimal("0.50")},
            input=MESSAGES,
        ),
        event(
            9,
            status="completed",
            output=REPLY,
            input_tokens=1200,
            output_tokens=3,
            duration_ms=9,
            time_to_first_token_ms=4,
            finish_reasons=["tool_calls"],
        ),
    ]
    run = fold(events)
    assert run is not None

    lines = call_lines(CallDetails.of(run, run.calls["m1"], events), width=None, zone=UTC)

    assert [paint(line, colour=False) for line in lines] == [
        "✓ completed  m",
        "kind        model",
        "call        m1",
        "run         r",
        "started     2026-11-15 10:02:11.000",
        "ended       2026-11-15 10:02:11.009",
        "took        9 ms",
        "provider    p",
        "tokens      1,200 input, 3 output",
        "first token after 4 ms",
        "finish      tool_calls",
        "",
        "Parameters",
        "  {",
        '    "temperature": {',
        '      "$decimal": "0.50"',
        "    }",
        "  }",
        "",
        "Input",
        "  user",
        "    Two",
        "    lines",
        "",
        "Output",
        "  assistant",
        "    {",
        '      "arguments": {',
        '        "q": "gas"',
        "      },",
        '      "name": "search",',
        '      "type": "tool_call"',
        "    }",
    ]
