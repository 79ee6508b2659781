"""The totals and the waits of a run as JSON, for journals that store a summary of each run."""

from __future__ import annotations

from typing import Any

from longwatch.model.totals import NO_TOTALS, RunTotals
from longwatch.model.usage import AgentUsage, TokenCounts, TokenGroup, Usage
from longwatch.model.waiting import Wait, Waits


def totals_to_json(totals: RunTotals) -> list[Any]:
    """Lists and texts only, as short as possible: a journal writes them with every append."""
    usage = totals.usage
    return [
        usage.starts,
        usage.ends,
        usage.repeats,
        [[*group, *counts] for group, counts in sorted(usage.tokens.items())],
        [
            [turn, each.thread, each.cost, [[name, *counts] for name, counts in sorted(each.models.items())]]
            for turn, each in sorted(usage.reports.items())
        ],
        dict(sorted(totals.waited_ms.items())),
    ]


def totals_from_json(value: list[Any]) -> RunTotals:
    """The totals that `totals_to_json` wrote."""
    if not value:
        return NO_TOTALS
    starts, ends, repeats, tokens, reports, waited = value
    width = len(TokenGroup._fields)
    usage = Usage(
        starts,
        ends,
        repeats,
        {TokenGroup(*each[:width]): TokenCounts(*each[width:]) for each in tokens},
        {
            turn: AgentUsage(thread, {name: TokenCounts(*counts) for name, *counts in models}, cost)
            for turn, thread, cost, models in reports
        },
    )
    return RunTotals(usage, waited)


def waits_to_json(waits: Waits) -> list[Any]:
    """Each wait as a list."""
    return [
        [each.call_id, each.reason, each.since, each.ended_at, each.detail, each.producer] for each in waits
    ]


def waits_from_json(value: list[Any]) -> Waits:
    """The waits that `waits_to_json` wrote."""
    return tuple(Wait(*each) for each in value)
