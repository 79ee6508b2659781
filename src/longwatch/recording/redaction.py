"""Secrets never reach a journal: values under telling names, and text in the shape of a known token."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

REDACTED = "[redacted]"
MAX_KNOWN_NAMES = 10_000  # names can come from data; do not keep them without end

_SECRET_ENDINGS = (
    "password",
    "passwords",
    "passwd",
    "passphrase",
    "secret",
    "secrets",
    "token",
    "apikey",
    "accesskey",
    "accesskeyid",
    "secretkey",
    "privatekey",
    "authorization",
    "credential",
    "credentials",
    "cookie",
    "cookies",
)
_NOT_SECRET = frozenset(
    {
        "nexttoken",
        "pagetoken",
        "nextpagetoken",
        "paginationtoken",
        "continuationtoken",
        "nextcontinuationtoken",
        "startingtoken",
        "tasktoken",
    }
)

# Each shape holds text that is cheap to look for; only where that is found is the expression tried at all.
_SHAPES: tuple[tuple[str, str], ...] = (
    ("AKIA", r"\bAKIA[0-9A-Z]{16}\b"),
    ("ASIA", r"\bASIA[0-9A-Z]{16}\b"),
    ("gh", r"\bgh[pousr]_[A-Za-z0-9]{36,}\b"),
    ("github_pat_", r"\bgithub_pat_[A-Za-z0-9_]{22,}\b"),
    ("glpat-", r"\bglpat-[A-Za-z0-9_-]{20,}"),
    ("sk-", r"\bsk-[A-Za-z0-9_-]{20,}"),
    ("k_live_", r"\b[sr]k_live_[A-Za-z0-9]{16,}\b"),
    ("xox", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),
    ("AIza", r"\bAIza[0-9A-Za-z_-]{35}"),
    ("eyJ", r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),
    ("earer ", r"(?<=[Bb]earer )[A-Za-z0-9._~+/-]{16,}=*"),
    ("://", r"(?<=://)[^\s/:@\"']*:[^\s/\"']+(?=@)"),  # also without a name, as Redis has it
    ("PRIVATE KEY", r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"),
    ("aws_secret", r"(?<=aws_secret_access_key)\W{1,5}[A-Za-z0-9/+]{40}"),
    ("AWS_SECRET", r"(?<=AWS_SECRET_ACCESS_KEY)\W{1,5}[A-Za-z0-9/+]{40}"),
)


class SecretNames:
    """Tells by its name whether a field holds a secret. Answers are remembered: names repeat."""

    def __init__(self, further: tuple[str, ...] = ()) -> None:
        self._further = frozenset(_folded(name) for name in further)
        self._known: dict[str, bool] = {}

    def __contains__(self, name: object) -> bool:
        try:
            return self._known[name]  # type: ignore[index]
        except (KeyError, TypeError):
            return isinstance(name, str) and self._decide(name)

    def _decide(self, name: str) -> bool:
        folded = _folded(name)
        secret = folded in self._further or (folded.endswith(_SECRET_ENDINGS) and folded not in _NOT_SECRET)
        if len(self._known) < MAX_KNOWN_NAMES:
            self._known[name] = secret
        return secret


def _folded(name: str) -> str:
    return name.replace("_", "").replace("-", "").replace(" ", "").lower()


def may_hold_secret(text: str) -> bool:
    """A quick look at a whole encoded payload. False is certain; True means `redact` should look closely.

    It runs for every event: a single character is found ten times faster than a word, and a loop over
    `_SHAPES` would cost more than writing the event does.
    """
    return (
        ("K" in text and ("AKIA" in text or "PRIVATE KEY" in text or "AWS_SECRET" in text))
        or ("I" in text and ("ASIA" in text or "AIza" in text))
        or ("J" in text and "eyJ" in text)
        or ("@" in text and "://" in text)
        or ("-" in text and ("sk-" in text or "glpat-" in text or "xox" in text))
        or ("_" in text and _may_hold_underscored(text))
        or "earer " in text
    )


def _may_hold_underscored(text: str) -> bool:
    if "github_pat_" in text or "k_live_" in text or "aws_secret" in text:
        return True
    return "gh" in text and any(prefix in text for prefix in ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"))


def redact_text(text: str) -> str:
    """The text with every well-known token shape blanked."""
    for hint, pattern in _SHAPES:
        if hint in text:
            text = _compiled(pattern).sub(REDACTED, text)
    return text


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.DOTALL)


def redact(value: object) -> object:
    """The value with token shapes blanked in every text inside it, keys of maps included."""
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, Mapping):
        return {redact_text(str(key)): redact(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [redact(item) for item in value]
    if isinstance(value, set | frozenset):
        return {redact(item) for item in value}
    return value
