"""Payloads that are too large for an event."""

from __future__ import annotations

import json
from typing import Any

import pytest

from longwatch.executions.truncation import MOST_BYTES, fit_payload


@pytest.mark.parametrize(
    "payload",
    [
        {"error_message": "x" * 5_000_000, "status": "failed"},
        {"warnings": [f"{number}: {'y' * 300}" for number in range(6_000)], "status": "failed"},
        {"evidence": [{"fields": {str(number): "z" * 500 for number in range(9_000)}}], "status": "failed"},
        {"warnings": ["é" * 400] * 2_000, "status": "failed"},
    ],
)
def test_a_large_payload_is_cut_and_marked(payload: dict[str, Any]) -> None:
    small = fit_payload(payload)

    assert len(json.dumps(small, ensure_ascii=False).encode()) <= MOST_BYTES
    assert small["status"] == "failed"
    assert "are cut" in small["shortened"]


def test_a_list_that_is_cut_states_how_many_are_left_out() -> None:
    small = fit_payload({"warnings": [f"{number}: {'y' * 300}" for number in range(6_000)]})

    assert small["warnings"][-1].endswith("more")


def test_a_payload_that_fits_is_left_alone() -> None:
    payload = {"warnings": ["one"], "evidence": []}

    assert fit_payload(payload) is payload
