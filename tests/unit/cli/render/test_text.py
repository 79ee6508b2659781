from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.cli.render.text import clean, clean_json, clean_lines, columns_of, fit, pad


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain", "plain"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("two\nlines\tand\r", "two\\nlines\\tand\\r"),
        ("\x9b31m", "\\x9b31m"),
        ("\x7f", "\\x7f"),
        ("safe\u202eevil", "safe\\u202eevil"),
        ("\ud800", "\\ud800"),
        ("a\u200bb\u200dc\u2060d\xade\ufeff", "a\\u200bb\\u200dc\\u2060d\\xade\\ufeff"),
        ("\U000e0041", "\\U000e0041"),
        ("grüße 資料 👩‍🚀", "grüße 資料 👩‍🚀"),
    ],
)
def test_control_characters_are_written_out_and_everything_else_stays(raw: str, shown: str) -> None:
    assert clean(raw) == shown


@given(st.text())
def test_cleaned_text_can_be_printed_whatever_it_was(text: str) -> None:
    cleaned = clean(text)

    cleaned.encode()
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in cleaned)


def test_lines_stay_lines() -> None:
    assert clean_lines("one\n\x1btwo\r") == "one\n\\x1btwo\\r"


@given(st.dictionaries(st.text(), st.text()))
def test_cleaned_json_is_the_same_document(document: dict[str, str]) -> None:
    cleaned = clean_json(json.dumps(document, ensure_ascii=False, indent=2))

    assert json.loads(cleaned) == document
    assert clean_lines(cleaned) == cleaned


def test_wide_characters_take_two_columns_and_combining_ones_none() -> None:
    assert columns_of("資料") == 4
    assert columns_of("e\u0301") == 1
    assert columns_of("abc") == 3


@given(st.text(), st.integers(1, 30))
def test_fitted_text_never_takes_more_columns_than_there_are(text: str, columns: int) -> None:
    fitted = fit(clean(text), columns)

    assert columns_of(fitted) <= columns


def test_a_cut_is_visible() -> None:
    assert fit("research report", 9) == "research…"
    assert fit("資料資料", 5) == "資料…"
    assert fit("short", 9) == "short"
    assert fit("anything", 0) == ""


def test_padding_counts_columns_not_characters() -> None:
    assert pad("資料", 6) == "資料  "
    assert pad("7", 3, right=True) == "  7"
