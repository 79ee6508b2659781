"""`longwatch prune`: by age and by rules of retention."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.invocation import invoke


def test_the_document_states_the_age_or_the_number_of_rules(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "longwatch.toml"
    settings.write_text('[[retention]]\nkind = "unused"\nafter = "1d"\n', encoding="utf-8")
    monkeypatch.setenv("LONGWATCH_CONFIG", str(settings))

    by_rules = json.loads(invoke("prune", "-o", "json", "--journal", file).stdout)
    by_age = json.loads(invoke("prune", "--older-than", "9999d", "-o", "json", "--journal", file).stdout)

    assert by_rules == {"deleted_events": 0, "rules": 1, "dry_run": False}
    assert by_age.keys() == {"deleted_events", "before", "dry_run"}
    assert by_age["before"] > 0
