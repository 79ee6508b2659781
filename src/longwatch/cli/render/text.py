"""Makes recorded text safe for a terminal, and measures its columns."""

from __future__ import annotations

import re
import unicodedata

ELLIPSIS = "…"

# Besides C0, DEL and C1: characters that reorder or break a line, zero-width characters that hide in a name,
# and lone surrogates, which no terminal accepts.
_UNSAFE = (
    "\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff"
)
_PICTURE = "[\u2600-\u27bf\ufe0f\U0001f000-\U0001faff]"
_JOINER = f"(?<={_PICTURE})\u200d{_PICTURE}"  # 👩‍🚀 is two pictures and a joiner, which hides nothing there
_IN_LINE = re.compile(f"(?!{_JOINER})[{_UNSAFE}]")
_IN_LINES = re.compile(f"(?!{_JOINER}|\n)[{_UNSAFE}]")
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_NO_WIDTH = frozenset({"Mn", "Me", "Cf"})


def clean(text: str) -> str:
    """The text with control characters escaped, so that no payload can control a terminal."""
    return text if text.isascii() and text.isprintable() else _IN_LINE.sub(_escape, text)


def clean_lines(text: str) -> str:
    """`clean` for a text of several lines, whose line breaks stay."""
    return text if text.isascii() and text.isprintable() else _IN_LINES.sub(_escape, text)


def clean_json(text: str) -> str:
    """JSON with control characters as JSON escapes, so that the document stays the same."""
    return text if text.isascii() and text.isprintable() else _IN_LINES.sub(_json_escape, text)


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    if character in _NAMED:
        return _NAMED[character]
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _json_escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


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
    used, length = 0, 0
    for character in text:
        used += _character_columns(character)
        if used > columns - 1:
            break
        length += 1
    return text[:length] + ELLIPSIS


def pad(text: str, columns: int, *, right: bool = False) -> str:
    """The text filled up with spaces to this many columns; `right` puts the text at the right edge."""
    space = " " * (columns - columns_of(text))
    return space + text if right else text + space


def count_text(count: int, noun: str) -> str:
    """A number with its noun: `1 run`, `2,000 runs`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
