from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.cli.render.styles import line_columns, paint
from longwatch.cli.render.waterfall import waterfall
from longwatch.model.call_selection import OutlineOptions
from longwatch.model.event import Event
from longwatch.model.prices import Price, Prices
from longwatch.model.run import Run, fold
from tests.unit.cli.samples import START_MS, Story, killed, research


def run_of(events: list[Event]) -> Run:
    run = fold(events)
    assert run is not None
    return run


def shown(events: list[Event], width: int, *, now_ms: int = START_MS + 60_000) -> list[str]:
    lines, _ = waterfall(run_of(events), now_ms=now_ms, width=width)
    return [paint(line, colour=False) for line in lines]


def test_tree_durations_and_bars_stand_in_columns() -> None:
    assert shown(research(), 72) == [
        "                                   0                              10.2 s",
        "✓ planner                    1.2 s ████▍",
        "└─ ✓ outline                850 ms ▐██▌",
        "✓ researcher                 9.0 s     ▐████████████████████████████████",
        "├─ ✗ web.search (try 1)      3.0 s     ▐██████████▎",
        "│    TimeoutError: no answer in 3 s",
        "├─ ✓ web.search (try 2)      1.3 s                  ████▋",
        "└─ ✓ 資料を読む              4.2 s                      ▐██████████████▊",
    ]


def test_a_phone_shows_the_same_with_shorter_bars() -> None:
    lines = shown(research(), 40)

    assert lines[3] == "✓ researcher            9.0 s  ▐████████"
    assert lines[4].startswith("├ ✗ web.search #1       3.0 s ")


def test_an_error_is_one_line_below_its_row() -> None:
    story = Story()
    story.tool("publish", agent="writer", call="t1", takes=5, error="refused\n  at line 3")

    assert shown(story.events, 60)[-1] == "  refused at line 3"


def with_models() -> list[Event]:
    story = Story()
    story.add("workflow_start", {"name": "answer"})
    story.add("agent_start", {"status": "started"}, agent="writer", call="a1")
    asked = {"operation": "chat", "provider": "openai", "model": "large"}
    story.add("model_call", {**asked, "status": "started"}, agent="writer", call="m1", parent="a1")
    counts = {"input_tokens": 1_000, "output_tokens": 204, "time_to_first_token_ms": 310}
    ended = {**asked, **counts, "status": "completed", "duration_ms": 2_000}
    story.add("model_call", ended, after=2_000, agent="writer", call="m1", parent="a1")
    story.add("model_call", {"status": "started", "model": "small"}, agent="writer")
    failed = {"status": "failed", "model": "small", "error_message": "429", "duration_ms": 1_000}
    story.add("model_call", failed, after=1_000, agent="writer")
    story.add("agent_end", {"status": "completed", "duration_ms": 3_000}, agent="writer", call="a1")
    story.add("workflow_complete", {"status": "completed"})
    return story.events


def test_calls_of_models_show_their_tokens_their_cost_and_the_first_token() -> None:
    prices = Prices({"large": Price(input=Decimal(2), output=Decimal(8))})

    lines, _ = waterfall(run_of(with_models()), now_ms=START_MS, width=100, prices=prices)

    rows = [paint(line, colour=False).split("  ")[0] for line in lines]
    assert rows[1:] == [
        "✓ writer",
        "├─ ✓ ✦ large, 1,204 tokens, $0.0036, first after 310 ms",
        "└─ ✗ ✦ small",
        "",  # the indented error
    ]
    assert shown(with_models(), 40)[2].startswith("├ ✓ ✦ large, 1,20…")


def test_a_call_is_followed_by_what_distinguishes_it() -> None:
    story = Story()
    outcomes: list[dict[str, object]] = [
        {"status": "failed", "error_message": "Timeout"},
        {"status": "completed", "result": "3 pages"},
    ]
    for call, outcome in zip(("c1", "c2"), outcomes, strict=True):
        search = {"operation": "search"}
        story.add(
            "tool_call", {**search, "status": "started", "input": {"query": "tides in Brittany"}}, call=call
        )
        story.add("tool_call", {**search, **outcome}, call=call)

    assert [line[:32].rstrip() for line in shown(story.events, 80)[1:]] == [
        "✗ search (try 1)  tides in Brit…",
        "  Timeout",
        "✓ search (try 2)  tides in Brit…",
    ]
    assert [line[:11] for line in shown(story.events, 30)[1:]] == ["✗ search #1", "  Timeout", "✓ search #2"]


