"""What a watched process finds in its environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from longwatch.recording.process.command import (
    absolute_journal_url,
    child_environment,
    traceparent,
    tracestate,
)
from longwatch.recording.scope import trace_id_of
from longwatch.settings import Settings

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def test_a_process_learns_its_run_journal_and_trace() -> None:
    given = child_environment(
        {"HOME": "/h"}, run_id="wf-1", attempt="0000abcd", journal_url="sqlite:////j.db", trace_id=TRACE
    )

    assert given.pop("TRACEPARENT").startswith(f"00-{TRACE}-")
    assert given.pop("TRACESTATE") == "longwatch=wf-1"
    assert given == {
        "HOME": "/h",
        "LONGWATCH_RUN_ID": "wf-1",
        "LONGWATCH_ATTEMPT": "0000abcd",
        "LONGWATCH_JOURNAL": "sqlite:////j.db",
        "TRACE_ID": TRACE,
        "WORKFLOW_ID": "wf-1",
        "AGENTIFY_WORKFLOW_ID": "wf-1",
        "PYTHONUNBUFFERED": "1",
    }


def test_a_process_learns_the_table_and_its_region() -> None:
    url = "dynamodb://events?region=eu-west-1&layout=workflow"

    given = child_environment({}, run_id="wf-1", attempt="0000abcd", journal_url=url, trace_id=TRACE)

    assert given["AGENTIFY_TABLE_NAME"] == "events"
    assert given["AGENTIFY_TABLE_REGION"] == "eu-west-1"
    assert given["AWS_REGION"] == "eu-west-1"


def test_variables_that_are_set_stay_unchanged() -> None:
    inherited = {"AWS_REGION": "us-east-1", "PYTHONUNBUFFERED": "0"}

    given = child_environment(
        inherited,
        run_id="wf-1",
        attempt="0000abcd",
        journal_url="dynamodb://t?region=eu-west-1",
        trace_id=TRACE,
    )

    assert given["AWS_REGION"] == "us-east-1"
    assert given["PYTHONUNBUFFERED"] == "0"


def test_a_table_without_a_region_leaves_the_region_to_the_sdk() -> None:
    given = child_environment(
        {}, run_id="wf-1", attempt="0000abcd", journal_url="dynamodb://t?layout=workflow", trace_id=TRACE
    )

    assert "AWS_REGION" not in given
    assert "AGENTIFY_TABLE_REGION" not in given


def test_the_trace_continues_with_a_span_of_our_own_and_the_callers_sampling() -> None:
    inherited = f"00-{TRACE}-00f067aa0ba902b7-00"

    given = traceparent(inherited, TRACE)

    assert trace_id_of(given) == TRACE
    assert given.endswith("-00")
    assert "00f067aa0ba902b7" not in given
    assert traceparent(None, TRACE).endswith("-01")


@pytest.mark.parametrize(
    ("journal", "url"),
    [
        ("sqlite:///sub/j.db", "sqlite:///{here}/sub/j.db"),
        ("sqlite:////abs/j.db", "sqlite:////abs/j.db"),
        ("sqlite:////abs/odd%3F%23%25.db", "sqlite:////abs/odd%3F%23%25.db"),
        ("memory://name", "memory://name"),
        (
            "dynamodb://t",
            "dynamodb://t?region=eu-west-1&layout=session&endpoint=http%3A%2F%2Flocalhost%3A8000",
        ),
        (
            "dynamodb://t?region=us-east-1&layout=workflow&endpoint=http://h",
            "dynamodb://t?region=us-east-1&layout=workflow&endpoint=http%3A%2F%2Fh",
        ),
        (
            "dynamodb://",
            "dynamodb://my-table?region=eu-west-1&layout=session&endpoint=http%3A%2F%2Flocalhost%3A8000",
        ),
    ],
)
def test_the_journals_url_means_the_same_elsewhere(journal: str, url: str) -> None:
    settings = Settings(
        journal=journal,
        table_name="my-table",
        region="eu-west-1",
        layout="session",
        endpoint="http://localhost:8000",
    )

    assert absolute_journal_url(settings) == url.format(here=Path.cwd())


@pytest.mark.parametrize(
    ("inherited", "run_id", "state"),
    [
        (None, "wf-1", "longwatch=wf-1"),
        ("vendor=a, longwatch=outer,other=b", "wf-1", "longwatch=wf-1,vendor=a,other=b"),
        ("", "a,b=c/ä", "longwatch=a%2Cb%3Dc%2F%C3%A4"),
        ("vendor=a", "x" * 300, "vendor=a"),
    ],
)
def test_the_trace_state_names_the_run(inherited: str | None, run_id: str, state: str) -> None:
    assert tracestate(inherited, run_id) == state
