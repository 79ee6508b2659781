"""Secrets that a text assigns to a name: `PGPASSWORD=x`, `--password x`, JSON, YAML, headers, URL queries.

The names are those of `SecretNames`, so that a field and a line of output follow the same rule.
"""

from __future__ import annotations

import base64
import binascii
import re

from longwatch.recording.secret_names import REDACTED, SecretNames

_FIRST_WORDS = (
    "api|access|private|secret|connection|database|db|session|account|signing|encryption|webhook|auth"
)
_NAME = re.compile(
    rf"(?<![\w.-])(?:(?P<name>(?:(?i:{_FIRST_WORDS})[ ])?[-\w.]++)(?P<close>\\*[\"']\]?|\]|%22)?"
    r"(?P<sign>[ \t]*(?:=>|:=|==?|:)[ \t]*(?:[bru]{1,2}(?=[\"']))?|%3[ADad](?:%2[27])?)"
    r"|(?P<option>-[-\w]++)[ \t]+(?=[^-\s]))"
)
_STOPS = r"\s\"'\\;&<>"
_VALUE = re.compile(
    r"(?P<quote>\\*[\"'])(?P<quoted>[^\r\n]*?)(?:(?<!\\)(?P=quote)|(?=[\r\n])|\Z)"
    r"|(?P<block>[|>][-+]?[ \t]*\n(?:[ \t]+[^\n]*(?:\n|\Z))+)"  # YAML
    r"|(?P<list>\[[^\[\]]*\])"
    rf"|(?P<bare>(?:[^{_STOPS},)\]}}]|[,)\]}}](?=[^{_STOPS},)\]}}])(?!\w+=))+)"
)
_HEADER = re.compile(
    r"(?i)\b(?P<name>(?:proxy-|x-[\w-]*)?authorization|(?:set-)?cookie2?)(?P<sign>\s*[:=]\s*)(?P<value>[^\r\n\"'\\]+)"
)
_SCHEME = re.compile(r"(?i)\b(?P<scheme>bearer|basic|token)(?P<gap>[ ]+)(?P<value>[A-Za-z0-9._~+/:-]+=*)")
# `the password is hunter2, …`: the value is quoted, or the clause ends with it.
_STATED = re.compile(
    r"(?i)(?P<head>\b(?:password|token)[ ](?:is|was)(?:[ ]now)?:?[ ]+)"
    r"(?:(?P<quote>[\"'`])(?P<quoted>[^\s\"'`]+)(?P=quote)"
    r"|(?P<bare>[^\s\"'`]{1,200}?)"
    r"(?=[.,;!?)]{0,10}(?:\s*\Z|[\r\n]|(?<=[.,;!?)])\s|[ ](?:and|but|for|so)[ ])))"
)
_STATED_CHARACTERS = 6
_WITH_DIGIT = re.compile(r"(?=.*[A-Za-z])(?=.*\d)")
# Words with digits that describe passwords: algorithms, encodings, versions and lengths.
_TECHNICAL = re.compile(
    r"(?i)(?:\d+-?[a-z]+|(?:base|sha|md|utf|iso|hs|rs|es|ps|aes|des|rsa|ed|oauth|pbkdf|argon|blake|hmac|crc|ntlm"
    r"|tls|http|uuid|v|version|step|line|row|page|test|user|client|server|slot|case)[-_]?v?\d[\w.-]*)"
)
_ELEMENT = re.compile(r"<(?P<name>[\w:.-]+)(?P<rest>[^<>]*)>(?P<value>[^<>]+)</(?P=name)>")
_SQL = re.compile(r"(?i)\b((?:password|identified\s+by)\s+)(['\"])[^'\"]+\2")
_PAIR = re.compile(
    r"(?i)(?P<head>\b(?:name|key)\\*[\"']?\s*+[:=]\s*+\\*[\"']?)(?P<name>[\w.-]++)"
    r"(?P<between>\\*[\"']?\s*+,?\s*+\\*[\"']?value\\*[\"']?\s*+[:=]\s*+\\*[\"']?)(?P<value>[^\s\"'\\,}<>]+)"
)
_CLIENT = re.compile(
    r"(\bsshpass\s+-p\s*|\bmysql(?:dump|admin)?\s(?:[^\n|;]{0,200}?\s)?-p"
    r"|\b(?:docker|podman|az|helm registry)\s+login\s(?:[^\n|;]{0,200}?\s)?-p[ =]"
    r"|\bredis-cli\s(?:[^\n|;]{0,200}?\s)?(?:-a|--pass)[ =])"
    r"(?:(['\"])[^'\"\n]+\2|[^\s'\"]+)"
)
_USER = re.compile(r"(?<!\S)(-u[ ]?|--user[ =]|--proxy-user[ =])(['\"]?)([^\s:'\"]+):([^\s'\"]+)")
_NETRC = re.compile(r"(\blogin\s+\S+\s+password\s+)\S+")
_QUERY_NAMES = frozenset(
    {"sig", "signature", "xamzsignature", "xgoogsignature", "xossignature", "key", "code", "hmac"}
)
_QUERY_CHARACTERS = 10
# Not a secret although it has the position of one: a word about it, a reference to it, or a placeholder.
_HARMLESS = re.compile(
    r"(?i)(?:none|null|nil|true|false|yes|no|on|off|undefined|empty|required|optional|missing|invalid|incorrect|wrong"
    r"|expired|unset|set|changed|updated|hidden|masked|ok|valid|unknown|revoked|rotated|accepted|rejected|failed|denied"
    r"|enabled|disabled|active|inactive|delivered|sent|not|found|see|here|below|above|expected|stdin|prompt"
    r"|str|string|int|bytes|any|bool|object|the|to|a|an|is|was|are|be|for|and|or|in|of|on|with|from|must|should|can"
    r"|cannot|will|may|has|flag|option|field|parameter|argument|auth|authentication|authorization|tokens?|scheme|header|basic|bearer"
    r"|\*+|x{3,}|\.{3}|…|\[redacted\]?|\[|\{|\(|\|)[.,:!?]*"
)
_REFERENCE = re.compile(
    r"[a-z_][a-z_.]*[(\[].*|[A-Z][a-z]+\[.*"  # code
    r"|[a-z_]+(?:\.[a-z_]+)*\.(?:pass|pwd|pin|[a-z_]*(?:password|secret|token|key))"
    r"|\$\{?[A-Z_][A-Z0-9_]*\}?|\$\{\{.*|\{\{?\s*[\w.]+\s*\}?\}|%\(?\w*\)?s|<[\w -]+>|\$\(.*"
)
_CREDENTIAL_CHARACTERS = 16  # in a sentence after `basic` or `token`
_MIXED = re.compile(r"\d|[a-z][A-Z]|[A-Z]{2}|=\Z|[+~]")  # no English word
_NUMBER = re.compile(r"[\d.:/,-]+")
# Possessive: letters that could belong to one word or to two take exponential time where no sentence follows.
_SENTENCE = re.compile(r"(?=..)(?:[A-Za-z][a-z'’]*+[.,]?+ ?+)++")
_PROSE_WORD = re.compile(r"[A-Za-z][a-z'’]*[.,:!?]?")


