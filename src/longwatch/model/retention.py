"""Rules of retention: which ended runs expire, by kind, status, age and the size of the journal."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from longwatch.model.endings import Status

OPEN = frozenset({Status.PENDING, Status.RUNNING})
DAY_MS = 24 * 3600 * 1000
UNITS_MS = {"d": DAY_MS, "h": 3600 * 1000, "m": 60 * 1000}
UNITS_BYTES = {"KB": 1000, "MB": 1000**2, "GB": 1000**3, "TB": 1000**4}
KEYS = ("kind", "status", "after", "max_size")


@dataclass(frozen=True, slots=True)
class RetentionRule:
    """Ended runs of a kind and a status expire at an age or, the oldest first, above a size of the file."""

    kind: str | None = None
    status: Status | None = None
    after_ms: int | None = None  # after their last event
    max_bytes: int | None = None


def parse_retention(tables: object) -> tuple[tuple[RetentionRule, ...], list[str]]:
    """The rules in `[[retention]]`, and what is wrong with them."""
    if not isinstance(tables, list) or not all(isinstance(each, Mapping) for each in tables):
        return (), [f'invalid retention {tables!r}. Use tables such as [[retention]] with after = "30d"']
    rules: list[RetentionRule] = []
    mistakes: list[str] = []
    for number, table in enumerate(tables, 1):
        try:
            rules.append(_parse_rule(table))
        except ValueError as error:
            mistakes.append(f"retention rule {number}: {error}")
    return tuple(rules), mistakes


def _parse_rule(table: Mapping[str, object]) -> RetentionRule:
    unknown = sorted(table.keys() - set(KEYS))
    if unknown:
        raise ValueError(f"unknown key {unknown[0]!r}; the keys are {', '.join(KEYS)}")
    if "after" not in table and "max_size" not in table:
        raise ValueError('needs after, such as "30d", or max_size, such as "2GB"')
    kind = table.get("kind")
    if kind is not None and (not isinstance(kind, str) or not kind):
        raise ValueError(f"kind must be text, not {kind!r}")
    return RetentionRule(
        kind=kind,
        status=_parse_status(table.get("status")),
        after_ms=_parse_amount(table, "after", UNITS_MS, "30d, 12h or 90m"),
        max_bytes=_parse_amount(table, "max_size", UNITS_BYTES, "500MB or 2GB"),
    )


def _parse_status(value: object) -> Status | None:
    if value is None:
        return None
    ended: Sequence[str] = [each.value for each in Status if each not in OPEN]
    if value not in ended:
        raise ValueError(f"status must be one of {', '.join(ended)}, not {value!r}; open runs never expire")
    return Status(str(value))


def _parse_amount(
    table: Mapping[str, object], key: str, units: Mapping[str, int], examples: str
) -> int | None:
    value = table.get(key)
    if value is None:
        return None
    match = re.fullmatch(rf"([1-9]\d{{0,8}}) ?({'|'.join(units)})", value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"{key} must be text such as {examples}, not {value!r}")
    return int(match[1]) * units[match[2]]
