"""Tokens and costs: sums that state what they cover."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from decimal import Decimal
from functools import reduce
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.journal.run_totals import totals_from_json, totals_to_json
from longwatch.journal.usage_views import UsageView
from longwatch.model.event import Event
from longwatch.model.prices import Price, Prices, UsageTotals, totals
from longwatch.model.run import fold, summarise
from longwatch.model.totals import NO_TOTALS, RunTotals, totals_of
from longwatch.model.usage import ModelUsage, Usage, total_usage, usage_of

PRICES = Prices({"gpt-4o": Price(Decimal("2.5"), Decimal(10), Decimal("1.25"))})


def event(type_: str, number: int, *, run_id: str = "wf-1", **payload: object) -> Event:
    return Event(
        run_id=run_id,
        event_id=f"{type_}-{number}",
        type=type_,
        occurred_at=1_000 + number,
        call_id=f"call-{number}",
        payload=payload,
    )


def model_call(number: int, **payload: object) -> Event:
    given: dict[str, Any] = {"status": "completed", "provider": "openai", "model": "gpt-4o", **payload}
    return event("model_call", number, **given)


def usage(*events: Event) -> Usage:
    return totals_of(events).usage


def sums(*events: Event, prices: Prices = PRICES) -> UsageTotals:
    return totals(usage(*events), prices)


counts = st.none() | st.integers(0, 300_000)
payloads: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "status": st.sampled_from(["started", "completed", "failed"]),
        "provider": st.sampled_from(["openai", "anthropic"]),
        "model": st.sampled_from(["gpt-4o", "claude-sonnet-4", "unlisted"]),
    },
    optional={
        "input_tokens": counts,
        "output_tokens": counts,
        "cache_read_tokens": st.integers(0, 100),
        "cache_write_tokens": st.integers(0, 100),
        "reasoning_tokens": st.integers(0, 100),
        "same_as": st.sampled_from(["call-1", "call-2"]),
        "operation": st.sampled_from(["chat", "embeddings"]),
    },
)
reports: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "usage": st.fixed_dictionaries(
            {"input_tokens": st.integers(0, 999), "output_tokens": st.integers(0, 999)}
        )
    },
    optional={"total_cost_usd": st.floats(0, 5)},
)


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    """Model calls, waits and reports of turns, of several runs."""
    found: list[Event] = []
    for number in range(draw(st.integers(0, 12))):
        run_id = draw(st.sampled_from(["wf-1", "turn-1", "turn-2", "turn-3"]))
        kind = draw(st.sampled_from(["model_call", "turn_result", "turn_line", "block", "waiting_ended"]))
        payload: dict[str, Any] = {"reason": "lock", "duration_ms": number, "kind": "content"}
        if kind == "model_call":
            payload = draw(payloads)
        elif kind == "turn_result":
            payload = draw(reports)
        elif kind == "turn_line":
            payload = {"line": {"type": "thread.started", "thread_id": draw(st.sampled_from(["a", "b"]))}}
        found.append(event(kind, number, run_id=run_id, **payload))
    return found


@st.composite
def partitions(draw: st.DrawFn) -> tuple[list[Event], list[list[Event]]]:
    """Events, and the same events in any order in any number of parts."""
    events = draw(histories())
    shuffled = draw(st.permutations(events))
    cuts = sorted(draw(st.lists(st.integers(0, len(events)), max_size=4)))
    edges = [0, *cuts, len(events)]
    return events, [list(shuffled[low:high]) for low, high in pairwise(edges)]


@given(partitions())
def test_sums_are_equal_over_any_partition(parted: tuple[list[Event], list[list[Event]]]) -> None:
    events, parts = parted

    together = reduce(RunTotals.plus, (totals_of(part) for part in parts), NO_TOTALS)

    assert together == totals_of(events)
    assert totals(together.usage, PRICES) == totals(totals_of(events).usage, PRICES)


@given(partitions())
def test_summaries_of_parts_have_the_totals_of_the_whole(
    parted: tuple[list[Event], list[list[Event]]],
) -> None:
    events, parts = parted
    for run_id, whole in summarise(events).items():
        found = [summarise(part)[run_id] for part in parts if any(each.run_id == run_id for each in part)]

        assert reduce(lambda one, other: one.merged(other), found).totals == whole.totals


@given(histories())
def test_no_sum_is_without_its_coverage(events: list[Event]) -> None:
    view = UsageView.of(totals_of(events).usage, PRICES)
    if view is None:
        assert not any(each.type == "model_call" for each in events)
        return

    assert view.calls_with_tokens >= 0
    assert view.priced_calls >= 0
    assert view.calls_with_tokens or not (view.input_tokens or view.output_tokens)
    assert (view.cost is None) == (view.priced_calls == 0)
    assert {each.name for each in fields(view)} >= {"model_calls", "calls_with_tokens", "priced_calls"}


@given(histories())
def test_stored_totals_are_read_as_they_were(events: list[Event]) -> None:
    found = totals_of(events)

    assert totals_from_json(totals_to_json(found)) == found


@given(partitions())
def test_the_newer_of_two_totals_of_a_producer_is_the_higher_one(
    parted: tuple[list[Event], list[list[Event]]],
) -> None:
    _, parts = parted
    older = totals_of(parts[0])
    newer = older.plus(totals_of(parts[-1]))

    assert older.highest(newer) == newer.highest(older) == newer
    assert newer.highest(newer) == newer


def test_the_coverage_of_a_cost_is_the_number_of_calls_with_a_price() -> None:
    priced = [model_call(number, input_tokens=1_000, output_tokens=100) for number in range(18)]
    unlisted = [
        model_call(number, model="unlisted", input_tokens=1_000, output_tokens=100)
        for number in range(18, 21)
    ]

    found = sums(*priced, *unlisted)

    assert (found.model_calls, found.calls_with_tokens, found.priced_calls) == (21, 21, 18)
    assert found.total_tokens == 21 * 1_100
    assert found.cost == 18 * (Decimal("0.0025") + Decimal("0.001"))


@pytest.mark.parametrize(
    ("payload", "with_tokens"),
    [
        ({"input_tokens": 5, "output_tokens": 0}, 1),
        ({"input_tokens": 5}, 0),
        ({"output_tokens": 5}, 0),
        ({}, 0),
        ({"input_tokens": 5, "operation": "embeddings"}, 1),
        ({"input_tokens": -5, "output_tokens": 1}, 0),
        ({"input_tokens": "5", "output_tokens": 1}, 0),
    ],
)
def test_a_call_with_a_missing_count_has_no_tokens(payload: dict[str, object], with_tokens: int) -> None:
    found = sums(model_call(1, **payload))

    assert (found.model_calls, found.calls_with_tokens) == (1, with_tokens)
    assert with_tokens or found.total_tokens == 0


def test_a_call_in_progress_counts_and_has_no_tokens_yet() -> None:
    start = event("model_call", 1, status="started", model="gpt-4o")

    assert sums(start).model_calls == 1
    assert sums(start, model_call(1, input_tokens=1, output_tokens=1)).model_calls == 1


def test_a_call_that_is_recorded_twice_counts_once() -> None:
    events = [
        event("model_call", 1, status="started"),
        event("model_call", 2, status="started"),
        model_call(3, input_tokens=10, output_tokens=1, response_id="r"),
        model_call(4, input_tokens=10, output_tokens=1, response_id="r", same_as="call-3"),
    ]

    found = sums(*events)

    assert (found.model_calls, found.calls_with_tokens, found.input_tokens) == (1, 1, 10)


def test_the_calls_of_a_list_are_those_of_its_runs() -> None:
    open_run = usage(event("model_call", 1, status="started"), event("model_call", 2, status="started"))
    end_only = usage(model_call(3))

    assert total_usage([open_run, end_only]).model_calls == 3


def claude(turn: str, number: int, **payload: object) -> Event:
    return event("turn_result", number, run_id=turn, **payload)


def test_claude_code_reports_models_and_cost_for_a_turn() -> None:
    report = claude(
        "turn-1",
        1,
        total_cost_usd=0.25,
        usage={
            "input_tokens": 10,
            "cache_creation_input_tokens": 100,
            "cache_read_input_tokens": 1_000,
            "output_tokens": 50,
        },
    )

    found = sums(report)

    assert (found.input_tokens, found.output_tokens) == (1_110, 50)
    assert (found.cache_read_tokens, found.cache_write_tokens) == (1_000, 100)
    assert (found.model_calls, found.calls_with_tokens, found.priced_calls) == (1, 1, 1)
    assert found.cost == Decimal("0.25")


def test_the_counts_by_model_replace_the_count_without_a_name() -> None:
    report = claude(
        "turn-1",
        1,
        usage={"input_tokens": 7, "output_tokens": 1, "cache_read_input_tokens": 0},
        modelUsage={
            "claude-sonnet-4": {"inputTokens": 5, "outputTokens": 1, "cacheReadInputTokens": 2},
            "claude-haiku-4": {"inputTokens": 20, "outputTokens": 2},
        },
    )

    assert (sums(report).input_tokens, sums(report).output_tokens) == (27, 3)


def test_a_repeated_report_of_a_turn_is_not_added_twice() -> None:
    first = claude("turn-1", 1, total_cost_usd=0.2, usage={"input_tokens": 10, "output_tokens": 1})
    second = claude("turn-1", 2, total_cost_usd=0.3, usage={"input_tokens": 30, "output_tokens": 2})

    found = sums(first, second)

    assert (found.model_calls, found.input_tokens, found.cost) == (1, 30, Decimal("0.3"))


def codex(turn: str, thread: str, number: int, count: int) -> list[Event]:
    line = {"type": "thread.started", "thread_id": thread}
    used = {"input_tokens": count, "cached_input_tokens": 5, "output_tokens": count // 10}
    return [
        event("turn_line", number, run_id=turn, line=line),
        event("turn_result", number, run_id=turn, usage=used),
    ]


def test_the_cumulative_counts_of_a_codex_thread_are_not_added_twice() -> None:
    events = [*codex("turn-1", "t", 1, 100), *codex("turn-2", "t", 2, 250), *codex("turn-3", "u", 3, 40)]

    found = totals(total_usage(totals_of([each]).usage for each in events), PRICES)

    assert (found.model_calls, found.calls_with_tokens) == (3, 3)
    assert (found.input_tokens, found.output_tokens, found.cache_read_tokens) == (290, 29, 10)
    assert found.priced_calls == 0  # Codex does not name its model


def test_a_turn_that_never_reported_counts_as_a_call_without_tokens() -> None:
    block = event("block", 1, run_id="turn-1", kind="content")
    result = event("block", 2, run_id="turn-2", kind="tool_result")

    assert (sums(block, result).model_calls, sums(block, result).calls_with_tokens) == (1, 0)


def test_a_run_without_model_calls_has_no_usage() -> None:
    assert UsageView.of(usage(event("tool_call", 1))) is None


def test_both_spellings_of_cache_counts_are_read() -> None:
    assert usage_of({"cache_creation_input_tokens": 3, "cache_read_input_tokens": 4}) == ModelUsage(
        cache_read_tokens=4, cache_write_tokens=3
    )
    assert usage_of({"status": "completed"}) is None


def test_models_beyond_the_limit_are_one_group_in_any_order() -> None:
    events = [model_call(n, model=f"m-{n:03d}", input_tokens=1, output_tokens=1) for n in range(80)]

    one = reduce(Usage.plus, (usage(each) for each in events))
    other = reduce(Usage.plus, (usage(each) for each in reversed(events)))

    assert one == other == usage(*events)
    assert totals(one, PRICES).calls_with_tokens == 80


def test_a_fold_has_the_totals_of_its_events() -> None:
    events: Sequence[Event] = [model_call(1, input_tokens=1, output_tokens=1), model_call(2)]
    run = fold(events[1:], fold(events[:1]))

    assert run is not None
    assert run.summary.totals == totals_of(events)
