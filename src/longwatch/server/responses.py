"""Responses as bytes: JSON, ETags and cache headers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from starlette.responses import Response

from longwatch.executions.views import ExecutionLine
from longwatch.journal.usage_views import UsageView
from longwatch.model.prices import NO_PRICES, Prices
from longwatch.model.run import Condition, Run, RunSummary, conditions

JSON_TYPE = "application/json"
LINES_TYPE = "application/x-ndjson"
REVALIDATE = "private, no-cache"  # may be stored, must be revalidated
POSITION = "Longwatch-Position"  # the header of what a write stored, and of a read that must include it
STALE = "Longwatch-Stale"  # the header of a response that is the last known state, with the reason

LASTING_ETA_FIELDS = ("usual_low_ms", "usual_high_ms", "samples", "beyond_usual")  # do not change with time

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=vars).encode


def to_json(value: object) -> bytes:
    """The value as JSON. A lone surrogate of another producer is escaped."""
    text = _encode(value)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"), allow_nan=False, default=vars).encode()


def json_response(
    value: object, *, status: int = 200, etag: str | None = None, headers: Mapping[str, str] | None = None
) -> Response:
    """A JSON response, with its ETag if it has one."""
    return bytes_response(to_json(value), JSON_TYPE, status=status, etag=etag, headers=headers)


def bytes_response(
    body: bytes,
    media_type: str,
    *,
    status: int = 200,
    etag: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """A response with this body."""
    all_headers: dict[str, Any] = {"Cache-Control": REVALIDATE, **(headers or {})}
    if etag is not None:
        all_headers["ETag"] = etag
    return Response(body, status, all_headers, media_type=media_type)


def not_modified(etag: str, headers: Mapping[str, str] | None = None) -> Response:
    """The client has the current response."""
    return Response(status_code=304, headers={"Cache-Control": REVALIDATE, "ETag": etag, **(headers or {})})


def weak_etag(*parts: object) -> str:
    """An ETag that is the same exactly if all parts are."""
    text = "\0".join(map(str, parts))
    return f'W/"{blake2b(text.encode(errors="surrogatepass"), digest_size=12).hexdigest()}"'


def matches(if_none_match: str | None, etag: str) -> bool:
    """Whether the client has this ETag. The comparison is weak, as RFC 9110 demands for GET."""
    if not if_none_match:
        return False
    if if_none_match == etag:
        return True
    bare = etag.removeprefix("W/")
    return any(
        each == "*" or each.removeprefix("W/") == bare for each in map(str.strip, if_none_match.split(","))
    )


def run_etag(
    summary: RunSummary, now_ms: int, observed: Sequence[Condition] = (), prices: Prices = NO_PRICES
) -> str:
    """The ETag of a run, in a list or whole.

    The age of an open run does not change it. Silence, the end of a process or a narrower interval does.
    """
    # Missing events need no part of their own: they differ only if the events do. So a summary is enough.
    found = conditions(Run(summary), now_ms, observed=observed)
    names = ",".join(each.name if each.name == "silent" else each.message for each in found)
    return weak_etag(
        summary.run_id,
        summary.status,
        summary.events,
        summary.last_order,
        summary.ended_at,
        summary.ended_between,
        len(summary.attempts),
        summary.expired_before,
        summary.kind,
        summary.name,
        names,
        priced.cost if (priced := UsageView.of(summary.totals.usage, prices)) is not None else None,
    )


def execution_etag(view: ExecutionLine) -> str:
    """The ETag of an execution. The passing of time does not change it; becoming overdue does."""
    fields = {name: value for name, value in vars(view).items() if name != "explained"}
    eta = view.eta
    fields["eta"] = eta and [getattr(eta, name) for name in LASTING_ETA_FIELDS]
    fields["conditions"] = [condition.name for condition in view.conditions]
    return weak_etag(json.dumps(fields, sort_keys=True, default=vars))


def list_etag(tags: Iterable[str], cursor: str | None) -> str:
    """The ETag of a list, from the ETags of its items."""
    return weak_etag(*tags, cursor)
