"""Tags from content, and how a caller's tags are compared with them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from longwatch.model.run import SILENT_AFTER_MS, Condition, Ending, Status, fold
from longwatch.server.responses import list_etag, matches, run_etag, weak_etag
from tests.unit.cli.samples import killed, research


@pytest.mark.parametrize(
    ("header", "response"),
    [
        ('W/"a"', True),
        ('"a"', True),
        ('"b", W/"a"', True),
        ("*", True),
        ('"b"', False),
        ("", False),
        (None, False),
        ("a", False),
    ],
)
def test_tags_are_compared_weakly(header: str | None, response: bool) -> None:
    assert matches(header, 'W/"a"') is response


def test_parts_do_not_run_into_each_other() -> None:
    assert weak_etag("a", "bc") != weak_etag("ab", "c")
    assert list_etag(["a"], None) != list_etag(["a"], "None2")


def test_a_tag_differs_with_what_was_observed_of_the_processes() -> None:
    run = fold(killed()[:-1])
    assert run is not None
    now, summary = run.summary.last_event_at, run.summary
    death, narrower = (
        Ending(
            Status.DIED, (now + 1, "", 0, "d"), processes=frozenset({"7" * 16}), not_before=now, not_after=at
        )
        for at in (now + 2000, now + 1000)
    )

    tags = [
        run_etag(summary, now),
        run_etag(summary, now, [Condition("unattended", "process 7 is gone")]),
        run_etag(replace(summary, lifecycle=summary.lifecycle.with_ending(death)), now),
        run_etag(replace(summary, lifecycle=summary.lifecycle.with_ending(narrower)), now),
    ]

    assert len(set(tags)) == 4


def test_an_open_run_keeps_its_tag_while_it_only_grows_older_and_not_when_it_falls_silent() -> None:
    events = research(at=1_000_000)
    run = fold(events[:3])
    assert run is not None
    last = run.summary.last_event_at

    young, older = run_etag(run.summary, last + 10), run_etag(run.summary, last + 5000)
    silent = run_etag(run.summary, last + SILENT_AFTER_MS + 1)

    assert young == older != silent


def test_every_event_changes_the_tag() -> None:
    events = research(at=1_000_000)

    tags = {
        run_etag(run.summary, 0)
        for count in range(1, len(events) + 1)
        if (run := fold(events[:count])) is not None
    }

    assert len(tags) == len(events)
