"""Recorded text made safe and measured for a terminal: no raw control characters, true column widths."""

from __future__ import annotations

import re
import unicodedata

ELLIPSIS = "…"

# Besides C0, DEL and C1: what reorders or breaks a line, and lone surrogates, which no terminal takes.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_NO_WIDTH = frozenset({"Mn", "Me", "Cf"})


def clean(text: str) -> str:
    """The text with control characters written out, so that no payload can steer a terminal."""
    return _UNSAFE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    if character in _NAMED:
        return _NAMED[character]
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def columns_of(text: str) -> int:
    """How many columns the text takes: two for a wide character, none for a combining one."""
    if text.isascii():
        return len(text)
    return sum(_character_columns(character) for character in text)


def _character_columns(character: str) -> int:
    if character.isascii():
        return 1
    if unicodedata.category(character) in _NO_WIDTH:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def fit(text: str, columns: int) -> str:
    """The text, cut to at most this many columns with an ellipsis that shows the cut."""
    if len(text) * 2 <= columns or columns_of(text) <= columns:
        return text
    if columns <= 0:
        return ""
    used, kept = 0, 0
    for character in text:
        used += _character_columns(character)
        if used > columns - 1:
            break
        kept += 1
    return text[:kept] + ELLIPSIS


def pad(text: str, columns: int, *, right: bool = False) -> str:
    """The text filled up with spaces to this many columns; `right` puts the text at the right edge."""
    space = " " * (columns - columns_of(text))
    return space + text if right else text + space