@pytest.mark.parametrize("width", [30, 40, 60, 100, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    lines, _ = waterfall(run_of(research()), now_ms=START_MS, width=width)

    assert max(line_columns(line) for line in lines) <= width


def test_a_call_that_still_runs_reaches_to_now() -> None:
    story = Story()
    story.add("agent_start", agent="planner", call="a1")

    lines = shown(story.events, 60, now_ms=START_MS + 10_000)

    assert lines[1].rstrip().endswith("█")
    assert " 10.0 s " in lines[1]
    assert "10.0 s" in lines[0]


def test_a_call_without_an_end_in_a_run_that_has_ended_is_abandoned() -> None:
    assert [line[:24] for line in shown(killed(), 72)[1:]] == [
        "† planner     abandoned ",
        "└─ † dig      abandoned ",
    ]


def test_a_very_deep_call_shows_its_level_instead_of_its_rails() -> None:
    story = Story()
    for level in range(30):
        story.add("agent_start", after=1, agent=f"agent-{level}", call=f"a{level}", parent=f"a{level - 1}")

    lines = shown(story.events, 40)

    assert lines[-1].startswith("29› ● agent-29")


def four_minutes() -> list[Event]:
    """An agent that searched often, and failed to publish."""
    story = Story()
    story.add("workflow_start", {"name": "nightly"})
    story.add("agent_start", agent="writer", call="a1")
    for number in range(212):
        error = "Timeout: no response" if number % 25 == 0 else None
        story.tool("search", agent="writer", call=f"t{number}", parent="a1", takes=1_100, error=error)
    story.tool(
        "publish", agent="writer", call="last", parent="a1", takes=900, error="PublishError: too large"
    )
    story.add(
        "agent_end",
        {"status": "failed", "error_message": "PublishError: too large"},
        agent="writer",
        call="a1",
    )
    story.add("workflow_error", {"error_message": "PublishError: too large"})
    return story.events


def test_calls_that_repeat_share_a_line_and_the_failing_path_is_expanded() -> None:
    lines = shown(four_minutes(), 80)

    assert [line.rstrip("━╸╺█▐▕▏▎▍▌▋▊▉ ") for line in lines[1:]] == [
        "✗ writer                               3 min 54 s",
        "├─ ◐ search × 212, 9 failed, p50 1.1 s 3 min 53 s",
        "└─ ✗ publish                               900 ms",
        "     PublishError: too large",
    ]


def test_what_does_not_fit_is_counted() -> None:
    lines, found = waterfall(
        run_of(four_minutes()), now_ms=START_MS, width=80, options=OutlineOptions(lines=4)
    )

    assert [paint(line, colour=False)[:40] for line in lines[1:]] == [
        "✗ writer +212 calls, 9 failed 3 min 54 s",
        "└─ ✗ publish                      900 ms",
        "     PublishError: too large",
    ]
    assert (len(lines), found.folded) == (4, 212)


def test_a_logarithmic_scale_states_so() -> None:
    lines, _ = waterfall(run_of(four_minutes()), now_ms=START_MS, width=80, log_scale=True)

    assert paint(lines[0], colour=False).endswith("log 3 min 54 s")


@pytest.mark.parametrize("width", [30, 40, 80])
def test_a_long_duration_does_not_widen_its_line(width: int) -> None:
    story = Story()
    story.tool("crawl", agent="a", call="t1", takes=34 * 60_000 + 9_000)

    lines, _ = waterfall(run_of(story.events), now_ms=START_MS, width=width)

    assert max(map(line_columns, lines)) <= width
    assert " 34 min 09 s " in paint(lines[1], colour=False)


def test_the_axis_is_never_cut() -> None:
    assert shown(four_minutes(), 30)[0].endswith(" 3 min 54 s")


@given(st.text(max_size=60), st.text(max_size=60), st.integers(30, 120))
def test_whatever_a_producer_writes_stays_on_its_line(name: str, error: str, width: int) -> None:
    story = Story()
    story.tool(name, agent="a", call="t1", takes=5, error=error)

    lines = waterfall(run_of(story.events), now_ms=START_MS, width=width)[0]

    assert max(line_columns(line) for line in lines) <= width
    assert "\x1b" not in "".join(paint(line, colour=False) for line in lines)
