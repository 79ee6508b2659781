"""Reads prices: the table `[prices]` of the settings, the file of imported prices, and litellm's file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal

from longwatch.model.prices import MILLION, Price
from longwatch.model.usage import SIZES

RATES = ("input", "output", "cache_read", "cache_write")


def parse_prices(table: Mapping[str, object]) -> tuple[dict[str, Price], list[str]]:
    """The prices of a table from model names to US dollars for a million tokens, and the mistakes in it."""
    prices: dict[str, Price] = {}
    mistakes: list[str] = []
    for name, value in table.items():
        if not isinstance(value, Mapping):
            mistakes.append(f"invalid price of {name!r}. Use a table such as {{ input = 2.5, output = 10 }}")
            continue
        try:
            prices[name] = _parse_price(value)
        except ValueError as error:
            mistakes.append(f"price of {name!r}: {error}")
    return prices, mistakes


def _parse_price(value: Mapping[str, object]) -> Price:
    rates: dict[str, Decimal] = {}
    above: dict[int, Price] = {}
    for key, given in value.items():
        if key in RATES:
            rates[key] = _amount(key, given)
        elif key == "above" and isinstance(given, Mapping):
            above |= {int(size): _parse_price(each) for size, each in given.items()}
        elif key != "provider":
            raise ValueError(f"unknown field {key}; use {', '.join(RATES)}")
    if not rates:
        raise ValueError(f"it has none of {', '.join(RATES)}")
    provider = value.get("provider", "")
    return _price(rates, provider, above)


def _price(
    rates: Mapping[str, Decimal], provider: object = "", above: Mapping[int, Price] | None = None
) -> Price:
    return Price(
        rates.get("input"),
        rates.get("output"),
        rates.get("cache_read"),
        rates.get("cache_write"),
        provider if isinstance(provider, str) else "",
        above or {},
    )


def _amount(key: str, given: object) -> Decimal:
    if isinstance(given, bool) or not isinstance(given, int | float | Decimal):
        raise ValueError(f"{key} must be a number of US dollars, not {given!r}")
    amount = Decimal(str(given))
    if not amount.is_finite():
        raise ValueError(f"{key} must be a finite number of US dollars, not {given!r}")
    if amount < 0:
        raise ValueError(f"{key} must not be negative, but is {given!r}")
    return amount


def price_fields(price: Price) -> dict[str, object]:
    """The price as `parse_prices` reads it."""
    rates = {name: getattr(price, name) for name in RATES}
    found: dict[str, object] = {name: float(rate) for name, rate in rates.items() if rate is not None}
    if price.provider:
        found["provider"] = price.provider
    if price.above:
        found["above"] = {str(size): price_fields(each) for size, each in price.above.items()}
    return found


_LITELLM = {  # the fields of litellm's file, in US dollars for one token
    "input_cost_per_token": "input",
    "output_cost_per_token": "output",
    "cache_read_input_token_cost": "cache_read",
    "cache_creation_input_token_cost": "cache_write",
}
_ABOVE = re.compile(r"(.+)_above_(\d+)k_tokens")
SAMPLE = "sample_spec"  # the entry of litellm's file that explains the others


def parse_litellm(models: Mapping[str, object]) -> tuple[dict[str, Price], list[str]]:
    """The prices in litellm's `model_prices_and_context_window.json`, and the mistakes in it.

    Entries without a price for tokens, such as those of image models, are left out, and so are those whose
    price changes at a size of the input that `Usage` does not distinguish.
    """
    prices: dict[str, Price] = {}
    mistakes: list[str] = []
    for name, entry in models.items():
        if name == SAMPLE:
            continue
        if not isinstance(entry, Mapping):
            mistakes.append(f"{name!r} must be an object, not {type(entry).__name__}")
            continue
        try:
            price = _litellm_price(entry)
        except ValueError as error:
            mistakes.append(f"{name!r}: {error}")
            continue
        if price is not None:
            prices[name] = price
    return prices, mistakes


def _litellm_price(entry: Mapping[str, object]) -> Price | None:
    base: dict[str, Decimal] = {}
    tiers: dict[int, dict[str, Decimal]] = {}
    for key, value in entry.items():
        found = _ABOVE.fullmatch(key)
        field_name = _LITELLM.get(found[1] if found else key)
        if field_name is None or value is None:
            continue
        amount = _amount(key, value) * MILLION
        if found is None:
            base[field_name] = amount
        else:
            tiers.setdefault(int(found[2]) * 1000, {})[field_name] = amount
    if ("input" not in base and "output" not in base) or not tiers.keys() <= set(SIZES):
        return None
    above = {size: _price(base | rates) for size, rates in tiers.items()}
    return _price(base, entry.get("litellm_provider"), above)
