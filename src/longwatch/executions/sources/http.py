"""Polls an HTTP endpoint for a status, with the standard library alone.

A response without a status is not an answer: a login page, an error page of a proxy and a health check are
all sent with code 200. The code is the status only where the declaration has a word for it (`HTTP 204`).
"""

from __future__ import annotations

import json
import re
import socket
import ssl
import threading
import time
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from email.message import Message
from http.client import HTTPException
from typing import Any
from urllib.parse import SplitResult, quote, urlsplit

from longwatch.errors import InvalidInput
from longwatch.executions.sources.base import SourceProblem
from longwatch.executions.sources.dates import (
    bounded_seconds,
    date_seconds,
    parse_retry_after,
    response_date_ms,
)
from longwatch.executions.sources.declarations import Declaration, HttpCall, normalize
from longwatch.executions.sources.declared import AwsTarget, PolledJob, run_parallel
from longwatch.executions.sources.expressions import fill_template
from longwatch.executions.sources.http_url import (
    expand_variables,
    reject_secrets,
    unset_variables,
    validate_url,
    variable_names,
    with_options,
)
from longwatch.executions.sources.mapping import RawJob
from longwatch.executions.sources.outcome_fields import status_values
from longwatch.executions.truncation import storable_text
from longwatch.storage.http import HttpResponse, fetch

MOST_KEPT, MOST_KEPT_BYTES = 500, 16 * 1024  # answers with an ETag
LONGEST_WORD_BYTES = 64  # of an answer that is a word and nothing else
HEALTHY = "ok"  # what a health check and many a proxy say: alone it is the status of no job

_EPOCH_FROM = 1e9  # a larger number of seconds is a time; a smaller one is how long to wait
_NO_ENTRY = frozenset({401, 403, 407})
_NOT_THERE = frozenset({404, 410})
_LATER = frozenset({408, 425, 429})


class HttpCaller:
    """An `Asker` by GET requests. An answer with an ETag is not sent again while it is the same."""

    def __init__(self, declaration: Declaration, headers: Mapping[str, str] | None = None) -> None:
        assert isinstance(declaration.call, HttpCall)
        self._declaration = declaration
        self._call = declaration.call
        self._headers = {**declaration.call.headers, **(headers or {})}
        self._kept: dict[str, HttpResponse] = {}
        self._lock = threading.Lock()

    def call(self, target: AwsTarget, ids: Sequence[str]) -> Mapping[str, PolledJob]:
        return run_parallel(self._poll_one, ids)

    def check(self) -> SourceProblem | None:
        try:
            expand_variables(self._call.url)
            expand_headers(self._headers)
        except ValueError as error:
            return SourceProblem(str(error), lasting=True)
        return None

    def check_id(self, job_id: str) -> SourceProblem | None:
        try:
            address = self._filled(self._call.url, job_id)
            if self._call.url == "{id}":
                reject_secrets(validate_url(with_options(self._declaration, address)[1]))
        except (ValueError, InvalidInput) as error:
            return SourceProblem(str(error), lasting=True)
        return None

    def close(self) -> None:
        self._kept.clear()

    def _poll_one(self, what: str) -> PolledJob:
        address = what
        try:
            url = with_scheme(self._filled(expand_variables(self._call.url, _in_url), what))
            declaration, address = with_options(self._declaration, url)
            if self._call.url == "{id}":
                reject_secrets(address)
            page = self._get(validate_url(address), expand_headers(self._headers))
        except (ValueError, InvalidInput) as error:
            return SourceProblem(str(error), lasting=True)
        except (OSError, HTTPException) as error:
            return unreachable(urlsplit(address), getattr(error, "reason", None) or error)
        # As it is declared: what the environment adds may be a secret.
        found = parse_response(page, declaration, self._filled(self._call.url, what))
        return replace(found, date=response_date_ms(page.headers)) if isinstance(found, RawJob) else found

    def _filled(self, url: str, what: str) -> str:
        if self._call.url == "{id}":
            return what
        return fill_template(
            url, what, self._call.divider, quote=lambda part: quote(part, safe=""), quote_path=_path
        )

    def _get(self, url: str, headers: Mapping[str, str]) -> HttpResponse:
        with self._lock:
            kept = self._kept.get(url)
        known = {} if kept is None else {"If-None-Match": str(kept.headers["ETag"])}
        page = fetch(url, {**headers, **known})
        if page.code == 304 and kept is not None:
            return replace(kept, headers=page.headers)  # how long to wait, and what time it is there
        with self._lock:
            self._kept.pop(url, None)
            if page.code == 200 and page.headers["ETag"] and len(page.body) <= MOST_KEPT_BYTES:
                self._kept[url] = page
            if len(self._kept) > MOST_KEPT:
                del self._kept[next(iter(self._kept))]
        return page