def redact_assignments(text: str, names: SecretNames) -> str:
    """Blank the values of secret names in a text.

    Each expression runs only where a literal part of every match occurs, which prose rarely has.
    """
    lower = text.lower()
    if "authorization" in lower or "cookie" in lower:
        text = _HEADER.sub(_without_header, text)
    if any(sign in text for sign in "=:%-"):
        text = _redact_named(text, names)
    if "</" in text:
        text = _ELEMENT.sub(lambda match: _without_content(match, names), text)
    if "value" in lower:
        text = _PAIR.sub(lambda match: _without_pair(match, names), text)
    if "'" in text or '"' in text:
        text = _SQL.sub(rf"\1{REDACTED}", text)
    if "-p" in text or "-a" in text:
        text = _CLIENT.sub(rf"\1{REDACTED}", text)
    if "-u" in text:
        text = _USER.sub(rf"\1\2\3:{REDACTED}", text)
    return text


def redact_schemes(text: str) -> str:
    """Blank what follows `Bearer`, `Basic`, `Token` and `password is`, and netrc passwords."""
    lower = text.lower()
    if " is" in lower or " was" in lower:
        text = _STATED.sub(_without_stated, text)
    text = _SCHEME.sub(_without_credential, text)
    return _NETRC.sub(rf"\1{REDACTED}", text) if "login" in text else text


def _without_header(match: re.Match[str]) -> str:
    value = match["value"].strip()
    if "cookie" in match["name"].lower():
        is_secret = "=" in value
    else:
        is_secret = not _HARMLESS.fullmatch(value) and not (
            _SENTENCE.fullmatch(value) and not _SCHEME.match(value)
        )
    if not is_secret:
        return match[0]
    scheme = _SCHEME.match(value)
    parts = f"{scheme['scheme']} " if scheme else ""
    return f"{match['name']}{match['sign']}{parts}{REDACTED}"


