"""Rules of notifications, from the tables `[[notify]]` of the settings.

A rule names what triggers it, the runs it applies to, in the query language of the list, and a channel with
its options. Parsing needs no network: a rule that names an unset variable is valid until it sends.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum
from hashlib import sha256

from longwatch.errors import InvalidInput, InvalidSettings
from longwatch.model.moments import SPAN_FORMS, span_ms
from longwatch.model.query_language import parse_query
from longwatch.model.run_query import RunQuery
from longwatch.notifications.channels.base import ChannelKind
from longwatch.settings import NOTIFY_VARIABLE, Settings

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Trigger(StrEnum):
    """What a rule reacts to."""

    ENDED = "ended"  # with any status
    FAILED = "failed"
    PARTIAL = "partial"
    DIED = "died"
    CORRECTED = "corrected"  # an ending was replaced by another
    SILENT = "silent"
    NO_HEARTBEAT = "no heartbeat"
    WAITING = "waiting"
    OVERDUE = "overdue"


CONDITIONS = frozenset({Trigger.SILENT, Trigger.NO_HEARTBEAT, Trigger.WAITING, Trigger.OVERDUE})
"""Triggers that hold for a while, and so can be resolved."""

DEFAULT_AFTER_MS: Mapping[Trigger, int] = {
    Trigger.SILENT: 5 * 60_000,
    Trigger.NO_HEARTBEAT: 3 * 60_000,
    Trigger.WAITING: 5 * 60_000,
    Trigger.OVERDUE: 0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One table `[[notify]]`."""

    name: str
    triggers: tuple[Trigger, ...]
    runs: str = ""  # a query; empty: every run
    channel: str  # the name of a `ChannelKind`
    options: Mapping[str, object] = field(default_factory=dict, hash=False)  # of the channel
    after_ms: int | None = None  # how long a condition has to last; None: `DEFAULT_AFTER_MS`
    resolves: bool = True  # whether it also sends that a condition no longer holds

    def threshold_ms(self, trigger: Trigger) -> int:
        """How long this condition has to last."""
        return DEFAULT_AFTER_MS.get(trigger, 0) if self.after_ms is None else self.after_ms

    def query(self, now_ms: int) -> RunQuery:
        """The runs it applies to. Times such as `since:2d` are relative to now."""
        return parse_query(self.runs, now_ms=now_ms)

    @property
    def fingerprint(self) -> str:
        """Identifies what it reacts to. A rule that is changed starts anew, like one that is added."""
        parts = (*self.triggers, self.runs, str(self.after_ms))
        return sha256("\0".join(parts).encode()).hexdigest()[:16]


COMMON_KEYS = ("name", "trigger", "runs", "channel", "after", "resolved")


def rules_of(settings: Settings, kinds: Mapping[str, ChannelKind]) -> tuple[Rule, ...]:
    """The rules of these settings. Raises `InvalidSettings` with every mistake found."""
    rules, mistakes = parse_rules(settings.notify, kinds)
    if mistakes:
        raise InvalidSettings([f"{settings.file or NOTIFY_VARIABLE}: {mistake}" for mistake in mistakes])
    return rules


def parse_rules(tables: object, kinds: Mapping[str, ChannelKind]) -> tuple[tuple[Rule, ...], list[str]]:
    """The rules in these tables, and what is wrong with the others."""
    if not isinstance(tables, Sequence) or not all(isinstance(each, Mapping) for each in tables):
        return (), [f'invalid notify {tables!r}. Use tables such as [[notify]] with name = "failures"']
    rules: dict[str, Rule] = {}
    mistakes: list[str] = []
    for number, table in enumerate(tables, 1):
        label = f"notify rule {table['name']!r}" if isinstance(table.get("name"), str) else f"notify {number}"
        try:
            rule = parse_rule(table, kinds)
            if rule.name in rules:
                raise ValueError("name is used by two rules")
        except (ValueError, InvalidInput) as error:
            mistakes.append(f"{label}: {error}")
        else:
            rules[rule.name] = rule
    return tuple(rules.values()), mistakes


def parse_rule(table: Mapping[str, object], kinds: Mapping[str, ChannelKind]) -> Rule:
    """The rule of one table. Raises ValueError with the key and the value that is wrong."""
    name = table.get("name")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise ValueError(f"name must be up to 64 letters, digits, '.', '_' or '-', not {name!r}")
    channel = table.get("channel")
    if not isinstance(channel, str) or channel not in kinds:
        raise ValueError(f"channel must be one of {', '.join(sorted(kinds))}, not {channel!r}")
    kind = kinds[channel]
    keys = (*COMMON_KEYS, *sorted(kind.options))
    for key in sorted(table.keys() - set(keys)):
        near = get_close_matches(key, keys, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"the keys are {', '.join(keys)}"
        raise ValueError(f"unknown key {key!r}; {hint}")
    options = {key: value for key, value in table.items() if key in kind.options}
    kind.check(options)
    triggers = _parse_triggers(table.get("trigger"))
    resolved = table.get("resolved", True)
    if not isinstance(resolved, bool):
        raise ValueError(f"resolved must be true or false, not {resolved!r}")
    return Rule(
        name=name,
        triggers=triggers,
        runs=_parse_query(table.get("runs", "")),
        channel=channel,
        options=options,
        after_ms=_parse_after(table.get("after"), triggers),
        resolves=resolved,
    )


def _parse_triggers(value: object) -> tuple[Trigger, ...]:
    words = [value] if isinstance(value, str) else value
    known = [each.value for each in Trigger]
    if not isinstance(words, list) or not words:
        raise ValueError(f"trigger must be one or more of {', '.join(known)}, not {value!r}")
    for word in words:
        if word not in known:
            near = get_close_matches(word, known, n=1) if isinstance(word, str) else []
            hint = f"did you mean {near[0]!r}?" if near else f"use {', '.join(known)}"
            raise ValueError(f"trigger {word!r} is unknown; {hint}")
    return tuple(dict.fromkeys(map(Trigger, words)))


def _parse_query(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"runs must be a query such as 'kind:workflow tag:nightly', not {value!r}")
    try:
        parse_query(value, now_ms=0)
    except InvalidInput as error:
        raise ValueError(f"runs {value!r}: {error}") from error
    return value


def _parse_after(value: object, triggers: Sequence[Trigger]) -> int | None:
    if value is None:
        return None
    if not CONDITIONS & set(triggers):
        raise ValueError(f"after {value!r} needs a trigger that lasts: {', '.join(sorted(CONDITIONS))}")
    if not isinstance(value, str):
        raise ValueError(f"after must be a duration such as {SPAN_FORMS}, not {value!r}")
    try:
        return span_ms(value)
    except InvalidInput as error:
        raise ValueError(f"after: {error}") from error