def unreachable(address: SplitResult, reason: object) -> SourceProblem:
    """The problem that a request without a response is: an outage, unless it is surely the address."""
    if isinstance(reason, socket.gaierror) and reason.errno == socket.EAI_NONAME:
        return SourceProblem(
            f"Host name {address.hostname!r} does not resolve. Check the address", lasting=True
        )
    if isinstance(reason, ssl.SSLCertVerificationError):
        return SourceProblem(
            f"The certificate of {address.netloc} is not trusted ({reason.verify_message}). Check the "
            "address, or name the file of its authority in SSL_CERT_FILE",
            lasting=True,
        )
    return SourceProblem(f"{address.netloc} can not be reached ({reason})")


def parse_response(page: HttpResponse, declaration: Declaration, url: str) -> PolledJob:
    """What an answer says: a job, that there is none, or why it says nothing."""
    if page.code in _NOT_THERE:
        return None
    wish = retry_after(page.headers)
    told = f"{re.split('[?#]', url, maxsplit=1)[0]} answered {page.code}"  # what follows may be a secret
    throttled = is_throttled(page)
    if page.code in _NO_ENTRY and not throttled:
        return SourceProblem(f"{told}. {_credentials(declaration)}", lasting=True)
    if throttled or page.code in _LATER or page.code >= 500:
        return SourceProblem(told, wish, throttled=throttled)
    if not 200 <= page.code < 300:
        return SourceProblem(told, wish, lasting=True)
    fields = _json(page.body)
    if fields is None and _is_json(page):
        return SourceProblem(f"{told} with JSON that can not be read: {page.body[:80]!r}", wish)
    if declaration.status is not None and fields is not None:
        return RawJob(fields, declaration=declaration, again_seconds=wish)
    word = None if declaration.status is not None else _word_in(fields, page, declaration)
    if word is None:
        meaning = declaration.statuses.get(normalize(f"HTTP {page.code}"))
        if meaning is None or (meaning.is_end and page.moved_to is not None):
            return _without_status(fields, page, declaration, told)
        word = f"HTTP {page.code}"
    return RawJob(fields, word, declaration, again_seconds=wish)