def _redact_named(text: str, names: SecretNames) -> str:
    """Blank the value after each secret name. The value of a harmless name is searched for further names."""
    parts: list[str] = []
    copied = at = 0
    while (name := _NAME.search(text, at)) is not None:
        at = name.end()
        value = _VALUE.match(text, at) if _is_candidate(name, names) else None
        if value is None or not _assigns_secret(name, value, names):
            continue
        quote, end = value["quote"] or "", "\n" if value[0].endswith("\n") else ""
        parts += [text[copied:at], quote, REDACTED, quote, end]
        copied = at = value.end()
    return "".join([*parts, text[copied:]]) if parts else text


def _is_candidate(match: re.Match[str], names: SecretNames) -> bool:
    return _assigned_name(match) in names or _is_query_name(match)


def _assigned_name(match: re.Match[str]) -> str:
    return (match["name"] or match["option"]).lstrip("-")


def _is_query_name(match: re.Match[str]) -> bool:
    in_query = match.start() > 0 and match.string[match.start() - 1] in "?&"
    return in_query and _fold_name(_assigned_name(match)) in _QUERY_NAMES


def _assigns_secret(name: re.Match[str], match: re.Match[str], names: SecretNames) -> bool:
    value = next(each for each in match.group("quoted", "block", "list", "bare") if each is not None)
    if _is_query_name(name):
        return len(value) >= _QUERY_CHARACTERS
    if not value or not names.hides(_assigned_name(name), _typed(value)) or _is_harmless(value):
        return False
    is_sentence = match["bare"] is not None and name["close"] is None and ":" in (name["sign"] or "")
    return not (is_sentence and _is_prose(match, value))


def _typed(value: str) -> object:
    return int(value) if value.isdecimal() and len(value) < 20 else value


def _is_harmless(value: str) -> bool:
    return bool(_HARMLESS.fullmatch(value) or _REFERENCE.fullmatch(value))


def _is_prose(match: re.Match[str], value: str) -> bool:
    """Whether `password: click the link` continues as a sentence. YAML ends the line after the value."""
    rest = match.string[match.end() : match.end() + 40].lstrip(" \t")
    continues = bool(rest) and rest[0] not in "\r\n,;}])#\"'\\&"
    return continues and _PROSE_WORD.fullmatch(value) is not None


def _without_content(match: re.Match[str], names: SecretNames) -> str:
    if not names.hides(match["name"].rpartition(":")[2], match["value"]) or _is_harmless(
        match["value"].strip()
    ):
        return match[0]
    return f"<{match['name']}{match['rest']}>{REDACTED}</{match['name']}>"


def _without_pair(match: re.Match[str], names: SecretNames) -> str:
    if not names.hides(match["name"], match["value"]) or _is_harmless(match["value"]):
        return match[0]
    return f"{match['head']}{match['name']}{match['between']}{REDACTED}"


def _without_stated(match: re.Match[str]) -> str:
    quote, value = match["quote"] or "", match["quoted"] or match["bare"]
    if _is_harmless(value) or (
        not quote
        and (len(value) < _STATED_CHARACTERS or not _WITH_DIGIT.match(value) or _TECHNICAL.fullmatch(value))
    ):
        return match[0]
    return f"{match['head']}{quote}{REDACTED}{quote}"


def _without_credential(match: re.Match[str]) -> str:
    if not _is_credential(match["scheme"].lower(), match["value"], match):
        return match[0]
    return f"{match['scheme']}{match['gap']}{REDACTED}"


def _is_credential(scheme: str, value: str, match: re.Match[str]) -> bool:
    word = value.rstrip(".:")
    if _HARMLESS.fullmatch(value) or _NUMBER.fullmatch(word):
        return False
    if scheme == "basic" and _holds_colon(value):
        return True
    is_mixed = _MIXED.search(word) is not None
    if scheme == "bearer" and is_mixed:
        return True
    if is_mixed and len(word) >= _CREDENTIAL_CHARACTERS:
        return True
    is_alone = not match.string[: match.start()].strip(" \n\"'") and not match.string[match.end() :].strip(
        " \n\"'"
    )
    return is_alone and (scheme == "bearer" or is_mixed)


def _holds_colon(value: str) -> bool:
    """Whether a text is `user:password` in Base64."""
    try:
        decoded = base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
        return b":" in decoded and decoded.decode().isprintable()
    except (binascii.Error, ValueError):
        return False


def _fold_name(name: str) -> str:
    return name.replace("-", "").replace("_", "").lower()
