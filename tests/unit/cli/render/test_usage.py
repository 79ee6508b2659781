"""Totals of usage as text. tests/web/usage-text.test.js holds the page to the same table."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from longwatch.cli.render.usage import totals_text
from longwatch.model.prices import UsageTotals

CASES = json.loads((Path(__file__).parents[3] / "fixtures" / "usage_texts.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("text", "usage"), CASES, ids=[text for text, _ in CASES])
def test_totals_are_shown_with_their_coverage(text: str, usage: dict[str, Any]) -> None:
    cost = None if usage["cost"] is None else Decimal(str(usage["cost"]))
    others = dict.fromkeys(("cache_read_tokens", "cache_write_tokens", "reasoning_tokens"), 0)

    assert totals_text(UsageTotals(**{**usage, **others, "cost": cost})) == text
