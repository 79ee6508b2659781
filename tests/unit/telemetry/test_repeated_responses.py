"""Model calls that several spans, log events and adapters record: totals and the fold of calls agree."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import reduce
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from longwatch.errors import EventConflict
from longwatch.journal.memory import MemoryJournal
from longwatch.model.event import Event
from longwatch.model.run import fold
from longwatch.model.usage import NO_COUNTS, TokenCounts
from longwatch.telemetry.repeated_responses import RepeatedResponses

RUN = "wf-1"


def record(
    call_id: str,
    at: int = 10,
    lasts: int = 10,
    *,
    recorded_by: str = "otel",
    run_id: str = RUN,
    **end: Any,
) -> list[Event]:
    """The start and the end of a model call; only the end if it is a log event."""
    moments: list[tuple[str, int, dict[str, object]]] = [("started", at, {}), ("completed", at + lasts, end)]
    return [
        Event(
            run_id=run_id,
            event_id=f"{run_id}-{recorded_by}-{call_id}-{status}",
            type="model_call",
            occurred_at=moment,
            call_id=call_id,
            payload={"status": status, "recorded_by": recorded_by, "model": "gpt-4o", **payload},
        )
        for status, moment, payload in (moments if recorded_by != "otlp" else moments[1:])
    ]


def tokens(given: int, written: int = 1) -> dict[str, Any]:
    return {"input_tokens": given, "output_tokens": written}


class Intake:
    """What a server stores of records, over restarts."""

    def __init__(self, *stored: list[Event]) -> None:
        self.journal = MemoryJournal()
        self.journal.append([event for events in stored for event in events])
        self.restart()

    def restart(self) -> None:
        self.repeated = RepeatedResponses(self.journal)

    def take(self, *records: list[Event]) -> None:
        try:
            self.journal.append(self.repeated.marked([event for events in records for event in events]))
        except EventConflict as error:
            raise AssertionError(error) from error

    def ends(self) -> list[dict[str, object]]:
        return [
            {name: value for name, value in event.payload.items() if name in ("same_as", "adds_usage")}
            for event in self.journal.read(RUN, limit=10_000).events
            if event.payload["status"] != "started"
        ]

    def sums(self) -> tuple[int, TokenCounts]:
        """The number of calls and their tokens, by the summary that journals store."""
        summary = self.journal.find_run(RUN)
        assert summary is not None
        usage = summary.totals.usage
        return usage.model_calls, reduce(TokenCounts.plus, usage.tokens.values(), NO_COUNTS)

    def shown(self) -> tuple[int, TokenCounts]:
        """The number of calls and their tokens, by the fold of the run."""
        run = fold(self.journal.read(RUN, limit=10_000).events)
        assert run is not None
        calls = run.calls.values()
        counted = [found[1] for call in calls if call.model and (found := call.model.tokens())]
        return len(calls), reduce(TokenCounts.plus, counted, NO_COUNTS)


def test_two_spans_of_one_response_count_once() -> None:
    intake = Intake()

    intake.take(
        record("a", 10, 9, response_id="r", **tokens(7)), record("b", 11, 2, response_id="r", **tokens(7))
    )

    assert intake.ends() == [{"same_as": "a"}, {}]
    assert intake.sums() == intake.shown() == (1, TokenCounts(1, 7, 1))


def test_a_record_with_tokens_completes_one_without() -> None:
    intake = Intake()

    intake.take(record("a", response_id="r"), record("b", response_id="r", **tokens(7)))
    intake.take(record("c", response_id="r", **tokens(7)))

    assert intake.ends() == [{}, {"same_as": "a", "adds_usage": True}, {"same_as": "a"}]
    assert intake.sums() == intake.shown() == (1, TokenCounts(1, 7, 1))


def test_the_log_event_inside_a_span_is_the_same_call() -> None:
    intake = Intake()

    intake.take(record("a", recorded_by="otlp", **tokens(7)))
    intake.take(record("a", **tokens(7)))

    assert intake.sums() == intake.shown() == (1, TokenCounts(1, 7, 1))


def test_a_span_of_a_call_that_an_adapter_has_recorded_counts_once() -> None:
    intake = Intake(record("adapter", recorded_by="langchain", response_id="r", **tokens(7)))

    intake.take(record("span", 11, 2, response_id="r", **tokens(7)))

    assert intake.sums() == intake.shown() == (1, TokenCounts(1, 7, 1))


def test_what_another_writer_stored_after_the_first_batch_is_found() -> None:
    intake = Intake(record("adapter", recorded_by="langchain", response_id="r-1", **tokens(7)))
    intake.take(record("span-1", response_id="r-1", **tokens(7)))
    intake.journal.append(record("adapter-2", 30, recorded_by="langchain", response_id="r-2", **tokens(7)))

    intake.take(record("span-2", 30, response_id="r-2", **tokens(7)))

    assert intake.sums() == intake.shown() == (2, TokenCounts(2, 14, 2))


def test_spans_with_a_reused_response_id_are_calls_of_their_own() -> None:
    intake = Intake()

    intake.take(record("a", 10, 5, response_id="chatcmpl-1", **tokens(7)))
    intake.take(record("b", 50, 5, response_id="chatcmpl-1", **tokens(3)))

    assert intake.sums() == intake.shown() == (2, TokenCounts(2, 10, 2))


def test_events_that_were_not_stored_are_forgotten() -> None:
    intake = Intake()
    lost = record("a", response_id="r", **tokens(7))

    intake.repeated.marked(lost)
    intake.repeated.forget(lost)
    intake.take(record("b", response_id="r", **tokens(7)))

    assert intake.sums() == intake.shown() == (1, TokenCounts(1, 7, 1))


def test_the_number_of_remembered_calls_is_bounded_and_dropped_runs_are_read_again() -> None:
    journal = MemoryJournal()
    repeated = RepeatedResponses(journal, max_remembered=3)
    for number in range(9):
        journal.append(repeated.marked(record("a", run_id=f"trace-{number}", response_id="r", **tokens(7))))

    (_, end) = repeated.marked(record("b", run_id="trace-0", response_id="r", **tokens(7)))

    assert sum(len(run.decided) for run in repeated._runs.values()) <= 3
    assert end.payload["same_as"] == "a"


@st.composite
def arrivals(draw: st.DrawFn) -> list[list[Event]]:
    """Records of a few calls by several layers, each of which may have seen the tokens or not."""
    found = []
    for number in range(draw(st.integers(1, 8))):
        layer = draw(st.sampled_from(["otel", "otel", "otlp"]))
        end: dict[str, Any] = {}
        if draw(st.booleans()):
            end["response_id"] = draw(st.sampled_from(["r-1", "r-2"]))
        if draw(st.booleans()):
            end |= tokens(draw(st.integers(0, 9)))
        at, lasts = draw(st.integers(0, 20)), draw(st.integers(0, 10))
        found.append(record(f"span-{number}", at, lasts, recorded_by=layer, **end))
    return found


@given(found=arrivals(), chance=st.randoms(use_true_random=False))
def test_totals_and_the_fold_agree_for_any_batches(
    found: Sequence[list[Event]], chance: random.Random
) -> None:
    intake = Intake()
    waiting = chance.sample(found, len(found))

    while waiting:
        size = chance.randint(1, len(waiting))
        intake.take(*waiting[:size])
        if chance.random() < 0.3:
            intake.restart()
        if chance.random() < 0.3:  # a sender that got no response sends its batch again
            intake.take(*waiting[:size])
        waiting = waiting[size:]

    assert intake.sums() == intake.shown()
