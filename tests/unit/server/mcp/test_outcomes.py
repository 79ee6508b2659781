"""Why a wait is over, and which run a URI names."""

from __future__ import annotations

import pytest

from longwatch.errors import InvalidInput
from longwatch.model.event import Event
from longwatch.model.run import RunSummary, summarise
from longwatch.server.mcp.resources import run_of, run_uri
from longwatch.server.mcp.runs import shorten
from longwatch.server.mcp.waiting import outcome_of


def run(*types: str) -> RunSummary:
    events = [
        Event(run_id="wf-1", event_id=f"e{at}", type=type_, occurred_at=at) for at, type_ in enumerate(types)
    ]
    return summarise(events)["wf-1"]


OPEN, ENDED = run("workflow_start"), run("workflow_start", "workflow_complete")


@pytest.mark.parametrize(
    ("given", "is_closing", "outage", "reason"),
    [
        (OPEN, False, None, "timeout"),
        (OPEN, True, None, "stopped"),
        (OPEN, False, "no response", "unreadable"),
        (ENDED, False, None, "ended"),
        (ENDED, True, "no response", "ended"),
    ],
)
def test_a_wait_is_over_for_a_reason(
    given: RunSummary, is_closing: bool, outage: str | None, reason: str
) -> None:
    assert outcome_of(given, is_closing=is_closing, outage=outage)[0] == reason


@pytest.mark.parametrize("run_id", ["wf-1", "plan/x-1", "a b?c#d%2F", "läuft", "x/events"])
def test_a_uri_names_its_run_whatever_the_id_is(run_id: str) -> None:
    assert run_of(run_uri(run_id)) == (run_id, False)
    assert run_of(f"{run_uri(run_id)}/events") == (run_id, True)


@pytest.mark.parametrize(
    "uri", ["longwatch://runs/", "longwatch://runs/a/b", "longwatch://run/a", "file:///etc/passwd", ""]
)
def test_other_uris_are_rejected(uri: str) -> None:
    with pytest.raises(InvalidInput, match="Unknown resource"):
        run_of(uri)


def test_a_long_value_is_shortened_and_a_short_one_is_not() -> None:
    assert shorten({"a": 1}, 200) == ({"a": 1}, False)
    assert shorten(None, 200) == (None, False)
    cut, is_cut = shorten({"a": "x" * 5_000}, 1_000)
    assert is_cut
    assert len(str(cut)) < 1_100
