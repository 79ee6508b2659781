"""Full text of events: the text of an event, and where it has the words of a search.

A word matches the beginnings of words of the text, in any case; a phrase in quotes matches words in a row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from unicodedata import normalize

from longwatch.model.event import Event

EXCERPT_CHARACTERS = 120
MAX_TEXT_CHARACTERS = 100_000  # of one event that are searched
MAX_MARKS = 20  # in one excerpt

Span = tuple[int, int]
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")  # escape sequences of a terminal, next to words
_WORD = re.compile(r"[^\W_](?:[^\W_]|[\u0300-\u036f])*")  # with accents that have no composed character


@dataclass(frozen=True, slots=True)
class ExcerptPart:
    """A part of an excerpt, and whether it is what was searched for."""

    text: str
    is_match: bool


def event_text(event: Event) -> str:
    """The type, the agent and all fields of the event, as one line of composed characters."""
    parts = [event.type, *([event.agent_name] if event.agent_name else []), *_texts(event.payload)]
    text = normalize("NFC", " ".join(parts)[:MAX_TEXT_CHARACTERS])
    return " ".join(_COLOUR.sub("", text).split())


def _texts(value: object) -> Iterable[str]:
    if isinstance(value, Mapping):
        for name, each in value.items():
            if each is not None:
                yield f"{name}:"
                yield from _texts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)
    elif value is not None:
        yield str(value)


def words_of(text: str) -> tuple[str, ...]:
    """The words of a text, folded: letters and digits in a row."""
    return tuple(word.casefold() for word in _WORD.findall(normalize("NFC", text)))


def find_phrase(text: str, phrase: Sequence[str]) -> list[Span]:
    """Where the text has these words in a row; of the last one, the beginning is enough."""
    found = [(each.start(), each.end(), each[0].casefold()) for each in _WORD.finditer(text)]
    spans: list[Span] = []
    for first in range(len(found) - len(phrase) + 1):
        here = found[first : first + len(phrase)]
        if all(word == wanted for (_, _, word), wanted in zip(here, phrase[:-1], strict=False)) and here[-1][
            2
        ].startswith(phrase[-1]):
            spans.append((here[0][0], here[-1][1]))
    return spans


def find_phrases(text: str, phrases: Sequence[Sequence[str]]) -> list[Span]:
    """Where the text has these phrases, in order; empty unless it has all of them."""
    found = [find_phrase(text, phrase) for phrase in phrases]
    return sorted(span for spans in found for span in spans) if all(found) else []


def excerpt(text: str, spans: Sequence[Span]) -> list[ExcerptPart]:
    """The text around the first match, with all matches in it marked."""
    start = max(0, spans[0][0] - EXCERPT_CHARACTERS // 3) if spans else 0
    end = start + EXCERPT_CHARACTERS
    parts = [ExcerptPart("…", False)] if start else []
    at = start
    for low, high in islice(spans, MAX_MARKS):
        if low < at or low >= end:
            continue
        high = min(high, end)  # noqa: PLW2901
        parts += [ExcerptPart(text[at:low], False), ExcerptPart(text[low:high], True)]
        at = high
    parts.append(ExcerptPart(text[at:end] + ("…" if end < len(text) else ""), False))
    return [part for part in parts if part.text]
