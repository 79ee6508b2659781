"""Our errors as HTTP responses."""

from __future__ import annotations

import json

import pytest

from longwatch import errors
from longwatch.errors import LongwatchError
from longwatch.server.errors import MOST_DETAILS, ApiError, api_error, field_of


def every_kind() -> list[type[LongwatchError]]:
    kinds = [value for value in vars(errors).values() if isinstance(value, type)]
    return [kind for kind in kinds if issubclass(kind, LongwatchError)]


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (errors.RunNotFound("x"), 404, "run_not_found"),
        (errors.TurnNotFound("x"), 404, "turn_not_found"),
        (errors.DocumentNotFound("x"), 404, "document_not_found"),
        (errors.EventConflict(["a"]), 409, "event_conflict"),
        (errors.TurnEnded("turn-1", "failed"), 409, "turn_ended"),
        (errors.InvalidCursor("x"), 400, "invalid_cursor"),
        (errors.InvalidLine(3, "is no JSON"), 400, "invalid_line"),
        (errors.InvalidPath("x"), 400, "invalid_path"),
        (errors.InvalidEvent("x"), 422, "invalid_event"),
        (errors.Throttled("x"), 503, "journal_unavailable"),
        (errors.NotADatabase("x"), 503, "journal_unusable"),
    ],
)
def test_each_error_has_a_status_and_a_stable_code(error: LongwatchError, status: int, code: str) -> None:
    response = api_error(error)

    assert (response.status, response.code, response.message) == (status, code, str(error))
    assert ("Retry-After" in response.headers) == (status == 503)


@pytest.mark.parametrize("kind", every_kind())
def test_no_error_of_ours_is_an_internal_error(kind: type[LongwatchError]) -> None:
    if kind is LongwatchError:
        return

    error = kind.__new__(kind)

    assert 400 <= next(status for error_class, status in _statuses() if isinstance(error, error_class)) < 600


def _statuses() -> list[tuple[type[LongwatchError], int]]:
    from longwatch.server.errors import STATUSES

    return list(STATUSES)


def test_details_are_few_and_text_that_utf8_cannot_hold_is_still_reported() -> None:
    error = ApiError(422, "x", "\ud800", details=[("f", "m")] * 100)

    details = json.loads(error.body)["error"]

    assert len(details["details"]) == MOST_DETAILS
    assert details["message"] == "?"


def test_a_field_is_named_as_a_reader_would_write_it() -> None:
    assert field_of(("body", "events", 3, "type")) == "events[3].type"
    assert field_of(("query", "limit")) == "limit"
