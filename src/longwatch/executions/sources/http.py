"""Polls an HTTP endpoint for a status, with the standard library alone.

A response without a status is a problem: a login page, an error page of a proxy and a health check
all have code 200. The code is the status only where the declaration maps it (`HTTP 204`).
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

MAX_CACHED, MAX_CACHED_BYTES = 500, 16 * 1024  # responses with an ETag
MAX_STATUS_BYTES = 64  # of a response that is a status and nothing else
HEALTHY = "ok"  # of health checks and many proxies: alone it is not the status of a job

_EPOCH_FROM = 1e9  # a larger number of seconds is a time, a smaller one a duration
_NO_ENTRY = frozenset({401, 403, 407})
_NOT_THERE = frozenset({404, 410})
_LATER = frozenset({408, 425, 429})


class HttpCaller:
    """A `Caller` with GET requests, which caches responses with an ETag."""

    def __init__(self, declaration: Declaration, headers: Mapping[str, str] | None = None) -> None:
        assert isinstance(declaration.call, HttpCall)
        self._declaration = declaration
        self._call = declaration.call
        self._headers = {**declaration.call.headers, **(headers or {})}
        self._cache: dict[str, HttpResponse] = {}
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
            address = self._fill_url(self._call.url, job_id)
            if self._call.url == "{id}":
                reject_secrets(validate_url(with_options(self._declaration, address)[1]))
        except (ValueError, InvalidInput) as error:
            return SourceProblem(str(error), lasting=True)
        return None

    def close(self) -> None:
        self._cache.clear()

    def _poll_one(self, job_id: str) -> PolledJob:
        address = job_id
        try:
            url = with_scheme(self._fill_url(expand_variables(self._call.url, _in_url), job_id))
            declaration, address = with_options(self._declaration, url)
            if self._call.url == "{id}":
                reject_secrets(address)
            response = self._get(validate_url(address), expand_headers(self._headers))
        except (ValueError, InvalidInput) as error:
            return SourceProblem(str(error), lasting=True)
        except (OSError, HTTPException) as error:
            return unreachable(urlsplit(address), getattr(error, "reason", None) or error)
        # The URL as declared: values from the environment may be secret.
        found = parse_response(response, declaration, self._fill_url(self._call.url, job_id))
        return replace(found, date=response_date_ms(response.headers)) if isinstance(found, RawJob) else found

    def _fill_url(self, url: str, job_id: str) -> str:
        if self._call.url == "{id}":
            return job_id
        return fill_template(
            url, job_id, self._call.divider, quote=lambda part: quote(part, safe=""), quote_path=_path
        )

    def _get(self, url: str, headers: Mapping[str, str]) -> HttpResponse:
        with self._lock:
            cached = self._cache.get(url)
        conditional = {} if cached is None else {"If-None-Match": str(cached.headers["ETag"])}
        response = fetch(url, {**headers, **conditional})
        if response.code == 304 and cached is not None:
            return replace(cached, headers=response.headers)  # for their Retry-After and Date
        with self._lock:
            self._cache.pop(url, None)
            if response.code == 200 and response.headers["ETag"] and len(response.body) <= MAX_CACHED_BYTES:
                self._cache[url] = response
            if len(self._cache) > MAX_CACHED:
                del self._cache[next(iter(self._cache))]
        return response


def unreachable(address: SplitResult, reason: object) -> SourceProblem:
    """The problem for a request without a response: an outage, unless the URL is certainly wrong."""
    if isinstance(reason, socket.gaierror) and reason.errno == socket.EAI_NONAME:
        return SourceProblem(f"Host name {address.hostname!r} does not resolve. Check the URL", lasting=True)
    if isinstance(reason, ssl.SSLCertVerificationError):
        return SourceProblem(
            f"The certificate of {address.netloc} is not trusted ({reason.verify_message}). Check the "
            "URL, or set SSL_CERT_FILE to the certificate of its authority",
            lasting=True,
        )
    return SourceProblem(f"{address.netloc} is unreachable ({reason})")


def parse_response(response: HttpResponse, declaration: Declaration, url: str) -> PolledJob:
    """Parse a response: a job, None if there is no such job, or a problem."""
    if response.code in _NOT_THERE:
        return None
    wait = retry_after(response.headers)
    summary = f"{re.split('[?#]', url, maxsplit=1)[0]} returned {response.code}"  # the query may be a secret
    throttled = is_throttled(response)
    if response.code in _NO_ENTRY and not throttled:
        return SourceProblem(f"{summary}. {_credentials(declaration)}", lasting=True)
    if throttled or response.code in _LATER or response.code >= 500:
        return SourceProblem(summary, wait, throttled=throttled)
    if not 200 <= response.code < 300:
        return SourceProblem(summary, wait, lasting=True)
    fields = _json(response.body)
    if fields is None and _is_json(response):
        return SourceProblem(f"{summary} with invalid JSON: {response.body[:80]!r}", wait)
    if declaration.status is not None and fields is not None:
        return RawJob(fields, declaration=declaration, retry_after_seconds=wait)
    source_status = None if declaration.status is not None else _status_in(fields, response, declaration)
    if source_status is None:
        meaning = declaration.statuses.get(normalize(f"HTTP {response.code}"))
        if meaning is None or (meaning.is_end and response.moved_to is not None):
            return _no_status_problem(fields, response, declaration, summary)
        source_status = f"HTTP {response.code}"
    return RawJob(fields, source_status, declaration, retry_after_seconds=wait)


def expand_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Expand variables in headers. Raises ValueError, which never contains a value."""
    found = {}
    for name, value in headers.items():
        if unset_variables(value):
            continue
        found[name] = _basic(expand_variables(value).strip())
        if not found[name].isprintable() or not name.isascii() or not name.isprintable():
            raise ValueError(
                f"Header {name!r} contains a line break or another character that cannot be sent"
            )
        try:
            found[name].encode("latin-1")
        except UnicodeEncodeError:
            raise ValueError(f"Header {name!r} contains a character that cannot be sent") from None
    return found


