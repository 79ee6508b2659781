"""The query language for lists of runs: `status:failed agent:reader -tag:test duration:>5m since:2d import`.

All terms must hold. A term is a word, which is part of the ID or the name, or `field:value`. Commas separate
alternatives, quotes enclose spaces and colons, and a leading minus negates.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches

from longwatch.errors import InvalidInput, InvalidQuery
from longwatch.model.endings import Status
from longwatch.model.moments import moment_ms, span_ms
from longwatch.model.run_query import INDEX_KINDS, RunQuery
from longwatch.model.run_terms import COMPARISONS, EXACT_FIELDS, PARTIAL_FIELDS, DurationTerm, TextTerm

MAX_QUERY_CHARACTERS = 1_000
TEXT_FIELDS = (PARTIAL_FIELDS.keys() | EXACT_FIELDS.keys()) - {"text"}
QUERY_FIELDS = tuple(sorted({*TEXT_FIELDS, "status", "duration", "since", "until"}))

_QUOTED = r'"(?:[^"\\]|\\.)*"'
_TOKEN = re.compile(rf'(?P<minus>-)?(?:(?P<field>\w+):)?(?P<value>(?:{_QUOTED}|[^\s"])*)')
_VALUE = re.compile(rf'(?:{_QUOTED}|[^,"])+')
_COMPARISON = re.compile(r"(>=|<=|>|<)(.*)")


@dataclass(frozen=True, slots=True)
class _Term:
    """One term of the text, with its position from 1."""

    position: int
    field: str  # empty: a free word
    values: tuple[str, ...]
    is_negated: bool

    def fail(self, problem: str) -> InvalidQuery:
        return InvalidQuery(problem, self.position)


def parse_query(text: str, *, now_ms: int, within: RunQuery | None = None) -> RunQuery:
    """The query of this text. `within` has conditions that are given elsewhere, such as options.

    Projects and conversations, which never end, are listed only if the query names their kind. Raises
    `InvalidQuery` with the position and the nearest known word.
    """
    query = within or RunQuery(except_kinds=INDEX_KINDS)
    if len(text) > MAX_QUERY_CHARACTERS:
        raise InvalidQuery(f"A query has at most {MAX_QUERY_CHARACTERS} characters.", MAX_QUERY_CHARACTERS)
    for term in _terms(text):
        query = _with_term(query, term, now_ms)
    return query


def _terms(text: str) -> Iterator[_Term]:
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        found = _TOKEN.match(text, at)
        end = at if found is None else found.end()
        if found is None or end == at or text[end : end + 1].strip():
            raise InvalidQuery("A quote is not closed.", text.index('"', at) + 1)
        field, value = (found["field"] or "").lower(), found["value"]
        values = tuple(_unquoted(each) for each in (_VALUE.findall(value) if field else [value]))
        term = _Term(at + 1, field, tuple(each for each in values if each), found["minus"] is not None)
        if field and field not in QUERY_FIELDS:
            advice = _nearest(field, QUERY_FIELDS, otherwise=", or put text with a colon in quotes")
            raise term.fail(f"Unknown field {found['field']!r}.{advice}")
        if not term.values:
            raise term.fail(f"{found[0]!r} has no value.")
        yield term
        at = end


def _unquoted(value: str) -> str:
    return re.sub(_QUOTED, lambda quoted: re.sub(r"\\(.)", r"\1", quoted[0][1:-1]), value)


def _nearest(word: str, known: tuple[str, ...], *, otherwise: str = "") -> str:
    begun = [each for each in known if word and each.startswith(word.lower())]
    near = begun or get_close_matches(word.lower(), known, n=1)
    return f" Did you mean {near[0]!r}?" if near else f" Use one of {', '.join(known)}{otherwise}."


def _with_term(query: RunQuery, term: _Term, now_ms: int) -> RunQuery:
    match term.field:
        case "status":
            return _with_statuses(query, term)
        case "since" | "until":
            return _with_time(query, term, now_ms)
        case "duration":
            return replace(query, terms=(*query.terms, _duration(term, now_ms)))
    values = frozenset(value.casefold() for value in term.values)
    if term.field == "kind" and not term.is_negated:
        query = replace(query, except_kinds=query.except_kinds - values)
    return replace(query, terms=(*query.terms, TextTerm(term.field or "text", values, term.is_negated)))


def _with_statuses(query: RunQuery, term: _Term) -> RunQuery:
    known = tuple(status.value for status in Status)
    for value in term.values:
        if value.lower() not in known:
            raise term.fail(f"Unknown status {value!r}.{_nearest(value, known)}")
    named = frozenset(Status(value.lower()) for value in term.values)
    wanted = frozenset(Status) - named if term.is_negated else named
    return replace(query, status=wanted if query.status is None else query.statuses & wanted)


def _with_time(query: RunQuery, term: _Term, now_ms: int) -> RunQuery:
    if term.is_negated:
        raise term.fail(f"{term.field!r} cannot be negated. Use since: or until: instead.")
    value = _single(term)
    try:
        at = moment_ms(value, now_ms=now_ms)
    except InvalidInput as error:
        raise term.fail(str(error)) from error
    if term.field == "since":
        return replace(query, since=at if query.since is None else max(at, query.since))
    return replace(query, until=at if query.until is None else min(at, query.until))


def _duration(term: _Term, now_ms: int) -> DurationTerm:
    found = _COMPARISON.fullmatch(_single(term))
    if found is None:
        raise term.fail(f"A duration is compared with one of {' '.join(COMPARISONS)}, as in duration:>5m.")
    try:
        return DurationTerm(found[1], span_ms(found[2]), now_ms, term.is_negated)
    except InvalidInput as error:
        raise term.fail(str(error)) from error


def _single(term: _Term) -> str:
    if len(term.values) > 1:
        raise term.fail(f"{term.field!r} has one value only.")
    return term.values[0]