def expand_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers with what the environment has. Raises ValueError, which never holds the value of one."""
    found = {}
    for name, value in headers.items():
        if unset_variables(value):
            continue
        found[name] = _basic(expand_variables(value).strip())
        if not found[name].isprintable() or not name.isascii() or not name.isprintable():
            raise ValueError(f"the header {name!r} holds a line break or something else that can not be sent")
        try:
            found[name].encode("latin-1")
        except UnicodeEncodeError:
            raise ValueError(f"the header {name!r} holds a character that can not be sent") from None
    return found


def _word_in(fields: Any, page: HttpResponse, declaration: Declaration) -> str | None:
    """The status that an answer tells: in a field, or as the only word there is."""
    for said in (*status_values(fields), None if fields is None or normalize(fields) == HEALTHY else fields):
        if isinstance(said, str | int | float):  # a JSON true is `true`
            return str(said).lower() if isinstance(said, bool) else str(said)
    body = page.body.strip()  # whole: what follows a word may be why it is not the status
    text = body.decode(errors="replace") if len(body) <= LONGEST_WORD_BYTES else ""
    return text if normalize(text) in declaration.statuses and normalize(text) != HEALTHY else None


def _without_status(fields: Any, page: HttpResponse, declaration: Declaration, told: str) -> SourceProblem:
    """The problem that a response without a status is, with what to do about it."""
    if page.moved_to is not None:
        there = urlsplit(page.moved_to).netloc
        return SourceProblem(
            f"{told} after a redirect to {there}, without a status: it may be a login page. "
            "Pass the credentials with --header, or watch that URL",
            lasting=True,
        )
    if isinstance(fields, Mapping | list):
        has = ", ".join(str(name) for name in fields) if isinstance(fields, Mapping) else "a list"
        has = storable_text(has, 200) or "nothing"
        return SourceProblem(
            f"{told} with JSON that has no status; it has {has}. Pass the path to the status with "
            "--status-path, or as `status` of the declaration",
            lasting=True,
        )
    if declaration.status is not None:
        return SourceProblem(
            f"{told} without JSON, so there is no {declaration.status}{_shown(page)}", lasting=True
        )
    return SourceProblem(
        f"{told} without a status{_shown(page)}. If the code alone means success, pass --accept-status-code; "
        "if it is a login page, pass the credentials with --header",
        lasting=True,
    )


def _shown(page: HttpResponse) -> str:
    """What a response is instead: its type and how it begins."""
    kind = page.headers.get_content_type() if page.headers["Content-Type"] else "no type"
    begins = f", {page.body[:60]!r}" if page.body else ", an empty body"
    return f" ({kind}{begins})"


def _is_json(page: HttpResponse) -> bool:
    """Whether a response is meant to be JSON; one that can not be read was cut off."""
    kind = page.headers.get_content_type() if page.headers["Content-Type"] else ""
    return bool(page.body) and (kind.endswith("json") or page.body.lstrip()[:1] in (b"{", b"["))


def is_throttled(page: HttpResponse) -> bool:
    """Whether the server refuses because of a rate limit. GitHub does so with 403 as well as with 429."""
    is_used_up = str(page.headers["X-RateLimit-Remaining"] or "").strip() == "0"
    return page.code == 429 or (page.code == 403 and (is_used_up or page.headers["Retry-After"] is not None))


def retry_after(headers: Message) -> float | None:
    """How long the server asks to wait: seconds, until a date, or until its rate limit is reset.

    A date is compared with the server's own clock, if the response has its time.
    """
    if headers["Retry-After"] is not None:
        return parse_retry_after(headers["Retry-After"], date=headers["Date"])
    if str(headers["X-RateLimit-Remaining"] or headers["RateLimit-Remaining"] or "").strip() == "0":
        reset = headers["X-RateLimit-Reset"] or headers["RateLimit-Reset"]
        with suppress(TypeError, ValueError):
            seconds = float(reset)
            now = date_seconds(headers["Date"]) or time.time()
            return bounded_seconds(seconds if seconds < _EPOCH_FROM else seconds - now)
    return None


def with_scheme(url: str) -> str:
    """The URL; a host from the environment, such as GITLAB_HOST, may come without `https://`."""
    return url if "://" in url.partition("?")[0] else f"https://{url}"


def _credentials(declaration: Declaration) -> str:
    """What to do where the server wants to know who asks."""
    assert isinstance(declaration.call, HttpCall)
    names = [name for value in declaration.call.headers.values() for name in variable_names(value)]
    if not names:
        return "Pass the credentials with --header"
    return f"Set {' and '.join(names)} to credentials that may read it"


def unset_credentials(declaration: Declaration) -> list[str]:
    """The variables for credentials that the declaration reads and that are not set."""
    headers = declaration.call.headers.values() if isinstance(declaration.call, HttpCall) else ()
    return [name for value in headers for name in unset_variables(value)]


def _basic(value: str) -> str:
    """`Basic USER:PASSWORD` as it is sent; what is encoded already has no colon."""
    scheme, _, user = value.partition(" ")
    if scheme.casefold() != "basic" or ":" not in user:
        return value
    return f"Basic {b64encode(user.strip().encode()).decode()}"


def _path(part: str) -> str:
    """A part of an id that is a path. It stays below where it is put."""
    if any(step in ("", ".", "..") for step in part.split("/")):
        raise ValueError(f"{part!r} has an empty step or one of dots. Write it as in the address of its page")
    return quote(part, safe="/%")  # what is encoded already stays so


def _in_url(value: str) -> str:
    return quote(value, safe=":/").rstrip("/")  # it may be a host or a path


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
