"""How runs end, by the cases that the browser's fold passes too (tests/web/endings.test.js)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from longwatch.journal.views import RunDetails
from longwatch.model.event import Event
from longwatch.model.run import fold

NOW_MS = 100_000
CASES = json.loads((Path(__file__).parents[2] / "fixtures" / "endings.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
def test_a_run_has_the_status_of_the_shared_cases(case: dict[str, Any]) -> None:
    events = [Event(**event) for event in case["events"]]
    for ordered in (events, events[::-1]):
        run = fold(ordered)
        assert run is not None
        view = json.loads(json.dumps(RunDetails.of_attempt(run, run, now_ms=NOW_MS), default=vars))
        view["calls"] = {call["call_id"]: call["status"] for call in view["calls"]}

        assert {name: view[name] for name in case["expected"]} == case["expected"]
