"""The query language: which runs a text selects, and what its errors name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.errors import InvalidQuery
from longwatch.model.endings import Status
from longwatch.model.event import Event
from longwatch.model.query_language import parse_query
from longwatch.model.summary import RunSummary, summarise

NOW = 1_794_736_931_000
MINUTE = 60_000


def run_of(started: int, *events: tuple[str, dict[str, object]], agent: str | None = None) -> RunSummary:
    (run,) = summarise(
        Event(
            run_id="wf-1",
            event_id=f"e{index}",
            type=type,
            occurred_at=started + 10 * MINUTE * (type in ("workflow_error", "workflow_complete")),
            payload=payload,
            agent_name=agent,
        )
        for index, (type, payload) in enumerate(events)
    ).values()
    return run


FAILED = run_of(
    NOW - 60 * MINUTE,
    ("workflow_start", {"name": "Nightly import", "tags": ["nightly", "team a"], "user": "ann"}),
    ("tool_call", {"operation": "fetch_prices"}),
    ("workflow_error", {"error_message": "FeedTimeout: no answer"}),
    agent="reader",
)
OPEN = run_of(NOW - 2 * MINUTE, ("workflow_start", {"name": "chat", "session": "s-1"}))
PROJECT = run_of(NOW, ("project_created", {"name": "site"}))


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        ("", [FAILED, OPEN]),
        ("status:failed agent:reader error:Timeout tag:nightly user:ann since:2d", [FAILED]),
        ("status:FAILED,running", [FAILED, OPEN]),
        ("-status:failed", [OPEN]),
        ("status:failed status:running", []),
        ("tag:night", []),
        ("tag:NIGHTLY", [FAILED]),
        ('tag:"team a"', [FAILED]),
        ("-tag:nightly", [OPEN]),
        ("session:s-1", [OPEN]),
        ("tool:prices", [FAILED]),
        ("-tool:prices", [OPEN]),
        ("duration:>5m", [FAILED]),
        ("duration:<=10m", [FAILED, OPEN]),
        ("-duration:>5m", [OPEN]),
        ("since:30m", [OPEN]),
        ("until:30m", [FAILED]),
        ("since:2h until:30m", [FAILED]),
        ("nightly IMPORT", [FAILED]),
        ('"nightly import"', [FAILED]),
        ('"import nightly"', []),
        ("-import", [OPEN]),
        ("wf-1 name:chat", [OPEN]),
        ("STATUS:Failed", [FAILED]),
        ("kind:project", [PROJECT]),
        ("kind:project,workflow", [FAILED, OPEN, PROJECT]),
        ("-kind:workflow", []),
        ('"status:failed"', []),
    ],
)
def test_a_query_selects_runs(text: str, accepted: list[RunSummary]) -> None:
    query = parse_query(text, now_ms=NOW)

    assert [run for run in (FAILED, OPEN, PROJECT) if query.accepts(run)] == accepted


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        ("statsu:failed", 1, "Did you mean 'status'?"),
        ("x status:faild", 3, "Did you mean 'failed'?"),
        ("status:fa", 1, "Did you mean 'failed'?"),
        ("colour:red", 1, "Use one of agent, duration"),
        ("http://feed", 1, "put text with a colon in quotes"),
        ("tag:", 1, "'tag:' has no value"),
        ('a name:"open', 8, "A quote is not closed"),
        ("since:soon", 1, "Invalid time 'soon'"),
        ("-since:2d", 1, "cannot be negated"),
        ("duration:5m", 1, "duration:>5m"),
        ("duration:>soon", 1, "Invalid duration 'soon'"),
        ("since:1d,2d", 1, "one value only"),
        ("-", 1, "has no value"),
    ],
)
def test_an_error_names_the_position_and_the_nearest_word(text: str, position: int, message: str) -> None:
    with pytest.raises(InvalidQuery) as caught:
        parse_query(text, now_ms=NOW)

    assert caught.value.position == position
    assert message in str(caught.value)
    assert str(caught.value).count(f"position {position}") == 1


@given(st.text(max_size=60) | st.from_regex(r'(-?(status|tag|since)?:?["\w,\\> -]*)*', fullmatch=True))
def test_any_text_is_a_query_or_an_error_inside_it(text: str) -> None:
    try:
        position = 1 + parse_query(text, now_ms=NOW).accepts(FAILED)
    except InvalidQuery as error:
        position = error.position

    assert 1 <= position <= max(2, len(text))


def test_statuses_of_options_and_query_must_both_hold() -> None:
    within = parse_query("status:failed,died", now_ms=NOW)

    assert parse_query("-status:died", now_ms=NOW, within=within).statuses == {Status.FAILED}
