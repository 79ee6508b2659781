"""Imported prices: a file that is replaced at once, and never by a broken one."""

from __future__ import annotations

import json
import logging
from decimal import Decimal
from pathlib import Path

import pytest

from longwatch.errors import InvalidInput
from longwatch.model.prices import Price
from longwatch.settings import Settings
from longwatch.storage.price_file import PriceList, import_prices, read_imported


def source(directory: Path, text: object, name: str = "litellm.json") -> Path:
    path = directory / name
    path.write_text(text if isinstance(text, str) else json.dumps(text), encoding="utf-8")
    return path


def model(input_price: float) -> dict[str, object]:
    return {"input_cost_per_token": input_price / 1e6, "output_cost_per_token": 0}


def test_an_import_adds_to_earlier_ones(tmp_path: Path) -> None:
    file = tmp_path / "data" / "prices.json"
    import_prices(source(tmp_path, {"a": model(1), "b": model(2)}), file=file)
    import_prices(source(tmp_path, {"b": model(3)}), file=file)

    assert {name: price.input for name, price in read_imported(file).items()} == {"a": 1, "b": 3}
    assert [each.name for each in file.parent.iterdir()] == ["prices.json"]
    assert file.stat().st_mode & 0o777 == 0o600

    import_prices(source(tmp_path, {"c": model(4)}), file=file, replace=True)
    assert set(read_imported(file)) == {"c"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("[1]", "must be a JSON object of models, not list"),
        ({"a": {"mode": "image"}}, "has no prices. Nothing was imported."),
        ({"a": model(1), "b": {"input_cost_per_token": "x"}}, "'b': input_cost_per_token must be a number"),
        ({str(n): 1 for n in range(9)}, "(and 6 more)"),
    ],
)
def test_an_invalid_file_is_refused_and_loses_nothing(tmp_path: Path, text: object, message: str) -> None:
    file = tmp_path / "prices.json"
    import_prices(source(tmp_path, {"a": model(1)}), file=file)
    before = file.read_bytes()

    with pytest.raises(InvalidInput) as caught:
        import_prices(source(tmp_path, text), file=file)

    assert message in str(caught.value)
    assert file.read_bytes() == before


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"Cannot read .*nowhere\.json"):
        import_prices(tmp_path / "nowhere.json", file=tmp_path / "prices.json")


def test_settings_come_before_imported_prices_and_a_new_import_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "prices.json"
    prices = PriceList(Settings(journal="memory://", prices={"a": Price(Decimal(9))}), file)
    assert set(prices.current().models) == {"a"}

    import_prices(source(tmp_path, {"a": model(1), "b": model(2)}), file=file)

    assert prices.current().models["a"].input == 9
    assert prices.current().models["b"].input == 2


def test_a_damaged_file_is_reported_once_and_leaves_the_settings(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    prices = PriceList(
        Settings(journal="memory://", prices={"a": Price(Decimal(9))}), source(tmp_path, "{", "prices.json")
    )

    with caplog.at_level(logging.WARNING):
        assert set(prices.current().models) == {"a"}
        prices.current()

    assert caplog.text.count("imported prices cannot be used") == 1
