"""Usage, waits and prices in the commands that read runs."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from longwatch.cli.render.header import header
from longwatch.cli.render.styles import paint
from longwatch.cli.render.usage import cost_text, usage_text
from longwatch.errors import InvalidInput
from longwatch.journal.sqlite import SqliteJournal
from longwatch.model.event import Event
from longwatch.model.prices import Price, Prices
from longwatch.model.run import fold
from longwatch.model.totals import totals_of
from longwatch.testing.clock import FakeClock
from tests.unit.cli.invocation import invoke
from tests.unit.cli.samples import START_MS

PRICES = Prices({"gpt-4o": Price(Decimal("2.5"), Decimal(10))})


def event(type_: str, at: int, call: str | None = None, **payload: object) -> Event:
    return Event(
        run_id="wf-usage",
        event_id=f"{type_}-{at}",
        type=type_,
        occurred_at=START_MS + at,
        call_id=call,
        agent_name="writer" if type_ == "model_call" else None,
        payload=payload,
    )


def model_calls(number: int, **payload: object) -> list[Event]:
    given = {"model": "gpt-4o", "provider": "openai", "input_tokens": 1_000, "output_tokens": 100} | payload
    return [
        event("model_call", number * 10, f"c{number}", status="started", model=str(given["model"])),
        event("model_call", number * 10 + 5, f"c{number}", status="completed", **given),
    ]


def waiting_run() -> list[Event]:
    return [
        event("workflow_start", 0, name="book"),
        *model_calls(1),
        *model_calls(2, model="in-house"),
        event("waiting_ended", 40, "w0", reason="lock", duration_ms=5_000),
        event("waiting_started", 50, "w1", reason="approval", detail="print it"),
    ]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LONGWATCH_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    with SqliteJournal(tmp_path / "runs.db") as journal:
        journal.append(waiting_run())
    (tmp_path / "litellm.json").write_text(
        json.dumps({"gpt-4o": {"input_cost_per_token": 2.5e-06, "output_cost_per_token": 1e-05}})
    )
    return tmp_path


@pytest.mark.parametrize(
    ("events", "text"),
    [
        (model_calls(1), "1,100 tokens; $0.0035 for 1 call"),
        (
            [*model_calls(1), *model_calls(2), *model_calls(3, model="x")],
            "3,300 tokens; $0.0070 for 2 of 3 calls, 1 has no known price",
        ),
        (model_calls(1, model="x"), "1,100 tokens in 1 model call; no known price"),
        (
            [*model_calls(1), *model_calls(2)[:1], *model_calls(3)[:1]],
            "1,100 tokens in 1 of 3 model calls; $0.0035 for 1 of 3 calls",
        ),
        (model_calls(1)[:1], "1 model call without token counts"),
    ],
)
def test_a_sum_is_shown_with_its_coverage(events: list[Event], text: str) -> None:
    assert usage_text(totals_of(events).usage, PRICES) == text


@pytest.mark.parametrize(
    ("cost", "text"),
    [
        ("0", "$0.00"),
        ("0.62", "$0.62"),
        ("1204.5", "$1,204.50"),
        ("0.0042", "$0.0042"),
        ("0.9949", "$0.99"),
        ("0.9999", "$1.00"),
        ("0.000001", "<$0.00001"),
    ],
)
def test_costs_are_short(cost: str, text: str) -> None:
    assert cost_text(Decimal(cost)) == text


def test_show_has_usage_and_waits(data: Path) -> None:
    invoke("prices", "import", "litellm.json")
    clock = FakeClock(START_MS + 600_050)

    shown = invoke("show", "--journal", "sqlite:///runs.db", "wf-usage", clock=clock).stdout

    assert "usage     2,200 tokens; $0.0035 for 1 of 2 calls, 1 has no known price" in shown
    assert "waited    10 min 00 s of 10 min 00 s for approval, 5.0 s of 10 min 00 s for lock" in shown
    assert "waiting   for approval: print it, for 10 min 00 s" in shown
    assert "silent" not in shown
    assert "gpt-4o" in shown


def test_show_lists_the_agents_with_their_usage() -> None:
    events = [event("workflow_start", 0)]
    for number, agent in enumerate(["reader", "writer", "writer"]):
        events += [replace(each, agent_name=agent) for each in model_calls(number + 1)]
    run = fold(events)
    assert run is not None

    lines = [paint(line, colour=False) for line in header(run, now_ms=START_MS, width=100, prices=PRICES)]

    at = next(number for number, line in enumerate(lines) if line.startswith("usage"))
    assert lines[at + 1 : at + 3] == [
        "          writer: 2,200 tokens; $0.0070 for 2 calls",
        "          reader: 1,100 tokens; $0.0035 for 1 call",
    ]


def test_show_as_json_has_usage_waits_and_the_facts_of_model_calls(data: Path) -> None:
    invoke("prices", "import", "litellm.json")

    shown = json.loads(invoke("show", "--journal", "sqlite:///runs.db", "wf-usage", "-o", "json").stdout)

    rates = shown["usage"]["rates"]
    assert [(each["model"], each["input"]) for each in rates] == [("gpt-4o", 2.5)]
    assert shown["usage"] == {
        "rates": rates,
        "threads": [],
        "model_calls": 2,
        "calls_with_tokens": 2,
        "input_tokens": 2_000,
        "output_tokens": 200,
        "cache_read_tokens": 0,
        "cache_write_tokens": 0,
        "reasoning_tokens": 0,
        "cost": 0.0035,
        "priced_calls": 1,
        "currency": "USD",
    }
    assert shown["usage_by_agent"] == {"writer": {**shown["usage"], "rates": []}}
    assert shown["waiting"] == [{"reason": "approval", "detail": "print it", "since": START_MS + 50}]
    assert shown["waiting_ms"] == {"lock": 5_000}
    assert [each["name"] for each in shown["conditions"]] == ["waiting"]
    first, second = (call for call in shown["calls"] if call["kind"] == "model")
    assert (first["model"], first["provider"], first["cost"]) == ("gpt-4o", "openai", 0.0035)
    assert first["usage"]["input_tokens"] == 1_000
    assert first["usage"]["cache_read_tokens"] is None
    assert second["cost"] is None


def test_runs_have_columns_for_usage_and_name_the_wait(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    invoke("prices", "import", "litellm.json")

    shown = invoke("runs", "--journal", "sqlite:///runs.db")

    assert "TOKENS" in shown.stdout
    assert "2,200" in shown.stdout
    assert "$0.0035+" in shown.stdout
    assert "waiting for approval" in shown.stdout
    assert "Usage of these runs: 2,200 tokens; $0.0035 for 1 of 2 calls" in shown.stderr


def test_a_list_without_model_calls_has_no_columns_for_usage(file: str) -> None:
    shown = invoke("runs", "--journal", file)

    assert "TOKENS" not in shown.stdout
    assert "Usage" not in shown.stderr


def test_prices_are_listed_with_their_origin(data: Path) -> None:
    (data / "longwatch.toml").write_text('[prices."in-house"]\ninput = 0.1\noutput = 0.2\n')
    invoke("prices", "import", "litellm.json")

    shown = invoke("prices").stdout
    found = json.loads(invoke("prices", "list", "-q", "HOUSE", "-o", "json").stdout)

    assert "gpt-4o" in shown
    assert "imported" in shown
    assert found == {"in-house": {"input": 0.1, "output": 0.2, "origin": "settings"}}


def test_without_prices_the_list_names_the_command_that_adds_some(data: Path) -> None:
    assert "longwatch prices import FILE" in invoke("prices").stderr


def test_an_invalid_file_of_prices_changes_nothing(data: Path) -> None:
    invoke("prices", "import", "litellm.json")
    (data / "broken.json").write_text('{"gpt-4o": {"input_cost_per_token": -1}}')

    with pytest.raises(InvalidInput, match="Nothing was imported"):
        invoke("prices", "import", "broken.json")

    assert "2.5" in invoke("prices").stdout
