"""Blanks secrets in text: tokens that are recognised by their shape, and values assigned to secret names.

Each row of `PREFIXED` and `PLAIN` has a hint, a literal text that is cheap to search for, and the expression
that is tried only where the hint was found.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache

from longwatch.recording.secret_names import NAME_HINTS, REDACTED, SecretNames

_BASE64URL = "[A-Za-z0-9_-]"
_BASE64 = "[A-Za-z0-9+/]"
_GITLAB = ("pat", "dt", "rt", "cbt", "ptt", "ft", "imt", "agent", "soat", "ffct", "oas")

# Each of these has an unbroken run of 20 letters, digits, hyphens and underscores, which `may_hold_secret`
# searches for first. A run of hexadecimal digits counts only after a full stop.
RUN_CHARACTERS = 20
PREFIXED: tuple[tuple[str, str], ...] = (
    ("AKIA", r"\bAKIA[0-9A-Z]{16}\b"),  # AWS
    ("ASIA", r"\bASIA[0-9A-Z]{16}\b"),
    ("ABSK", r"\bABSK[A-Za-z0-9+/]{100,}={0,2}"),  # Amazon Bedrock
    *((f"gh{kind}_", r"\bgh[pousr]_[A-Za-z0-9]{36,}\b") for kind in "pousr"),  # GitHub
    ("github_pat_", r"\bgithub_pat_[A-Za-z0-9_]{22,}\b"),
    *((f"gl{kind}-", rf"\bgl{kind}-[A-Za-z0-9_.-]{{20,}}") for kind in _GITLAB),
    ("GR1348941", rf"\bGR1348941{_BASE64URL}{{20,}}"),
    ("glsa_", r"\bglsa_[A-Za-z0-9_]{20,}"),  # Grafana
    ("glc_", r"\bglc_[A-Za-z0-9_+/=-]{20,}"),
    ("sk-", r"\bsk-[A-Za-z0-9_-]{20,}"),  # OpenAI, Anthropic, Langfuse and others
    ("k_live_", r"\b[sr]k_live_[A-Za-z0-9]{16,}\b"),  # Stripe
    ("k_test_", r"\b[sr]k_test_[A-Za-z0-9]{16,}\b"),
    ("whsec_", r"\bwhsec_[A-Za-z0-9+/]{20,}=*"),
    ("xox", r"\bxox[abceoprs][-.][A-Za-z0-9.-]{15,}"),  # Slack
    ("xapp-", r"\bxapp-\d-[A-Za-z0-9-]{20,}"),
    ("AIza", r"\bAIza[0-9A-Za-z_-]{35}"),  # Google
    ("ya29.", r"\bya29\.[0-9A-Za-z_-]{20,}"),
    ("GOCSPX-", rf"\bGOCSPX-{_BASE64URL}{{20,}}"),
    ("1//0", rf"(?<!\w)1//0{_BASE64URL}{{30,}}"),
    ("npm_", r"\bnpm_[A-Za-z0-9]{36}\b"),
    ("pypi-", rf"\bpypi-{_BASE64URL}{{40,}}"),
    ("hf_", r"\bhf_[A-Za-z0-9]{30,}\b"),  # Hugging Face
    ("api_org_", r"\bapi_org_[A-Za-z0-9]{30,}\b"),
    ("SG.", rf"\bSG\.{_BASE64URL}{{20,}}\.{_BASE64URL}{{20,}}"),  # SendGrid
    ("SK", r"\bSK[0-9a-fA-F]{32}\b"),  # Twilio
    ("_v1_", r"\bdo[opr]_v1_[0-9a-f]{64}\b"),  # DigitalOcean
    *((f"hv{kind}.", rf"\bhv[sbr]\.{_BASE64URL}{{20,}}") for kind in "sbr"),  # Vault
    ("s.", r"(?<![\w.])s\.(?=\w{0,23}\d)(?=\w{0,23}[A-Z])[A-Za-z0-9]{24}\b"),
    ("dapi", r"\bdapi[0-9a-f]{32}(?:-\d)?\b"),  # Databricks
    *(
        (f"shp{kind}_", rf"\bshp{kind}_[0-9a-fA-F]{{32}}\b") for kind in ("at", "ca", "pa", "ss", "tka")
    ),  # Shopify
    (":", rf"(?<=\d{{8}}:){_BASE64URL}{{35}}(?![\w-])"),  # Telegram
    ("AZDO", r"\b[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}\b"),  # Azure DevOps, then keys of other Azure services
    ("JQQJ9", r"\b[A-Za-z0-9]{40,}JQQJ9[A-Za-z0-9]{20,}\b"),
    *(
        (mark, rf"{_BASE64}{{33,76}}{re.escape(mark)}{_BASE64}{{5,7}}={{0,2}}(?!{_BASE64})")
        for mark in ("+ASt", "+ABa", "+AMC", "+ASb", "+AEh", "+ARm", "+ACR", "ACDb")
    ),
    *(
        (mark, rf"(?<![\w-]){_BASE64URL}{{33,44}}{mark}{_BASE64URL}{{5,7}}={{0,2}}(?![\w-])")
        for mark in ("AzFu", "AzSe", "AzCa")
    ),
    ("gsk_", r"\bgsk_[A-Za-z0-9]{40,}\b"),  # Groq
    ("xai-", r"\bxai-[A-Za-z0-9]{40,}\b"),
    ("r8_", r"\br8_[A-Za-z0-9]{37}\b"),  # Replicate
    ("pplx-", r"\bpplx-[A-Za-z0-9]{40,}\b"),
    ("lsv2_", r"\blsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}\b"),  # LangSmith
    ("lin_api_", r"\blin_api_[A-Za-z0-9]{40}\b"),
    ("ntn_", r"\bntn_[A-Za-z0-9]{40,}\b"),  # Notion
    ("sntry", r"\bsntry[su]_[A-Za-z0-9_=+/-]{40,}"),
    ("NRAK-", r"\bNRAK-[A-Z0-9]{27}\b"),
    ("PMAK-", r"\bPMAK-[0-9a-f]{24}-[0-9a-f]{34}\b"),
    ("dckr_", rf"\bdckr_(?:pat|oat)_{_BASE64URL}{{27,}}"),
    ("atlasv1.", rf"\b[A-Za-z0-9]{{14}}\.atlasv1\.{_BASE64URL}{{60,}}"),
    ("ATATT3", rf"\bATATT3{_BASE64URL}{{60,}}={{0,2}}"),  # Atlassian
    ("ATBB", r"\bATBB[A-Za-z0-9]{32}\b"),
    ("dp.", r"\bdp\.(?:pt|st|ct|sa)\.[A-Za-z0-9_.-]{40,}"),  # Doppler
    ("figd_", rf"\bfigd_{_BASE64URL}{{30,}}"),  # Figma
    ("tskey-", r"\btskey-[a-z]+-[A-Za-z0-9-]{20,}"),  # Tailscale
    ("pul-", r"\bpul-[0-9a-f]{40}\b"),  # Pulumi
    ("bkua_", r"\bbkua_[0-9a-f]{40}\b"),  # Buildkite
    ("rubygems_", r"\brubygems_[0-9a-f]{48}\b"),
    ("sbp_", r"\bsbp_[0-9a-f]{40}\b"),  # Supabase
    ("pscale_", rf"\bpscale_(?:tkn|pw|oauth)_{_BASE64URL}{{32,}}"),  # PlanetScale
    ("HRKU-", rf"\bHRKU-{_BASE64URL}{{36,}}"),  # Heroku
    ("ops_eyJ", rf"\bops_eyJ{_BASE64URL}{{40,}}"),  # 1Password
    ("key-", r"\bkey-[0-9a-f]{32}\b"),  # Mailgun
    ("-us", r"\b[0-9a-f]{32}-us\d{1,2}\b"),  # Mailchimp
    ("rzp_", r"\brzp_(?:live|test)_[A-Za-z0-9]{14}\b"),  # Razorpay
    ("sq0", rf"\bsq0(?:atp|csp|idp)-{_BASE64URL}{{22,43}}"),  # Square
    ("EAA", rf"\bEAA{_BASE64URL}{{61,}}"),  # Square and Facebook
    ("sl.", rf"\bsl\.(?:u\.)?{_BASE64URL}{{100,}}"),  # Dropbox
    *((f"vc{kind}_", rf"\bvc{kind}_[A-Za-z0-9]{{24,}}\b") for kind in "aikpr"),  # Vercel
    *((f"cf{kind}_", rf"\bcf{kind}_{_BASE64URL}{{40,}}") for kind in ("k", "ut", "at")),  # Cloudflare
    ("pat", r"\bpat[A-Za-z0-9]{14}\.[0-9a-f]{64}\b"),  # Airtable
    (".", rf"\b[MNO][A-Za-z0-9]{{23,27}}\.{_BASE64URL}{{6}}\.{_BASE64URL}{{27,}}"),  # Discord
    ("AGE-SECRET-KEY-1", r"\bAGE-SECRET-KEY-1[0-9A-Z]{58}\b"),
    ("hooks.slack.com/", r"(?<=hooks\.slack\.com/)(?:services|workflows|triggers)/[\w/]{20,}"),
    ("/webhooks/", rf"(?<=/webhooks/)\d{{15,}}/{_BASE64URL}{{40,}}"),  # Discord
    ("webhook.office.com/", r"(?<=webhook\.office\.com/)[\w@/.-]{40,}"),
)
# For the hints above that most texts contain: what a text with such a token also contains, even encoded as
# JSON, where the letter of `\\n` may precede the token. Each begins with its hint, which makes it fast.
AFTER_FREQUENT_HINTS = {
    ":": rf":{_BASE64URL}{{{RUN_CHARACTERS}}}",
    ".": rf"\.{_BASE64URL}{{6}}\.{_BASE64URL}{{{RUN_CHARACTERS}}}",
    "pat": r"pat[A-Za-z0-9]{14}\.",
}
PLAIN: tuple[tuple[str, str], ...] = (
    ("eyJ", r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),  # JSON web tokens
    ("eyJ", r"\beyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){4}"),  # encrypted ones
    ("k.eyJ", r"\b[st]k\.eyJ[A-Za-z0-9_-]{40,}\.[A-Za-z0-9_-]{20,}"),  # Mapbox; those with `pk` are public
    (
        "Q~",
        r"(?<![\w.~-])[A-Za-z0-9_.~-]{3}\dQ~[A-Za-z0-9_.~-]{31,34}(?![\w~])",
    ),  # client secrets of Entra ID
    ("://", r"(?<=://)[^\s/:@\"'\\]*:[^\s/\"'\\]+(?=@)"),  # also without a name, as Redis has it
    ("://", r"(?<=://)[A-Za-z0-9_-]{20,}(?=@)"),  # a token instead of the name
    # A password with a slash. The bounds keep a long text without any `@` from taking quadratic time.
    (
        "://",
        r"(?<=://)[^\s:@\"'\\/?#]{0,64}:(?!\d+/)[^\s\"'\\@]{1,128}(?=@[\w.-]+(?::\d+)?(?:[/?\s\"'\\]|\Z))",
    ),
    (
        "PRIVATE KEY",
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
        r".*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\Z)",
    ),
    ("Private-Lines: ", r"(?<=Private-Lines: ).*?(?=Private-MAC:|\Z)"),  # PuTTY
)

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
    """Check an encoded payload with this many fields quickly. False is certain; True requires `redact`.

    It runs for every event. Finding a single character is seven times faster than finding a word, and most
    payloads lack most of these characters; a loop over all hints would cost more than writing the event.
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
    """Whether an encoded payload assigns anything inside its strings, where a colon follows no quote.

    Each field has one colon. A payload with no further colons is flat and needs no second count.
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
    return any(map(lower.__contains__, NAME_HINTS))


def _has_token_run(text: str) -> bool:
    """Whether the text has a run of 20 letters, digits, hyphens and underscores, as prefixed tokens have.

    UUIDs, hexadecimal digests and lower-case names are not tokens, and are the most frequent long runs. Only
    after a full stop can a digest be the second half of a token.
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
    """Blank every token and every value that the text assigns to a secret name."""
    shapes = (*PLAIN, *PREFIXED) if _has_token_run(text) else PLAIN
    for hint, pattern in shapes:
        if hint in text:
            text = _compile(pattern).sub(REDACTED, text)
    lower = text.lower()
    if _names_secret(lower):
        from longwatch.recording.secret_assignments import redact_assignments, redact_schemes

        text = redact_assignments(text, names)
        if _may_hold_scheme(lower):
            text = redact_schemes(text)
    return text


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.DOTALL)


def redact(value: object) -> object:
    """Blank the secrets in every text inside the value, including keys of maps."""
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
    """Redact a list, which may be a command line: the password follows `--password`."""
    redacted: list[object] = []
    follows_secret = False
    for value in values:
        is_option = isinstance(value, str) and value.startswith("-")
        redacted.append(
            REDACTED if follows_secret and isinstance(value, str) and not is_option else redact(value)
        )
        follows_secret = is_option and str(value).lstrip("-") in _STANDARD_NAMES
    return redacted
