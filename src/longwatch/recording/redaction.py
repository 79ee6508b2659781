"""Secrets never reach a journal: values under telling names, and text in the shape of a known token."""

from __future__ import annotations

import re
from collections.abc import Mapping

REDACTED = "[redacted]"

_SECRET_ENDINGS = (
    "password",
    "passwd",
    "passphrase",
    "secret",
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
)
_NOT_SECRET = frozenset({"nexttoken", "pagetoken", "continuationtoken", "startingtoken", "tasktoken"})

# Each shape begins with text that is cheap to look for; only where one of the hints is found is the
# expression tried at all.
_SHAPES: tuple[tuple[str, str], ...] = (
    ("AKIA", r"\bAKIA[0-9A-Z]{16}\b"),
    ("ASIA", r"\bASIA[0-9A-Z]{16}\b"),
    ("gh", r"\bgh[pousr]_[A-Za-z0-9]{36,}\b"),
    ("github_pat_", r"\bgithub_pat_[A-Za-z0-9_]{22,}\b"),
    ("glpat-", r"\bglpat-[A-Za-z0-9_-]{20,}"),
    ("sk-", r"\bsk-[A-Za-z0-9_-]{20,}"),
    ("sk_live_", r"\b[sr]k_live_[A-Za-z0-9]{16,}\b"),
    ("rk_live_", r"\brk_live_[A-Za-z0-9]{16,}\b"),
    ("xox", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),
    ("AIza", r"\bAIza[0-9A-Za-z_-]{35}"),
    ("eyJ", r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),
    ("earer ", r"(?<=[Bb]earer )[A-Za-z0-9._~+/-]{16,}=*"),
    ("://", r"(?<=://)[^\s/:@\"']+:[^\s/@\"']+(?=@)"),
    ("PRIVATE KEY", r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"),
    ("aws_secret", r"(?i)(?<=aws_secret_access_key)\W{1,5}[A-Za-z0-9/+]{40}"),
)
_HINTS = tuple(hint for hint, _ in _SHAPES)
_PATTERNS = tuple((hint, re.compile(pattern, re.DOTALL)) for hint, pattern in _SHAPES)


class SecretNames:
    """Tells by its name whether a field holds a secret. Answers are remembered: names repeat."""

    def __init__(self, further: tuple[str, ...] = ()) -> None:
        self._further = frozenset(_folded(name) for name in further)
        self._known: dict[str, bool] = {}

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        known = self._known.get(name)
        if known is None:
            folded = _folded(name)
            known = folded in self._further or (
                folded.endswith(_SECRET_ENDINGS) and folded not in _NOT_SECRET
            )
            if len(self._known) < 10_000:  # names can come from data; do not keep them without end
                self._known[name] = known
        return known


def _folded(name: str) -> str:
    return name.replace("_", "").replace("-", "").replace(" ", "").lower()


def may_hold_secret(text: str) -> bool:
    """A quick look at a whole encoded payload. False is certain; True means `redact` should look closely."""
    return any(hint in text for hint in _HINTS)


def redact_text(text: str) -> str:
    """The text with every well-known token shape blanked."""
    for hint, pattern in _PATTERNS:
        if hint in text:
            text = pattern.sub(REDACTED, text)
    return text


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