def _status_in(fields: Any, response: HttpResponse, declaration: Declaration) -> str | None:
    """The status of a response: in a field, or as the whole body."""
    for value in (*status_values(fields), None if fields is None or normalize(fields) == HEALTHY else fields):
        if isinstance(value, str | int | float):  # a JSON true is `true`
            return str(value).lower() if isinstance(value, bool) else str(value)
    body = response.body.strip()  # whole: the rest may show that it is not a status
    text = body.decode(errors="replace") if len(body) <= MAX_STATUS_BYTES else ""
    return text if normalize(text) in declaration.statuses and normalize(text) != HEALTHY else None


def _no_status_problem(
    fields: Any, response: HttpResponse, declaration: Declaration, summary: str
) -> SourceProblem:
    """The problem for a response without a status, with what to do about it."""
    if response.moved_to is not None:
        there = urlsplit(response.moved_to).netloc
        return SourceProblem(
            f"{summary} after a redirect to {there}, without a status: it may be a login page. "
            "Pass the credentials with --header, or watch that URL",
            lasting=True,
        )
    if isinstance(fields, Mapping | list):
        has = ", ".join(str(name) for name in fields) if isinstance(fields, Mapping) else "a list"
        has = storable_text(has, 200) or "nothing"
        return SourceProblem(
            f"{summary} with JSON that has no status; it has {has}. Pass the path to the status with "
            "--status-path, or as `status` of the declaration",
            lasting=True,
        )
    if declaration.status is not None:
        return SourceProblem(
            f"{summary} without JSON, so without {declaration.status}{_shown(response)}", lasting=True
        )
    return SourceProblem(
        f"{summary} without a status{_shown(response)}. If the code alone means success, pass "
        "--accept-status-code; if it is a login page, pass the credentials with --header",
        lasting=True,
    )


def _shown(response: HttpResponse) -> str:
    """The type and the beginning of a response."""
    kind = response.headers.get_content_type() if response.headers["Content-Type"] else "no type"
    begins = f", {response.body[:60]!r}" if response.body else ", an empty body"
    return f" ({kind}{begins})"


def _is_json(response: HttpResponse) -> bool:
    """Whether a response should be JSON; one that cannot be parsed was truncated."""
    kind = response.headers.get_content_type() if response.headers["Content-Type"] else ""
    return bool(response.body) and (kind.endswith("json") or response.body.lstrip()[:1] in (b"{", b"["))


def is_throttled(response: HttpResponse) -> bool:
    """Whether the response reports a rate limit. GitHub uses 403 as well as 429."""
    is_used_up = str(response.headers["X-RateLimit-Remaining"] or "").strip() == "0"
    return response.code == 429 or (
        response.code == 403 and (is_used_up or response.headers["Retry-After"] is not None)
    )


def retry_after(headers: Message) -> float | None:
    """How long the server requests to wait: in seconds, until a date, or until its rate limit resets.

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
    """What to do where the server requires credentials."""
    assert isinstance(declaration.call, HttpCall)
    names = [name for value in declaration.call.headers.values() for name in variable_names(value)]
    if not names:
        return "Pass the credentials with --header"
    return f"Set {' and '.join(names)} to credentials that may read it"


def unset_credentials(declaration: Declaration) -> list[str]:
    """The unset variables for credentials that the declaration reads."""
    headers = declaration.call.headers.values() if isinstance(declaration.call, HttpCall) else ()
    return [name for value in headers for name in unset_variables(value)]


def _basic(value: str) -> str:
    """Encode `Basic USER:PASSWORD`; a value that is encoded already has no colon."""
    scheme, _, user = value.partition(" ")
    if scheme.casefold() != "basic" or ":" not in user:
        return value
    return f"Basic {b64encode(user.strip().encode()).decode()}"


def _path(part: str) -> str:
    """Quote a part of an id that is a path. It must not leave its place in the URL."""
    if any(step in ("", ".", "..") for step in part.split("/")):
        raise ValueError(
            f"Invalid path {part!r}: it has an empty part, `.` or `..`. Use the path of its page"
        )
    return quote(part, safe="/%")  # already encoded characters stay


def _in_url(value: str) -> str:
    return quote(value, safe=":/").rstrip("/")  # a host or a path


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
