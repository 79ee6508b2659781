"""Addresses of HTTP endpoints: what may be one, and what its fragment says about reading the answer.

The fragment of a URL is sent to no server. So it can hold where the status is and which words mean what, and
whoever finds the execution later reads its answers in the same way.
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
    """The same address. Raises ValueError if it is none, or holds a password."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url!r} is no address of an HTTP server")
    if parts.username or parts.password:
        raise ValueError("an address is stored, so it may hold no password: pass it with --header")
    return url


def reject_secrets(url: str) -> str:
    """The same address. Raises ValueError if a parameter of it is one that holds a secret by its name."""
    for name, _ in parse_qsl(urlsplit(url).query, keep_blank_values=True):
        folded = name.casefold().replace("-", "").replace("_", "")
        if folded.endswith(_SECRET_ENDINGS) or folded in _SECRET_NAMES:
            raise ValueError(
                f"an address is stored, so it may hold no secret, and {name} looks like one: pass it with "
                "--header, or declare a watch in longwatch.toml with ${NAME} in its url"
            )
    return url


def with_options(declaration: Declaration, url: str) -> tuple[Declaration, str]:
    """The declaration with what the fragment of a URL adds, and the URL without it.

    Raises `InvalidInput` if the fragment holds something that is no path.
    """
    address, fragment = urldefrag(url)
    said = parse_qs(fragment) if "=" in fragment else {}
    if not said or set(said) - set(OPTIONS):
        return declaration, address  # a fragment of the page, and none of ours
    statuses = dict(declaration.statuses)
    if CODE in said.get(ACCEPT, ()):
        statuses |= CODE_STATUSES
    for meaning in Meaning:
        statuses |= {normalize(word): meaning for word in said.get(meaning.value, ())}
    path = said.get("status", [declaration.status])[0]
    outcome = tuple(said.get("outcome", declaration.outcome))
    for each in (path or "", *outcome):
        parse_path(each)
    return replace(declaration, status=path, outcome=outcome, statuses=statuses), address


def url_with_options(
    url: str,
    *,
    status: str | None = None,
    statuses: Mapping[str, Sequence[str]] | None = None,
    outcome: Sequence[str] = (),
    accept_status_code: bool = False,
) -> str:
    """The URL with these options in its fragment, so that every poller reads the response in the same way."""
    options = [("status", status)] if status else []
    options += [("outcome", path) for path in outcome]
    options += [(ACCEPT, CODE)] if accept_status_code else []
    options += [(meaning, word) for meaning, said in (statuses or {}).items() for word in said]
    return f"{urldefrag(url)[0]}#{urlencode(options)}" if options else url


def expand_variables(value: str, quote: Callable[[str], str] = str) -> str:
    """The value with `${NAME}` taken from the environment. Raises ValueError if it is not set.

    `${NAME|OTHER}` is the first of them that is set, and `${NAME:-default}` has a default.
    """

    def found(match: re.Match[str]) -> str:
        value = _environment(match)
        if value is None:
            names = match["names"].replace("|", " or ")
            raise ValueError(f"the environment variable {names} is not set. Set it and run the command again")
        return quote(value)

    return _VARIABLE.sub(found, value)


def fill_defaults(value: str) -> str:
    """The value with the defaults of its variables; `https://x` stands for one without at its beginning."""
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
