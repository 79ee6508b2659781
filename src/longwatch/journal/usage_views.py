"""Usage of models and open waits, as commands, the API and the feed return them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any

from longwatch.model.json_schema import STRICT, JsonSchema
from longwatch.model.model_calls import ModelFacts
from longwatch.model.prices import CURRENCY, NO_PRICES, Price, Prices, UsageTotals, totals
from longwatch.model.run import Call
from longwatch.model.usage import NO_USAGE, TokenGroup, Usage
from longwatch.model.waiting import Wait


@dataclass(frozen=True, kw_only=True)
class RateView:
    """The price of a million tokens of one model, in US dollars; null: not known."""

    __pydantic_config__ = STRICT

    provider: str
    model: Annotated[str, JsonSchema("As requested.")]
    response_model: Annotated[str, JsonSchema("Empty if it is the requested one.")]
    size: Annotated[int, JsonSchema("For calls with more input tokens than this.")]
    input: float | None
    output: float | None
    cache_read: float | None
    cache_write: float | None

    @classmethod
    def of(cls, group: TokenGroup, price: Price) -> RateView:
        rate = price.at_size(group.size)
        return cls(
            provider=group.provider,
            model=group.model,
            response_model=group.response_model,
            size=group.size,
            input=_number(rate.input),
            output=_number(rate.output),
            cache_read=_number(rate.cache_read),
            cache_write=_number(rate.cache_write),
        )


def _number(amount: Decimal | None) -> float | None:
    return None if amount is None else float(amount)


def _rates(usage: Usage, prices: Prices) -> list[RateView]:
    """One rate for each model of the usage that has a known price."""
    groups = {group._replace(reads_cache=False, writes_cache=False) for group in usage.tokens}
    priced = ((group, prices.price_of(group)) for group in sorted(groups))
    return [RateView.of(group, price) for group, price in priced if price is not None]


@dataclass(frozen=True, kw_only=True)
class UsageView:
    """The model calls of a run, an agent, a conversation or a list, with the coverage of every sum."""

    __pydantic_config__ = STRICT

    model_calls: Annotated[int, JsonSchema("The report of a coding agent for a turn counts as one call.")]
    calls_with_tokens: Annotated[int, JsonSchema("Calls whose tokens are in the sums.")]
    input_tokens: Annotated[int, JsonSchema("Tokens from and for the cache included.")]
    output_tokens: Annotated[int, JsonSchema("Reasoning included.")]
    cache_read_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    cost: Annotated[float | None, JsonSchema("Of the priced calls; null without any.")]
    priced_calls: Annotated[int, JsonSchema("Calls whose cost is in the sum.")]
    currency: str
    rates: Annotated[list[RateView], JsonSchema("Of the models with a known price, to price single calls.")]
    threads: Annotated[
        list[str],
        JsonSchema("Whose counts are cumulative: of several usages with one of these, the highest counts."),
    ]

    @classmethod
    def of(cls, usage: Usage, prices: Prices = NO_PRICES) -> UsageView | None:
        """The sums of a usage; None without a model call."""
        if not usage:
            return None
        threads = {report.thread for report in usage.reports.values() if report.thread and report.models}
        return cls.of_totals(totals(usage, prices), _rates(usage, prices), sorted(threads))

    @classmethod
    def of_totals(
        cls, sums: UsageTotals, rates: Sequence[RateView] = (), threads: Sequence[str] = ()
    ) -> UsageView:
        return cls(
            model_calls=sums.model_calls,
            calls_with_tokens=sums.calls_with_tokens,
            input_tokens=sums.input_tokens,
            output_tokens=sums.output_tokens,
            cache_read_tokens=sums.cache_read_tokens,
            cache_write_tokens=sums.cache_write_tokens,
            reasoning_tokens=sums.reasoning_tokens,
            cost=None if sums.cost is None else float(sums.cost),
            priced_calls=sums.priced_calls,
            currency=CURRENCY,
            rates=list(rates),
            threads=list(threads),
        )


@dataclass(frozen=True, kw_only=True)
class CallUsage:
    """The tokens of one model call; a count that the provider did not report is null."""

    __pydantic_config__ = STRICT

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


@dataclass(frozen=True, kw_only=True)
class WaitView:
    """An open wait."""

    __pydantic_config__ = STRICT

    reason: str
    detail: str | None
    since: Annotated[int, JsonSchema("Epoch milliseconds.")]

    @classmethod
    def of(cls, wait: Wait) -> WaitView:
        return cls(reason=wait.reason, detail=wait.detail, since=wait.since or 0)


def model_call_fields(facts: ModelFacts, prices: Prices) -> dict[str, Any]:
    """The fields that a `ModelCallView` has beside those of other calls."""
    counted = facts.tokens()
    cost = None if counted is None else prices.cost(*counted)
    used = facts.usage
    return {
        "model": facts.model,
        "response_model": facts.response_model,
        "provider": facts.provider,
        "usage": None
        if used is None
        else {
            "input_tokens": used.input_tokens,
            "output_tokens": used.output_tokens,
            "cache_read_tokens": used.cache_read_tokens,
            "cache_write_tokens": used.cache_write_tokens,
            "reasoning_tokens": used.reasoning_tokens,
        },
        "cost": None if cost is None else float(cost),
        "finish_reasons": None if facts.finish_reasons is None else list(facts.finish_reasons),
        "time_to_first_token_ms": facts.time_to_first_token_ms,
        "chunk_count": facts.chunk_count,
    }


def usage_by_agent(calls: Iterable[Call]) -> dict[str, Usage]:
    """The usage of each agent that called models itself, by its name."""
    found: dict[str, Usage] = {}
    for call in calls:
        facts = call.model
        if facts is None or call.agent_name is None:
            continue
        counted = facts.tokens() if call.end is not None else None
        used = Usage(1, 1, 0, {} if counted is None else dict([counted]))
        found[call.agent_name] = found.get(call.agent_name, NO_USAGE).plus(used)
    return dict(sorted(found.items()))
