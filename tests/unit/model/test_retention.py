"""Rules of retention, as in longwatch.toml."""

from __future__ import annotations

import pytest

from longwatch.model.endings import Status
from longwatch.model.retention import DAY_MS, RetentionRule, parse_retention


def test_rules_select_by_kind_status_age_and_size() -> None:
    rules, mistakes = parse_retention(
        [{"kind": "turn", "status": "succeeded", "after": "30d"}, {"max_size": "2GB"}]
    )

    assert mistakes == []
    assert rules == (
        RetentionRule(kind="turn", status=Status.SUCCEEDED, after_ms=30 * DAY_MS),
        RetentionRule(max_bytes=2_000_000_000),
    )


@pytest.mark.parametrize(
    ("table", "mistake"),
    [
        ({}, "needs after"),
        ({"after": "30"}, "after must be text such as 30d, 12h or 90m, not '30'"),
        ({"after": 30}, "not 30"),
        ({"max_size": "2 gigs"}, "max_size must be text such as 500MB or 2GB"),
        ({"after": "1d", "status": "running"}, "open runs never expire"),
        ({"after": "1d", "kind": ""}, "kind must be text"),
        ({"after": "1d", "age": "2d"}, "unknown key 'age'"),
    ],
)
def test_a_mistake_names_the_rule_and_the_value(table: dict[str, object], mistake: str) -> None:
    rules, mistakes = parse_retention([{"after": "1h"}, table])

    assert len(rules) == 1
    assert mistakes[0].startswith("retention rule 2: ")
    assert mistake in mistakes[0]


def test_retention_is_a_list_of_tables() -> None:
    assert parse_retention({"after": "1d"})[1][0].startswith("invalid retention")
