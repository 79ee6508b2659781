"""Rules are parsed completely, or rejected with the key and the value that is wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from longwatch.errors import InvalidSettings
from longwatch.notifications.channels.base import Channel, ChannelContext, ChannelKind, Options
from longwatch.notifications.rules import Rule, Trigger, parse_rules, rules_of
from longwatch.settings import Settings

OK = {"name": "failures", "trigger": ["failed", "died"], "channel": "plain", "to": "ops"}


def check(options: Options) -> None:
    if options.get("to") == "nobody":
        raise ValueError("to must be a team, not 'nobody'")


def open_plain(options: Options, context: ChannelContext) -> Channel:
    raise AssertionError("not opened here")


KINDS = {"plain": ChannelKind(name="plain", options=frozenset({"to"}), check=check, open=open_plain)}


def test_a_rule_has_its_triggers_its_query_and_the_options_of_its_channel() -> None:
    rules, mistakes = parse_rules([{**OK, "runs": "tag:nightly", "resolved": False}], KINDS)

    assert mistakes == []
    assert rules == (
        Rule(
            name="failures",
            triggers=(Trigger.FAILED, Trigger.DIED),
            runs="tag:nightly",
            channel="plain",
            options={"to": "ops"},
            resolves=False,
        ),
    )


def test_a_condition_lasts_as_long_as_stated_and_else_as_long_as_usual() -> None:
    (stated, usual), _ = parse_rules(
        [
            {**OK, "name": "a", "trigger": "waiting", "after": "1h30m"},
            {**OK, "name": "b", "trigger": ["silent", "overdue"]},
        ],
        KINDS,
    )

    assert stated.threshold_ms(Trigger.WAITING) == 90 * 60_000
    assert usual.threshold_ms(Trigger.SILENT) == 5 * 60_000
    assert usual.threshold_ms(Trigger.OVERDUE) == 0


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"name": ""}, "name must be"),
        ({"name": "a b"}, "'a b'"),
        ({"trigger": None}, "trigger must be one or more of ended, failed"),
        ({"trigger": []}, "trigger must be"),
        ({"trigger": ["faild"]}, "trigger 'faild' is unknown; did you mean 'failed'?"),
        ({"trigger": [1]}, "trigger 1 is unknown"),
        ({"channel": "pager"}, "channel must be one of plain, not 'pager'"),
        ({"runs": "status:lost"}, "runs 'status:lost': Invalid query at position 1"),
        ({"runs": 1}, "runs must be a query"),
        ({"after": "5m"}, "after '5m' needs a trigger that lasts: no heartbeat, overdue, silent, waiting"),
        ({"trigger": "silent", "after": "soon"}, "after: Invalid duration 'soon'"),
        ({"trigger": "silent", "after": 5}, "after must be a duration such as"),
        ({"resolved": "no"}, "resolved must be true or false, not 'no'"),
        ({"triger": "failed"}, "unknown key 'triger'; did you mean 'trigger'?"),
        ({"colour": "red"}, "unknown key 'colour'; the keys are name, trigger"),
        ({"to": "nobody"}, "to must be a team, not 'nobody'"),
    ],
)
def test_a_mistake_names_the_key_and_the_value(change: dict[str, object], problem: str) -> None:
    rules, mistakes = parse_rules([{**OK, **change}], KINDS)

    assert rules == ()
    assert len(mistakes) == 1
    assert problem in mistakes[0]


def test_every_mistake_of_the_settings_is_reported_with_its_file() -> None:
    tables = [OK, {**OK}, {"name": "x"}]
    settings = replace(Settings(journal="memory://"), notify=tables, file=Path("longwatch.toml"))

    with pytest.raises(InvalidSettings) as raised:
        rules_of(settings, KINDS)

    assert len(raised.value.mistakes) == 2
    assert raised.value.mistakes[0] == "longwatch.toml: notify rule 'failures': name is used by two rules"


def test_anything_but_tables_is_rejected() -> None:
    assert "invalid notify" in parse_rules("all", KINDS)[1][0]
    assert "invalid notify" in parse_rules([1], KINDS)[1][0]


def test_a_rule_that_reacts_to_something_else_has_another_fingerprint() -> None:
    (one,), _ = parse_rules([OK], KINDS)

    assert replace(one, options={"to": "dev"}, name="other").fingerprint == one.fingerprint
    assert replace(one, runs="tag:x").fingerprint != one.fingerprint
    assert replace(one, triggers=(Trigger.ENDED,)).fingerprint != one.fingerprint
