"""Secrets never reach a journal: values under secret names, and text in the shape of a known token."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache

from longwatch.recording.secret_names import NAME_HINTS
from longwatch.recording.secret_names import SecretNames as SecretNames
from longwatch.recording.secret_shapes import AFTER_FREQUENT_HINTS, PLAIN, PREFIXED, RUN_CHARACTERS

REDACTED = "[redacted]"

_STANDARD_NAMES = SecretNames()
LONGEST_WORD = 16  # characters, in a name such as `nightly-import_of-customers`
_RUN = b"x" * RUN_CHARACTERS
_SAMPLED = 4  # every fourth character: a run of 20 holds at least five of those in a row
_SAMPLED_RUN = b"x" * (RUN_CHARACTERS // _SAMPLED)
_CLASSES = bytes(120 if (chr(n).isalnum() and n < 128) or n in b"_-" else 32 for n in range(256))
_PREFIXES = tuple(dict.fromkeys(hint for hint, _ in PREFIXED if hint not in AFTER_FREQUENT_HINTS))
_HEXADECIMAL, _LOWER_CASE = "0123456789abcdef-", "abcdefghijklmnopqrstuvwxyz-_"
_AFTER_FREQUENT_HINTS = tuple(map(re.compile, AFTER_FREQUENT_HINTS.values()))


def may_hold_secret(text: str, fields: int = 0) -> bool:
    """A quick check of an encoded payload with this many fields. False is certain; True requires `redact`.

    It runs for every event. A single character is found seven times faster than a word, and most payloads
    lack most of these characters; a loop over all hints would cost more than writing the event does.
    """
    return (
        ("J" in text and "eyJ" in text)
        or ("@" in text and "://" in text)
        or ("~" in text and "Q~" in text)
        or (" " in text and _may_hold_spaced(text))
        or (_may_assign(text, fields) and _names_secret(text.lower()))
        or (_has_token_run(text) and _may_hold_prefixed(text))
    )


def _may_hold_prefixed(text: str) -> bool:
    return any(map(text.__contains__, _PREFIXES)) or any(
        pattern.search(text) for pattern in _AFTER_FREQUENT_HINTS
    )


def _may_hold_spaced(text: str) -> bool:
    return (
        ("K" in text and "PRIVATE KEY" in text)
        or ("P" in text and "Private-Lines: " in text)
        or _may_hold_scheme(text.lower())
    )


def _may_hold_scheme(lower: str) -> bool:
    return (
        ("b" in lower and ("bearer " in lower or "basic " in lower))
        or ("k" in lower and "token " in lower)
        or ("w" in lower and "password " in lower)
    )


def _may_assign(text: str, fields: int) -> bool:
    """Whether encoded text assigns anything inside its strings: there, colons that follow no quote.

    Each field has one colon. A payload with no more than those is flat and needs no second count.
    """
    colons = text.count(":")
    return (
        "=" in text
        or "\\" in text
        or "'" in text
        or "<" in text
        or ("%" in text and "%3" in text)
        or ("-" in text and ("--" in text or " -" in text))
        or (colons != fields and colons != text.count('":'))
    )


def _names_secret(lower: str) -> bool:
    return any(hint in lower for hint in NAME_HINTS)


def _has_token_run(text: str) -> bool:
    """Whether 20 letters, digits, hyphens and underscores stand in a row, as in every prefixed token.

    UUIDs, hexadecimal digests and lower-case names are no tokens, and are the most frequent long runs. Only
    after a full stop can a digest be the second half of one.
    """
    if _SAMPLED_RUN not in text[::_SAMPLED].encode("latin-1", "replace").translate(_CLASSES):
        return False
    classes = text.encode("latin-1", "replace").translate(_CLASSES)
    start = classes.find(_RUN)
    while start >= 0:
        end = classes.find(b" ", start)
        run = text[start:] if end < 0 else text[start:end]
        is_digest = not run.strip(_HEXADECIMAL) and text[start - 1 : start] != "."
        if not is_digest and not _is_lower_case_name(run):
            return True
        start = classes.find(_RUN, start + len(run))
    return False


def _is_lower_case_name(run: str) -> bool:
    return not run.strip(_LOWER_CASE) and max(map(len, run.replace("-", "_").split("_"))) < LONGEST_WORD


def redact_text(text: str, names: SecretNames = _STANDARD_NAMES) -> str:
    """The text with every known token shape, and every value that it assigns to a secret name, blanked."""
    shapes = (*PLAIN, *PREFIXED) if _has_token_run(text) else PLAIN
    for hint, pattern in shapes:
        if hint in text:
            text = _compiled(pattern).sub(REDACTED, text)
    lower = text.lower()
    if _names_secret(lower):
        from longwatch.recording.secret_assignments import redact_assignments, redact_schemes

        text = redact_assignments(text, names)
        if _may_hold_scheme(lower):
            text = redact_schemes(text)
    return text


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.DOTALL)


def redact(value: object) -> object:
    """The value with secrets blanked in every text inside it, keys of maps included."""
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, Mapping):
        return {redact_text(str(key)): redact(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return _redact_list(value)
    if isinstance(value, set | frozenset):
        return {redact(item) for item in value}
    return value


def _redact_list(values: Sequence[object]) -> list[object]:
    """A list may be a command line: what follows `--password` is the password."""
    kept: list[object] = []
    follows_secret = False
    for value in values:
        is_option = isinstance(value, str) and value.startswith("-")
        kept.append(
            REDACTED if follows_secret and isinstance(value, str) and not is_option else redact(value)
        )
        follows_secret = is_option and str(value).lstrip("-") in _STANDARD_NAMES
    return kept
