"""Parses a declaration in `longwatch.toml`. Every mistake is reported with its key."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from longwatch.errors import InvalidInput, InvalidSettings
from longwatch.executions.sources.declarations import (
    AwsCall,
    Declaration,
    HttpCall,
    Items,
    Meaning,
    StatusTable,
    normalize,
)
from longwatch.executions.sources.expressions import parse_path, template_parts
from longwatch.executions.sources.http_url import fill_defaults, validate_url
from longwatch.executions.sources.shipped import CODE_STATUSES, COMMON_STATUSES

MIN_SECONDS = 1.0  # between two polls
NEVER = "never"
MEANINGS = tuple(each.value for each in Meaning)
KEYS: Mapping[str, str] = {  # every key and its purpose
    "about": "Description, for `longwatch watch --sources`",
    "url": "URL to GET, with `{id}` for the id (or `{1}` and `{2}`, with `divider`); `{+id}` keeps the "
    "slashes of the id; `${NAME}`, `${NAME|OTHER}` and `${NAME:-default}` are read from the environment",
    "headers": "Headers of the request; `${NAME}` likewise. A header with `${NAME:-}` is omitted while NAME "
    "is not set, and `Basic USER:PASSWORD` is encoded",
    "service": "Instead of `url`: the AWS service, by its name in boto3",
    "operation": "The operation of the service, as in its API",
    "parameters": "Parameters of the operation, with `{id}` for the id",
    "ids": "The parameter for a list of ids, if the operation has one",
    "at_once": "Maximum number of ids in that list (default: 1)",
    "divider": "The separator of an id in `{1}` and `{2}`",
    "results": "Path to the job in the response; to the list of jobs if there is `key`",
    "key": "Path to the id, in each result",
    "unknown": "Error codes for an id that does not exist",
    "status": "Path to the status (default for `url`: `status` or `state`)",
    "outcome": "Path, or list of paths, to the fields with the outcome of a job whose status means that "
    "it has ended. It stays open until each has a status of these lists (default for `url`: fields with the "
    "usual names beside the status, such as `conclusion`, `result` and `exit_code`)",
    "accept_status_code": "`true`: a 2xx response without a status means success (only with `url`)",
    "pending": "Statuses of a job that has not begun",
    "running": "Statuses of a running job. A status in no list never ends a job either",
    "succeeded": "Statuses that mean success",
    "failed": "Statuses that mean failure",
    "cancelled": "Statuses of a job that was cancelled",
    "ended": "Statuses of a job that has ended; `outcome` has the result",
    "reason": "Path, or list of paths, to the reason of a failure",
    "began": "Path to the start time",
    "plan": "Path to a value that all runs of this kind share",
    "since": "Path to a value that differs for each run of the same id",
    "items": "Path to the list of steps",
    "item_name": "Path to the name, in each step (default: `name`)",
    "item_status": "Path to the status, in each step (default: `status`); mapped by the same lists",
    "item_reason": "Path to the reason of a failed step",
    "every": "Time between two polls, such as `10s` (default: 45 s while pending, then 15 s)",
    "deadline": "Time after which it is overdue, such as `1h`. It never ends the job (default: `never`)",
}
_PATHS = ("status", "results", "began", "plan", "since", "items", "item_name", "item_status", "item_reason")
_FIELD = re.compile(r"\{\+?\w+\}")
_NAME = re.compile(r"[a-z][a-z0-9_-]*")
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h|d)")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def parse_declaration(name: str, table: object, *, where: str) -> Declaration:
    """Parse the declaration in this table. Raises `InvalidSettings` with all of its mistakes."""
    reader = _DeclarationParser(f"{where}: watches.{name}")
    if not _NAME.fullmatch(name):
        reader.wrong("", "is not a valid name. Use lower-case letters, digits, - and _")
    if not isinstance(table, Mapping):
        raise InvalidSettings([*reader.mistakes, f"{reader.where} must be a table"])
    found = reader.declaration(name, table)
    if found is None or reader.mistakes:
        raise InvalidSettings(reader.mistakes)
    return found


class _DeclarationParser:
    """Parses one table and collects its mistakes."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.mistakes: list[str] = []

    def wrong(self, key: str, what: str) -> None:
        self.mistakes.append(f"{self.where}{'.' if key else ''}{key} {what}")

    def invalid(self, key: str, error: Exception) -> None:
        self.mistakes.append(f"{self.where}.{key}: {error}")

    def declaration(self, name: str, table: Mapping[str, object]) -> Declaration | None:
        for key in table:
            if key not in KEYS:
                self.wrong(key, f"is unknown. Use one of {', '.join(KEYS)}")
        for key in _PATHS:
            self._path(key, table.get(key))
        call = self._call(table)
        statuses = self._statuses(table, is_http=isinstance(call, HttpCall))
        if isinstance(call, AwsCall) and "status" not in table:
            self.wrong("status", "is missing: the path to the status in the response")
        every = self._seconds("every", table.get("every"), lowest=MIN_SECONDS)
        deadline = self._seconds("deadline", table.get("deadline"), lowest=MIN_SECONDS)
        if call is None or self.mistakes:
            return None
        return Declaration(
            name=name,
            about=self._text("about", table) or "",
            prefix=f"{name}:",
            call=call,
            status=self._text("status", table),
            outcome=self._paths("outcome", table.get("outcome")),
            statuses=statuses,
            reason=self._paths("reason", table.get("reason")),
            items=self._items(table, statuses),
            began=self._text("began", table),
            plan=self._text("plan", table),
            since=self._text("since", table),
            pending_seconds=every,
            running_seconds=every,
            deadline_seconds=deadline,
        )

    def _call(self, table: Mapping[str, object]) -> AwsCall | HttpCall | None:
        url, service = self._text("url", table), self._text("service", table)
        if (url is None) == (service is None):
            self.wrong("", "needs either `url`, or `service` and `operation`")
            return None
        divider = self._text("divider", table)
        if url is not None:
            try:
                validate_url(_FIELD.sub("x", fill_defaults(url)))
            except ValueError as error:
                self.invalid("url", error)
            self._require_id("url", [url])
            return HttpCall(url=url, divider=divider, headers=self._texts_by_name("headers", table))
        operation = self._text("operation", table)
        parameters = self._texts_by_name("parameters", table)
        ids = self._text("ids", table)
        if ids is None:
            self._require_id("parameters", list(parameters.values()))
        if operation is None:
            self.wrong("operation", "is missing: the operation of the service")
            return None
        key = self._list("key", table.get("key"))
        if ids is not None and not key:
            self.wrong("key", "is missing: the path to the id in each result, needed with `ids`")
        at_once = table.get("at_once", 1)
        if not isinstance(at_once, int) or not 1 <= at_once <= 1000:
            self.wrong("at_once", f"must be a whole number from 1 to 1000, not {at_once!r}")
            at_once = 1
        return AwsCall(
            service=service or "",
            operation=operation,
            parameters=parameters,
            divider=divider,
            ids=ids,
            at_once=at_once,
            results=self._text("results", table) or "",
            key=key,
            unknown=tuple((code, "") for code in self._list("unknown", table.get("unknown"))),
        )

    def _statuses(self, table: Mapping[str, object], *, is_http: bool) -> StatusTable:
        found: dict[str, Meaning] = {}
        for meaning in MEANINGS:
            for word in self._list(meaning, table.get(meaning)):
                earlier = found.setdefault(normalize(word), Meaning(meaning))
                if earlier != meaning:
                    self.wrong(meaning, f"has {word!r}, which {earlier.value} has too")
        if found or is_http:
            if found and not any(each.is_end for each in found.values()):
                self.wrong("succeeded", "is missing: no status means an end, so no job would ever end")
            codes = self._code_statuses(table, is_http=is_http)
            return {**(found or COMMON_STATUSES), **codes}
        self.wrong("succeeded", "is missing: the statuses that mean an end")
        return found

    def _code_statuses(self, table: Mapping[str, object], *, is_http: bool) -> StatusTable:
        accepted = table.get("accept_status_code", False)
        if not isinstance(accepted, bool):
            self.wrong("accept_status_code", f"must be true or false, not {accepted!r}")
        elif accepted and not is_http:
            self.wrong("accept_status_code", "is for a `url` only")
        return CODE_STATUSES if accepted is True else {}

    def _items(self, table: Mapping[str, object], statuses: StatusTable) -> Items | None:
        at = self._text("items", table)
        if at is None:
            return None
        return Items(
            at=at,
            name=self._text("item_name", table) or "name",
            status=self._text("item_status", table) or "status",
            reason=self._text("item_reason", table),
            statuses=statuses,
        )

    def _paths(self, key: str, value: object) -> tuple[str, ...]:
        paths = self._list(key, value)
        for path in paths:
            self._path(key, path)
        return paths

    def _require_id(self, key: str, texts: list[str]) -> None:
        if not any(template_parts(text) for text in texts):
            self.wrong(key, "has no {id}, so every job would be polled alike")

    def _path(self, key: str, value: object) -> None:
        if isinstance(value, str):
            try:
                parse_path(value)
            except InvalidInput as error:
                self.invalid(key, error)

    def _text(self, key: str, table: Mapping[str, object]) -> str | None:
        value = table.get(key)
        if value is None or isinstance(value, str):
            return value or None
        self.wrong(key, f"must be text, not {value!r}")
        return None

    def _list(self, key: str, value: object) -> tuple[str, ...]:
        """A list of texts, or one text as a list of one."""
        listed: Any = [] if value is None else [value] if isinstance(value, str) else value
        if isinstance(listed, list) and all(isinstance(each, str) and each for each in listed):
            return tuple(listed)
        self.wrong(key, f"must be text or a list of texts, not {value!r}")
        return ()

    def _texts_by_name(self, key: str, table: Mapping[str, object]) -> Mapping[str, str]:
        value = table.get(key, {})
        if isinstance(value, Mapping) and all(isinstance(each, str) for each in value.values()):
            return dict(value)
        self.wrong(key, f"must be a table of texts, not {value!r}")
        return {}

    def _seconds(self, key: str, value: object, *, lowest: float) -> float | None:
        if value is None or value == NEVER:
            return None
        match = _SPAN.fullmatch(value) if isinstance(value, str) else None
        seconds = float(match[1]) * _SECONDS[match[2]] if match else 0.0
        if seconds < lowest:
            self.wrong(key, f"must be a time such as 10s, 5m or 1h, and at least {lowest:g} s, not {value!r}")
            return None
        return seconds
