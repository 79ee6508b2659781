"""`longwatch search` prints events with the matching text."""

from __future__ import annotations

import json

from tests.unit.cli.invocation import invoke
from tests.unit.cli.samples import failing


def test_a_search_names_run_and_event_and_shows_the_text(file: str) -> None:
    word = failing()[0].type

    shown = invoke("search", "--journal", file, word)
    (first, *_) = json.loads(invoke("search", "--journal", file, word, "-o", "json").stdout)

    assert first["run_id"] in shown.stdout
    assert {"text": word, "is_match": True} in first["excerpt"]
    assert first.keys() >= {"event_id", "type", "occurred_at", "agent_name"}
    assert "No matching events." in invoke("search", "--journal", file, "absent").stderr
