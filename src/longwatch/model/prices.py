"""Prices of tokens, from the settings or an imported file, and the cost of a usage by them.

longwatch ships no prices. A model whose price is not listed has no known price: nothing is derived from
similar names, except that a dated name (`gpt-4o-2024-08-06`) has the price of the name without its date.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from longwatch.model.usage import AgentUsage, TokenCounts, TokenGroup, Usage

CURRENCY = "USD"
MILLION = Decimal(1_000_000)
PREFIXES: Mapping[str, str] = {  # provider of a call -> as litellm names it, and prefixes its models
    "aws.bedrock": "bedrock",
    "azure.ai.inference": "azure_ai",
    "azure.ai.openai": "azure",
    "gcp.gemini": "gemini",
    "gcp.gen_ai": "gemini",
    "gcp.vertex_ai": "vertex_ai",
    "ibm.watsonx.ai": "watsonx",
    "mistral_ai": "mistral",
    "x_ai": "xai",
}
SAME_PRICES: Mapping[str, frozenset[str]] = {  # further names of a provider in an imported file
    "bedrock": frozenset({"bedrock_converse"}),
    "cohere": frozenset({"cohere_chat"}),
    "openai": frozenset({"text-completion-openai"}),
    "vertex_ai": frozenset({"vertex_ai-language-models", "vertex_ai-anthropic_models"}),
}
_DATE = re.compile(r"[-@](?:\d{4}-\d{2}-\d{2}|20\d{6})\Z")


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars for a million tokens of each kind. None: not known."""

    input: Decimal | None = None
    output: Decimal | None = None
    cache_read: Decimal | None = None
    cache_write: Decimal | None = None
    provider: str = ""  # as in an imported file; empty: the price holds for every provider
    above: Mapping[int, Price] = field(default_factory=dict)  # for calls with more input tokens than this

    def at_size(self, size: int) -> Price:
        """The price of calls whose input exceeds this many tokens."""
        limits = [limit for limit in self.above if limit <= size]
        return self.above[max(limits)] if limits else self

    def cost(self, group: TokenGroup, counts: TokenCounts) -> Decimal | None:
        """The cost of these tokens; None if the price of one kind of them is not known."""
        price = self.at_size(group.size)
        cached = counts.cache_read_tokens + counts.cache_write_tokens
        amounts = (
            (max(0, counts.input_tokens - cached), price.input),
            (counts.output_tokens, price.output),
            (counts.cache_read_tokens, price.cache_read),
            (counts.cache_write_tokens, price.cache_write),
        )
        total = Decimal(0)
        for tokens, rate in amounts:
            if tokens and rate is None:
                return None
            total += tokens * (rate or 0) / MILLION
        return total


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices by the name of the model."""

    models: Mapping[str, Price] = field(default_factory=dict)

    def find(self, provider: str, model: str) -> Price | None:
        """The price of a provider's model; None if it is not listed. See the module docstring."""
        for name in _spellings(provider, model):
            price = self.models.get(name)
            if price is not None and _is_of(provider, price.provider):
                return price
        return None

    def price_of(self, group: TokenGroup) -> Price | None:
        """The price of the model that responded, else of the one that was requested."""
        names = (name for name in (group.response_model, group.model) if name)
        found = (self.find(group.provider, name) for name in names)
        return next((price for price in found if price is not None), None)

    def cost(self, group: TokenGroup, counts: TokenCounts) -> Decimal | None:
        """The cost of the calls of one group; None if it is not known."""
        price = self.price_of(group)
        return None if price is None else price.cost(group, counts)

    def updated(self, others: Mapping[str, Price]) -> Prices:
        """These prices, with the others in place of those of the same name."""
        return Prices({**self.models, **others})


NO_PRICES = Prices()


def _spellings(provider: str, model: str) -> Iterator[str]:
    """The names under which a model may be listed, the most specific first."""
    prefix = PREFIXES.get(provider, provider)
    bare = model.removeprefix("models/")
    if prefix:
        bare = bare.removeprefix(f"{prefix}/")
    for name in dict.fromkeys((bare, _DATE.sub("", bare))):
        if prefix:
            yield f"{prefix}/{name}"
        yield name


def _is_of(provider: str, listed: str) -> bool:
    """Whether a listed price holds for the provider of a call. An unknown provider matches every one."""
    name = PREFIXES.get(provider, provider)
    return not listed or not name or listed == name or listed in SAME_PRICES.get(name, ())


@dataclass(frozen=True, slots=True)
class UsageTotals:
    """The sums of a usage, with their coverage: how many calls have tokens, and how many a price."""

    model_calls: int
    calls_with_tokens: int
    priced_calls: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    cost: Decimal | None  # of the priced calls; None without any

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens


def totals(usage: Usage, prices: Prices) -> UsageTotals:
    """The sums of a usage by these prices."""
    counts = TokenCounts()
    cost, priced = Decimal(0), 0
    for group, each in usage.tokens.items():
        counts = counts.plus(each)
        amount = prices.cost(group, each)
        if amount is not None:
            cost, priced = cost + amount, priced + each.calls
    with_tokens = counts.calls
    for turns, report in _reports_by_thread(usage):
        reported = report.total
        counts = counts.plus(reported)
        with_tokens += turns if reported.calls else 0
        amount = _reported_cost(report, prices)
        if amount is not None:
            cost, priced = cost + amount, priced + turns
    return UsageTotals(
        model_calls=usage.model_calls,
        calls_with_tokens=with_tokens,
        priced_calls=priced,
        input_tokens=counts.input_tokens,
        output_tokens=counts.output_tokens,
        cache_read_tokens=counts.cache_read_tokens,
        cache_write_tokens=counts.cache_write_tokens,
        reasoning_tokens=counts.reasoning_tokens,
        cost=cost if priced else None,
    )


def _reports_by_thread(usage: Usage) -> Iterator[tuple[int, AgentUsage]]:
    """The reports of coding agents, one for each thread, with the number of turns that reported tokens.

    A turn without a report of tokens counts as a call of its own, which has none.
    """
    threads: dict[str, tuple[int, AgentUsage]] = {}
    for turn, report in sorted(usage.reports.items()):
        if not report.models and report.cost is None:
            continue
        key = report.thread or f"turn {turn}"
        turns, before = threads.get(key, (0, AgentUsage()))
        threads[key] = turns + 1, before.highest(report)
    yield from threads.values()


def _reported_cost(report: AgentUsage, prices: Prices) -> Decimal | None:
    """The cost that the agent reports, else that of its tokens by their models; None if one is not known."""
    if report.cost is not None:
        return Decimal(str(report.cost))
    found = [
        prices.cost(
            TokenGroup(
                model=name,
                reads_cache=counts.cache_read_tokens > 0,
                writes_cache=counts.cache_write_tokens > 0,
            ),
            counts,
        )
        for name, counts in report.named_models.items()
    ]
    amounts = [amount for amount in found if amount is not None]
    return sum(amounts, Decimal(0)) if amounts and len(amounts) == len(found) else None
