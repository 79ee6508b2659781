"""Which price a model has, and what cannot be priced."""

from __future__ import annotations

from decimal import Decimal

import pytest

from longwatch.model.price_tables import parse_litellm, parse_prices, price_fields
from longwatch.model.prices import Price, Prices
from longwatch.model.usage import TokenCounts, TokenGroup

PRICES = Prices(
    {
        "gpt-4o": Price(Decimal("2.5"), Decimal(10), provider="openai"),
        "gpt-4o-2024-05-13": Price(Decimal(5), Decimal(15), provider="openai"),
        "azure/gpt-4o": Price(Decimal(3), Decimal(12), provider="azure"),
        "gemini/gemini-2.5-pro": Price(Decimal(1), Decimal(8), provider="gemini"),
        "claude-sonnet-4": Price(Decimal(3), Decimal(15), provider="anthropic"),
        "vertex_ai/claude-sonnet-4": Price(Decimal(4), Decimal(16), provider="vertex_ai-anthropic_models"),
        "anthropic.claude-v2:1": Price(Decimal(8), Decimal(24), provider="bedrock_converse"),
        "in-house": Price(Decimal(0), Decimal(0)),
    }
)


@pytest.mark.parametrize(
    ("provider", "model", "input_price"),
    [
        ("openai", "gpt-4o", "2.5"),
        ("", "gpt-4o", "2.5"),
        ("openai", "gpt-4o-2024-05-13", "5"),  # listed with its date
        ("openai", "gpt-4o-2024-08-06", "2.5"),  # the name without its date is listed
        ("anthropic", "claude-sonnet-4-20250514", "3"),
        ("gcp.vertex_ai", "claude-sonnet-4@20250514", "4"),
        ("azure.ai.openai", "gpt-4o", "3"),
        ("azure.ai.openai", "azure/gpt-4o", "3"),
        ("gcp.gemini", "gemini-2.5-pro", "1"),
        ("gcp.gemini", "models/gemini-2.5-pro", "1"),
        ("aws.bedrock", "anthropic.claude-v2:1", "8"),
        ("anything", "in-house", "0"),
        # never guessed
        ("openai", "gpt-4o-mini", None),
        ("openai", "gpt-4", None),
        ("openai", "gpt-4o-latest", None),
        ("openai", "GPT-4o", None),
        ("groq", "gpt-4o", None),  # the listed price is another provider's
        ("azure.ai.openai", "gpt-4o-2024-05-13", "3"),
        ("anthropic", "claude-sonnet-4-5-20250929", None),
        ("openai", "", None),
    ],
)
def test_a_price_is_found_by_name_and_never_guessed(
    provider: str, model: str, input_price: str | None
) -> None:
    found = PRICES.find(provider, model)

    assert (None if found is None else found.input) == (None if input_price is None else Decimal(input_price))


def test_the_model_that_responded_comes_before_the_requested_one() -> None:
    group = TokenGroup("openai", "gpt-4o", "gpt-4o-2024-05-13")
    unlisted = TokenGroup("openai", "gpt-4o", "gpt-4o-ft:acme")

    assert PRICES.cost(group, TokenCounts(1, 1_000_000)) == 5
    assert PRICES.cost(unlisted, TokenCounts(1, 1_000_000)) == Decimal("2.5")


def test_cached_tokens_have_their_own_price() -> None:
    price = Price(Decimal(2), Decimal(10), Decimal("0.2"), Decimal("2.5"))
    counts = TokenCounts(1, 1_000_000, 100_000, 600_000, 200_000)

    assert price.cost(TokenGroup(), counts) == Decimal("0.4") + Decimal(1) + Decimal("0.12") + Decimal("0.5")


def test_cached_tokens_without_a_price_leave_the_cost_unknown() -> None:
    price = Price(Decimal(2), Decimal(10))

    assert price.cost(TokenGroup(reads_cache=True), TokenCounts(1, 100, 1, 50)) is None
    assert price.cost(TokenGroup(), TokenCounts(1, 100, 0)) is not None


def test_large_calls_have_the_price_of_their_size() -> None:
    parsed, mistakes = parse_litellm(
        {
            "big": {
                "input_cost_per_token": 1e-06,
                "output_cost_per_token": 2e-06,
                "input_cost_per_token_above_200k_tokens": 4e-06,
            }
        }
    )

    price = parsed["big"]
    assert not mistakes
    assert price.cost(TokenGroup(size=128_000), TokenCounts(1, 1_000_000)) == 1
    assert price.cost(TokenGroup(size=256_000), TokenCounts(1, 1_000_000, 1_000_000)) == 6


def test_litellm_s_file_is_read_in_dollars_for_a_million_tokens() -> None:
    parsed, mistakes = parse_litellm(
        {
            "sample_spec": {"input_cost_per_token": "explained here"},
            "gpt-4o": {
                "input_cost_per_token": 2.5e-06,
                "output_cost_per_token": 1e-05,
                "cache_read_input_token_cost": 1.25e-06,
                "cache_creation_input_token_cost": None,
                "litellm_provider": "openai",
                "max_tokens": 16_384,
            },
            "dall-e-3": {"output_cost_per_image": 0.04},
            "odd-steps": {"input_cost_per_token": 1e-06, "input_cost_per_token_above_77k_tokens": 2e-06},
        }
    )

    assert not mistakes
    assert parsed == {"gpt-4o": Price(Decimal("2.5"), Decimal(10), Decimal("1.25"), provider="openai")}


@pytest.mark.parametrize(
    ("models", "mistake"),
    [
        (
            {"m": {"input_cost_per_token": "cheap"}},
            "'m': input_cost_per_token must be a number of US dollars,",
        ),
        ({"m": {"input_cost_per_token": -1}}, "'m': input_cost_per_token must not be negative"),
        ({"m": {"input_cost_per_token": True}}, "'m': input_cost_per_token must be a number of US dollars,"),
        ({"m": 3}, "'m' must be an object, not int"),
    ],
)
def test_a_mistake_in_litellm_s_file_is_named(models: dict[str, object], mistake: str) -> None:
    prices, mistakes = parse_litellm(models)

    assert not prices
    assert mistakes[0].startswith(mistake)


@pytest.mark.parametrize(
    ("table", "mistake"),
    [
        ({"m": 2}, "invalid price of 'm'"),
        ({"m": {}}, "price of 'm': it has none of input"),
        ({"m": {"inptu": 2}}, "price of 'm': unknown field inptu"),
        ({"m": {"input": float("nan")}}, "price of 'm': input must be a finite number"),
    ],
)
def test_a_mistake_in_the_settings_is_named(table: dict[str, object], mistake: str) -> None:
    _, mistakes = parse_prices(table)

    assert mistakes[0].startswith(mistake)


def test_prices_are_written_as_they_are_read() -> None:
    above = {200_000: Price(Decimal(4), Decimal(20))}
    price = Price(Decimal("2.5"), Decimal(10), Decimal("0.25"), None, "openai", above)

    assert parse_prices({"m": price_fields(price)}) == ({"m": price}, [])
