"""Usage and waits in one line each: every sum with its coverage."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal

from longwatch.cli.render.text import count_text
from longwatch.cli.render.times import duration_text
from longwatch.model.prices import Prices, UsageTotals, totals
from longwatch.model.run import RunSummary
from longwatch.model.usage import Usage
from longwatch.model.waiting import Wait


def usage_text(usage: Usage, prices: Prices) -> str:
    """The totals of a usage by these prices."""
    return totals_text(totals(usage, prices))


def totals_text(sums: UsageTotals) -> str:
    """`41,200 tokens; $0.62 for 18 of 21 calls, 3 have no known price`. The page has the same text."""
    calls = count_text(sums.model_calls, "model call")
    if not sums.calls_with_tokens and not sums.priced_calls:
        return f"{calls} without token counts"
    tokens = count_text(sums.total_tokens, "token")
    if sums.calls_with_tokens < sums.model_calls:
        tokens += f" in {sums.calls_with_tokens:,} of {calls}"
    elif not sums.priced_calls:
        tokens += f" in {calls}"
    return f"{tokens}; {_cost_text(sums)}"


def _cost_text(sums: UsageTotals) -> str:
    if sums.cost is None:
        return "no known price"
    cost = cost_text(sums.cost)
    if sums.priced_calls == sums.model_calls:
        return f"{cost} for {count_text(sums.priced_calls, 'call')}"
    unpriced = sums.calls_with_tokens - sums.priced_calls  # a call without tokens may well have a price
    have = "has" if unpriced == 1 else "have"
    missing = f", {unpriced:,} {have} no known price" if unpriced > 0 else ""
    return f"{cost} for {sums.priced_calls:,} of {sums.model_calls:,} calls{missing}"


def cost_text(cost: Decimal) -> str:
    """`$0.62`, `$1,204.50`; small amounts with two significant digits, `$0.0042`."""
    if 0 < cost < Decimal("0.00001"):
        return "<$0.00001"
    digits = max(2, 1 - cost.adjusted()) if 0 < cost < Decimal("0.995") else 2
    return f"${cost.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP):,f}"  # as the page rounds


def waiting_text(wait: Wait, *, now_ms: int) -> str:
    """`waiting for approval: deploy to production, for 12 min 05 s`"""
    return f"{wait.text}, for {duration_text(max(0, now_ms - (wait.since or now_ms)))}"


def waited_text(run: RunSummary, *, now_ms: int) -> str | None:
    """`12 min 05 s of 20 min 00 s for approval`: all waits of the run, also open ones; None without any."""
    waited = waited_so_far(run, now_ms=now_ms)
    if not waited:
        return None
    elapsed = run.duration_ms(now_ms) or 0
    parts = []
    for reason, ms in sorted(waited.items(), key=lambda pair: (-pair[1], pair[0])):
        whole = f" of {duration_text(elapsed)}" if 0 < ms <= elapsed else ""
        parts.append(f"{duration_text(ms)}{whole} for {reason}")
    return ", ".join(parts)


def waited_so_far(run: RunSummary, *, now_ms: int) -> Mapping[str, int]:
    """The milliseconds waited by reason, those of open waits included."""
    waited = dict(run.totals.waited_ms)
    for wait in run.waiting:
        waited[wait.reason] = waited.get(wait.reason, 0) + max(0, now_ms - (wait.since or now_ms))
    return waited
