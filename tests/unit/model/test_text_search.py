"""The text of events, and where it has the words of a search."""

from __future__ import annotations

import pytest

from longwatch.model.event import Event
from longwatch.model.text_search import EXCERPT_CHARACTERS, event_text, excerpt, find_phrases, words_of


def test_the_text_of_an_event_has_its_fields_and_no_empty_ones() -> None:
    payload = {"input": {"city": "Oslo", "days": [1, 2]}, "error": None, "note": "two\n \x1b[31mlines"}
    event = Event(
        run_id="r", event_id="e", type="tool_call", occurred_at=1, agent_name="guide", payload=payload
    )

    assert event_text(event) == "tool_call guide input: city: Oslo days: 1 2 note: two lines"


@pytest.mark.parametrize(
    ("searched", "found"),
    [
        (["time"], ["Timed"]),
        (["out time"], []),
        (["timed o"], ["Timed out"]),
        (["feed", "timed"], ["Timed", "feed"]),
        (["feed", "absent"], []),
        (["fetch_prices"], ["fetch_prices"]),
        (["imed"], []),
    ],
)
def test_words_match_beginnings_and_phrases_match_rows(searched: list[str], found: list[str]) -> None:
    text = "fetch_prices: Timed out, no answer of the feed"

    spans = find_phrases(text, [words_of(each) for each in searched])

    assert [text[low:high] for low, high in spans] == found


def test_an_excerpt_shows_the_first_match_and_marks_it() -> None:
    text = "a " * 200 + "needle " + "b " * 200
    parts = excerpt(text, find_phrases(text, [("needle",)]))

    assert [part.text for part in parts if part.is_match] == ["needle"]
    assert parts[0].text == "…"
    assert parts[-1].text.endswith("…")
    assert len("".join(part.text for part in parts)) <= EXCERPT_CHARACTERS + 2
