"""URLs of HTTP endpoints: validation, variables, and options in the fragment.

The fragment of a URL is not sent to the server. It holds the path to the status and the meanings of statuses,
so that every poller of the execution parses its responses in the same way.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from urllib.parse import parse_qs, parse_qsl, urldefrag, urlencode, urlsplit

from longwatch.executions.sources.declarations import Declaration, Meaning, normalize
from longwatch.executions.sources.expressions import parse_path
from longwatch.executions.sources.shipped import CODE_STATUSES

ACCEPT, CODE = "accept", "status-code"
OPTIONS = ("status", "outcome", ACCEPT, *(each.value for each in Meaning))

_VARIABLE = re.compile(r"\$\{(?P<names>\w+(?:\|\w+)*)(?::-(?P<default>[^}]*))?\}")
_SECRET_ENDINGS = (
    *("apikey", "accesskey", "privatekey", "credential", "credentials", "passwd", "password", "passphrase"),
    *("passcode", "secret", "signature", "token", "pwd", "cookie", "authorization", "sessionid", "webhook"),
)
_SECRET_NAMES = frozenset({"auth", "sig", "pass", "pw", "pin", "otp", "jwt", "sid", "hmac"})


def validate_url(url: str) -> str:
    """Return the URL. Raises ValueError if it is invalid or contains a password."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"Invalid URL {url!r}. Use http:// or https:// and a host")
    if parts.username or parts.password:
        raise ValueError("The URL contains a password, and it is stored. Pass the password with --header")
    return url


def reject_secrets(url: str) -> str:
    """Return the URL. Raises ValueError if the name of a parameter suggests a secret."""
    for name, _ in parse_qsl(urlsplit(url).query, keep_blank_values=True):
        folded = name.casefold().replace("-", "").replace("_", "")
        if folded.endswith(_SECRET_ENDINGS) or folded in _SECRET_NAMES:
            raise ValueError(
                f"The parameter {name} of the URL looks like a secret, and the URL is stored. Pass it with "
                "--header, or declare a watch in longwatch.toml with ${NAME} in its url"
            )
    return url


def with_options(declaration: Declaration, url: str) -> tuple[Declaration, str]:
    """The declaration with the options in the fragment of a URL, and the URL without them.

    Raises `InvalidInput` if the fragment contains an invalid path.
    """
    base, fragment = urldefrag(url)
    options = parse_qs(fragment) if "=" in fragment else {}
    if not options or set(options) - set(OPTIONS):
        return declaration, base  # a fragment of the page, without options
    statuses = dict(declaration.statuses)
    if CODE in options.get(ACCEPT, ()):
        statuses |= CODE_STATUSES
    for meaning in Meaning:
        statuses |= {normalize(word): meaning for word in options.get(meaning.value, ())}
    path = options.get("status", [declaration.status])[0]
    outcome = tuple(options.get("outcome", declaration.outcome))
    for each in (path or "", *outcome):
        parse_path(each)
    return replace(declaration, status=path, outcome=outcome, statuses=statuses), base


def url_with_options(
    url: str,
    *,
    status: str | None = None,
    statuses: Mapping[str, Sequence[str]] | None = None,
    outcome: Sequence[str] = (),
    accept_status_code: bool = False,
) -> str:
    """The URL with these options in its fragment."""
    options = [("status", status)] if status else []
    options += [("outcome", path) for path in outcome]
    options += [(ACCEPT, CODE)] if accept_status_code else []
    options += [(meaning, status_) for meaning, listed in (statuses or {}).items() for status_ in listed]
    return f"{urldefrag(url)[0]}#{urlencode(options)}" if options else url


def expand_variables(value: str, quote: Callable[[str], str] = str) -> str:
    """Replace `${NAME}` by the environment variable. Raises ValueError if it is not set.

    `${NAME|OTHER}` is the first of them that is set, and `${NAME:-default}` has a default.
    """

    def found(match: re.Match[str]) -> str:
        value = _environment(match)
        if value is None:
            names = match["names"].replace("|", " or ")
            raise ValueError(f"The environment variable {names} is not set. Set it and run the command again")
        return quote(value)

    return _VARIABLE.sub(found, value)


def fill_defaults(value: str) -> str:
    """Replace variables by their defaults; one without a default by `x`, at the beginning by `https://x`."""
    return _VARIABLE.sub(lambda match: match["default"] or ("x" if match.start() else "https://x"), value)


def unset_variables(value: str) -> list[str]:
    """The optional variables (`${NAME:-}`) of a value that are not set, each with its alternatives."""
    found = [match for match in _VARIABLE.finditer(value) if match["default"] == ""]
    return [match["names"].replace("|", " or ") for match in found if not _environment(match)]


def variable_names(value: str) -> list[str]:
    """The variables of a value, each with its alternatives: `GH_TOKEN or GITHUB_TOKEN`."""
    return [match["names"].replace("|", " or ") for match in _VARIABLE.finditer(value)]


def _environment(match: re.Match[str]) -> str | None:
    """The first variable that is set and not empty, or the default."""
    values = (os.environ.get(name, "").strip() for name in match["names"].split("|"))
    default: str | None = match["default"]
    return next((value for value in values if value), default)
