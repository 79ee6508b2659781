"""Why a run failed: the call and the agent of its error, and runs that failed alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.journal.dynamodb.run_index import from_attributes, listings, to_attributes
from longwatch.journal.sqlite.rows import decode_run, encode_run
from longwatch.model.event import Event
from longwatch.model.failures import MAX_FAILED_CALLS, error_class_of, failure_of, first_line, group_failures
from longwatch.model.summary import RunSummary, summarise
from tests.strategies import RUN_ID, batches, runs

TIMEOUT = "FeedTimeout: no response within 5 s"


def event(type: str, at: int, *, run_id: str = "wf-1", agent: str | None = None, **payload: object) -> Event:
    return Event(
        run_id=run_id, event_id=f"{type}-{at}", type=type, occurred_at=at, agent_name=agent, payload=payload
    )


def failing(run_id: str = "wf-1", *, at: int = 0, error: str = TIMEOUT) -> list[Event]:
    failed = {"status": "failed", "error_message": error}
    return [
        event("workflow_start", at, run_id=run_id),
        event("tool_call", at + 1, run_id=run_id, agent="reader", operation="fetch_prices", **failed),
        event("agent_end", at + 2, run_id=run_id, agent="reader", **failed),
        event("workflow_error", at + 3, run_id=run_id, **failed),
    ]


def summary_of(*events: Event) -> RunSummary:
    (summary,) = summarise(events).values()
    return summary


def test_the_call_of_a_failure_is_the_innermost_one_with_its_error() -> None:
    failure = failure_of(summary_of(*failing()))

    assert failure is not None
    assert failure.call is not None
    assert (failure.error, failure.error_class) == (TIMEOUT, "FeedTimeout")
    assert (failure.call.name, failure.call.kind, failure.call.agent_name) == (
        "fetch_prices",
        "tool",
        "reader",
    )


def test_a_failed_call_that_the_run_has_handled_is_not_its_failure() -> None:
    handled = event("tool_call", 1, operation="fetch_prices", error_message=TIMEOUT)

    failure = failure_of(
        summary_of(handled, event("workflow_error", 9, error_message="ValueError: no such column"))
    )

    assert failure is not None
    assert (failure.error_class, failure.call) == ("ValueError", None)


def test_an_error_that_repeats_the_message_of_a_call_names_that_call() -> None:
    call = event("model_call", 1, model="m-1", status="failed", error_message=TIMEOUT)

    failure = failure_of(
        summary_of(call, event("workflow_error", 9, error_message="gave up: no response within 5 s"))
    )

    assert failure is not None
    assert failure.call is not None
    assert (failure.call.kind, failure.error_class) == ("model", None)


@pytest.mark.parametrize("type", ["workflow_complete", "workflow_start"])
def test_a_run_that_did_not_fail_has_no_failure(type: str) -> None:
    call = event("tool_call", 1, operation="fetch_prices", error_message=TIMEOUT)

    assert failure_of(summary_of(call, event(type, 9))) is None


def test_retries_of_one_call_count_once_and_the_list_is_limited() -> None:
    retries = [event("tool_call", at, operation="fetch_prices", error_message=TIMEOUT) for at in range(9)]
    others = [event("tool_call", 20 + at, operation=f"t{at}", error_message="x") for at in range(9)]

    assert len(summary_of(*retries).last_failed_calls) == 1
    assert [each.name for each in summary_of(*others).last_failed_calls] == ["t8", "t7", "t6", "t5"]
    assert MAX_FAILED_CALLS == 4


@given(data=st.data(), events=runs())
def test_parts_merge_in_any_order_to_the_same_failed_calls(
    data: st.DataObject, events: Sequence[Event]
) -> None:
    whole = summarise(events)[RUN_ID]
    first, *rest = (summarise(batch)[RUN_ID] for batch in data.draw(batches(events)) if batch)

    for part in rest:
        first = part.merged(first)

    assert first.last_failed_calls == whole.last_failed_calls


def test_rows_and_entries_hold_the_failed_calls_and_earlier_rows_have_none() -> None:
    run = summary_of(*failing())
    (listing,) = listings(failing(), process="p").values()

    stored = from_attributes("wf-1", to_attributes(listing))

    assert decode_run("wf-1", encode_run(run)) == run
    assert stored.summary.last_failed_calls == run.last_failed_calls
    assert decode_run("wf-1", encode_run(replace(run, last_failed_calls=()))).last_failed_calls == ()


def test_runs_that_failed_alike_are_a_group() -> None:
    runs = [summary_of(*failing(f"wf-{at}", at=at * 100, error=f"{TIMEOUT} ({at})")) for at in range(3)]
    other = summary_of(event("workflow_error", 5, run_id="other", error_message="ValueError: no such column"))

    (group,) = group_failures([*reversed(runs), other])

    assert group.run_ids == ("wf-2", "wf-1", "wf-0")
    assert group.since == 3
    assert group.failure.error == f"{TIMEOUT} (2)"


def test_errors_without_a_class_are_alike_if_they_differ_in_numbers_only() -> None:
    runs = [
        summary_of(event("workflow_error", at, run_id=f"r-{at}", error_message=f"exit code 1 after {at} s"))
        for at in (1, 2)
    ]

    assert [len(group.run_ids) for group in group_failures(runs)] == [2]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("FeedTimeout: late", "FeedTimeout"),
        ("feeds.errors.FeedTimeout: late", "FeedTimeout"),
        ("KeyboardInterrupt", "KeyboardInterrupt"),
        ("exit code 1", None),
        ("Process 8449 on vm exited", None),
        ("", None),
    ],
)
def test_the_class_of_an_error(error: str, expected: str | None) -> None:
    assert error_class_of(error) == expected


def test_the_first_line_of_an_error_is_not_empty() -> None:
    assert first_line("\n  \nValueError: no such column\n  at line 3") == "ValueError: no such column"
