"""What the responses of push services mean."""

from __future__ import annotations

import pytest

from longwatch.notifications.web_push.responses import PushOutcome, parse_push_response


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (200, PushOutcome.DELIVERED),
        (201, PushOutcome.DELIVERED),
        (202, PushOutcome.DELIVERED),
        (301, PushOutcome.REFUSED),
        (400, PushOutcome.REFUSED),
        (401, PushOutcome.REFUSED),
        (403, PushOutcome.REFUSED),
        (404, PushOutcome.GONE),
        (408, PushOutcome.LATER),
        (410, PushOutcome.GONE),
        (413, PushOutcome.REFUSED),
        (429, PushOutcome.LATER),
        (500, PushOutcome.LATER),
        (503, PushOutcome.LATER),
    ],
)
def test_each_status_has_one_outcome(code: int, outcome: PushOutcome) -> None:
    assert parse_push_response(code).outcome is outcome


def test_a_problem_quotes_the_beginning_of_the_response() -> None:
    found = parse_push_response(403, b'{"reason":\n"BadJwtToken"}\x1b[31m' + b"x" * 500)

    assert found.problem.startswith('HTTP 403 ({"reason": "BadJwtToken"}?[31mxxx')
    assert "Set contact in the rule" in found.problem
    assert len(found.problem) < 250


def test_only_a_later_try_waits() -> None:
    assert parse_push_response(429, retry_after=30).retry_after_seconds == 30
    assert parse_push_response(201, retry_after=30).retry_after_seconds is None
