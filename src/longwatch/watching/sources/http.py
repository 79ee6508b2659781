"""Asks an HTTP endpoint for a status, with the standard library alone.

Only what tells a status is one. The code of an answer counts where the answer has nothing else to say.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Mapping, Sequence
from email.message import Message
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from typing import Any
from urllib.parse import quote, urlsplit

from longwatch.errors import InvalidInput
from longwatch.watching.sources.addresses import checked, expanded, with_options, without_secrets
from longwatch.watching.sources.asking import side_by_side
from longwatch.watching.sources.base import SourceProblem
from longwatch.watching.sources.declarations import Declaration, HttpCall, normal
from longwatch.watching.sources.declared import Found, Place
from longwatch.watching.sources.failures import seconds_in
from longwatch.watching.sources.fetching import Page, fetched
from longwatch.watching.sources.filling import filled
from longwatch.watching.sources.paths import value_at
from longwatch.watching.sources.translating import Thing, storable

MOST_KEPT, MOST_KEPT_BYTES = 500, 16 * 1024  # answers with an ETag
STATUS_NAMES = ("status", "state")  # where most JSON answers have it
LONGEST_WORD_BYTES = 64  # of an answer that is a word and nothing else

_NO_ENTRY = frozenset({401, 403, 407})
_NOT_THERE = frozenset({404, 410})
_LATER = frozenset({408, 425, 429})


class HttpAsker:
    """An `Asker` by GET requests. An answer with an ETag is not sent again while it is the same."""

    def __init__(self, declaration: Declaration, headers: Mapping[str, str] | None = None) -> None:
        assert isinstance(declaration.call, HttpCall)
        self._declaration = declaration
        self._call = declaration.call
        self._headers = {**declaration.call.headers, **(headers or {})}
        self._kept: dict[str, Page] = {}
        self._lock = threading.Lock()

    def ask(self, place: Place, ids: Sequence[str]) -> Mapping[str, Found]:
        return side_by_side(self._ask_one, ids)

    def close(self) -> None:
        self._kept.clear()

    def _ask_one(self, what: str) -> Found:
        try:
            url = filled(expanded(self._call.url, _in_url), what, self._call.divider, quote=self._quoted)
            declaration, address = with_options(self._declaration, url)
            if self._call.url == "{id}":
                without_secrets(address)
            page = self._get(checked(address), sendable(self._headers))
        except (ValueError, InvalidInput) as error:
            return SourceProblem(str(error), lasting=True)
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            return SourceProblem(f"{_host(what, self._call.url)} can not be reached ({reason})")
        # As it is declared: what the environment adds may be a secret.
        shown = filled(self._call.url, what, self._call.divider, quote=self._quoted)
        return found_in(page, declaration, shown)

    def _quoted(self, part: str) -> str:
        return part if self._call.url == "{id}" else quote(part, safe="")

    def _get(self, url: str, headers: Mapping[str, str]) -> Page:
        with self._lock:
            kept = self._kept.get(url)
        known = {} if kept is None else {"If-None-Match": str(kept.headers["ETag"])}
        page = fetched(url, {**headers, **known})
        if page.code == 304 and kept is not None:
            return kept
        with self._lock:
            self._kept.pop(url, None)
            if page.code == 200 and page.headers["ETag"] and len(page.body) <= MOST_KEPT_BYTES:
                self._kept[url] = page
            if len(self._kept) > MOST_KEPT:
                del self._kept[next(iter(self._kept))]
        return page


def found_in(page: Page, declaration: Declaration, url: str) -> Found:
    """What an answer says: a job, that there is none, or why it says nothing."""
    if page.code in _NOT_THERE:
        return None
    wish = retry_after(page.headers)
    told = f"{re.split('[?#]', url, maxsplit=1)[0]} answered {page.code}"  # what follows may be a secret
    if page.code in _NO_ENTRY:
        return SourceProblem(f"{told}. Pass what it asks for with --header", lasting=True)
    if page.code in _LATER or page.code >= 500:
        return SourceProblem(told, wish, throttled=page.code == 429)
    if not 200 <= page.code < 300:
        return SourceProblem(told, wish, lasting=True)
    fields = _json(page.body)
    if declaration.status is not None:
        if fields is None:
            return SourceProblem(f"{told} with something that is no JSON: {page.body[:80]!r}", lasting=True)
        return Thing(fields, words=declaration.words, status=declaration.status, again_seconds=wish)
    word = _word_in(fields, page, declaration)
    if word is not None:
        return Thing(fields, word, declaration.words, again_seconds=wish)
    meaning = declaration.words.get(normal(f"HTTP {page.code}"))
    if meaning is not None and meaning.is_end and (problem := _says_something_else(fields, page, told)):
        return problem
    return Thing(fields, f"HTTP {page.code}", declaration.words, again_seconds=wish)


def sendable(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers with what the environment has. Raises ValueError, which never holds the value of one."""
    found = {}
    for name, value in headers.items():
        found[name] = expanded(value).strip()
        if not found[name].isprintable() or not name.isascii() or not name.isprintable():
            raise ValueError(f"the header {name!r} holds a line break or something else that can not be sent")
        try:
            found[name].encode("latin-1")
        except UnicodeEncodeError:
            raise ValueError(f"the header {name!r} holds a character that can not be sent") from None
    return found


def _word_in(fields: Any, page: Page, declaration: Declaration) -> str | None:
    """The status that an answer tells: in a field, or as the only word there is."""
    for said in (*(value_at(fields, name) for name in STATUS_NAMES), fields):
        if isinstance(said, str | int | float):  # a JSON true is `true`
            return str(said).lower() if isinstance(said, bool) else str(said)
    text = page.body[:LONGEST_WORD_BYTES].decode(errors="replace").strip()
    return text if normal(text) in declaration.words else None


def _says_something_else(fields: Any, page: Page, told: str) -> SourceProblem | None:
    """Why the code of an answer is no status, although it would be an end: there is more to it."""
    if page.moved_to is not None:
        there = urlsplit(page.moved_to).netloc
        return SourceProblem(
            f"{told} after a redirect to {there}, without a status: it may ask for a login. "
            "Pass what it asks for with --header, or watch that address",
            lasting=True,
        )
    if isinstance(fields, Mapping | list):
        has = ", ".join(str(name) for name in fields) if isinstance(fields, Mapping) else "a list"
        has = storable(has, 200) or "nothing"
        return SourceProblem(
            f"{told}, and no status is in it; it has {has}. Say where the status is with "
            "--status-path, or as `status` of the declaration",
            lasting=True,
        )
    kind = page.headers.get_content_type() if page.headers["Content-Type"] else ""
    if fields is None and (kind.endswith("json") or page.body.lstrip()[:1] in (b"{", b"[")):
        return SourceProblem(f"{told} with JSON that can not be read: {page.body[:80]!r}")
    return None


def retry_after(headers: Message) -> float | None:
    """How long the server wishes to be left alone: seconds, or until a date."""
    said = headers["Retry-After"]
    if said is None or (seconds := seconds_in(said)) is not None:
        return seconds if said else None
    try:
        return seconds_in(parsedate_to_datetime(said).timestamp() - time.time())
    except ValueError:
        return None


def _in_url(value: str) -> str:
    return quote(value, safe=":/")  # it may be a host or a path


def _host(what: str, url: str) -> str:
    return urlsplit(what if url == "{id}" else url).netloc or what


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
