"""Compares two runs: reads both once, aligns their calls, and puts their sums side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from longwatch.errors import RunNotFound
from longwatch.journal.base import Journal
from longwatch.journal.usage_views import UsageView
from longwatch.journal.views import Interval, StatusWord
from longwatch.model.calls import Call
from longwatch.model.event import START, Event
from longwatch.model.failures import first_line
from longwatch.model.json_schema import STRICT, JsonSchema
from longwatch.model.prices import NO_PRICES, Prices
from longwatch.model.run import Run, RunSummary, fold
from longwatch.model.run_diff import (
    CallDifference,
    CallNode,
    DiffRow,
    call_forest,
    diff_calls,
    digest_contents,
    shorten_diff,
)

FOLD_EVENTS = 10_000  # at once: each fold copies the run
READ_EVENTS = 2_000
MAX_ROWS = 2_000  # of a view; of more calls only those that differ are shown


@dataclass(frozen=True, slots=True)
class RunComparison:
    """Two runs and their calls side by side, each below its caller."""

    one: RunSummary
    other: RunSummary
    rows: Sequence[DiffRow]

    @property
    def first_difference(self) -> int | None:
        """The number of the first row that differs, from 0."""
        return next((number for number, row in enumerate(self.rows) if row.differences), None)

    @property
    def differs_in_structure(self) -> bool:
        """Whether calls are missing or added, or the runs or calls ended with another status."""
        return self.one.status is not self.other.status or any(row.is_structural for row in self.rows)


def compare_runs(journal: Journal, one: RunSummary, other: RunSummary) -> RunComparison:
    """The comparison of the last attempts of two runs."""
    forests = [_read_calls(journal, run) for run in (one, other)]
    return RunComparison(one, other, diff_calls(*forests))


def _read_calls(journal: Journal, run: RunSummary) -> list[CallNode]:
    folded: Run | None = None
    contents = {}
    pending: list[Event] = []
    cursor, more = START, True
    while more:
        page = journal.read(run.run_id, after=cursor, limit=READ_EVENTS)
        cursor, more = page.cursor, page.more
        contents.update(digest_contents(page.events))
        pending += page.events
        if pending and (not more or len(pending) >= FOLD_EVENTS):
            folded, pending = fold(pending, folded), []
    if folded is None:
        raise RunNotFound(f"Every event of run {run.run_id!r} has expired.")
    return call_forest(folded.calls.values(), contents)


@dataclass(frozen=True, kw_only=True)
class ComparedRunView:
    """One of two runs. Times are epoch ms."""

    __pydantic_config__ = STRICT

    run_id: str
    name: str | None
    kind: str
    status: StatusWord
    started_at: int
    duration_ms: Annotated[int | None, JsonSchema("Null if it died.")]
    duration_between: Annotated[Interval | None, JsonSchema("How long it ran if it died, in ms; else null.")]
    events: int
    error: str | None
    usage: Annotated[UsageView | None, JsonSchema("Null without a model call.")]

    @classmethod
    def of(cls, run: RunSummary, *, now_ms: int, prices: Prices) -> ComparedRunView:
        return cls(
            run_id=run.run_id,
            name=run.name,
            kind=run.kind,
            status=run.status.value,
            started_at=run.started_at,
            duration_ms=run.duration_ms(now_ms),
            duration_between=run.duration_between,
            events=run.events,
            error=run.error,
            usage=UsageView.of(run.totals.usage, prices),
        )


@dataclass(frozen=True, kw_only=True)
class ComparedCallView:
    """A call of one of the runs."""

    __pydantic_config__ = STRICT

    call_id: str
    status: str
    started_at: int
    duration_ms: float | None
    tokens: Annotated[int | None, JsonSchema("Of a model call, input and output; else null.")]
    error: Annotated[str | None, JsonSchema("The first line.")]
    input_preview: Annotated[str | None, JsonSchema("Of its arguments, if they differ; else null.")]
    output_preview: Annotated[str | None, JsonSchema("Of its result, if they differ; else null.")]

    @classmethod
    def of(
        cls, call: Call, differences: Sequence[CallDifference], *, run_has_ended: bool
    ) -> ComparedCallView:
        error = call.end.error if call.end else None
        return cls(
            call_id=call.call_id,
            status=call.status_in(run_has_ended=run_has_ended),
            started_at=call.started_at,
            duration_ms=call.duration_ms,
            tokens=tokens_of(call),
            error=first_line(error) if error else None,
            input_preview=call.input_preview if "arguments" in differences else None,
            output_preview=call.output_preview if "result" in differences else None,
        )


def tokens_of(call: Call) -> int | None:
    """The tokens of a model call, if both counts are known."""
    usage = call.model.usage if call.model else None
    if usage is None or usage.input_tokens is None or usage.output_tokens is None:
        return None
    return usage.input_tokens + usage.output_tokens


@dataclass(frozen=True, kw_only=True)
class DiffRowView:
    """A call of one run beside the corresponding one of the other; null: that run has none."""

    __pydantic_config__ = STRICT

    depth: int
    kind: str
    name: str
    agent_name: str | None
    differences: Annotated[list[CallDifference], JsonSchema("Empty if the calls are alike.")]
    a: ComparedCallView | None
    b: ComparedCallView | None

    @classmethod
    def of(cls, row: DiffRow, ended: tuple[bool, bool]) -> DiffRowView:
        shown = row.one or row.other
        assert shown is not None
        views = [
            ComparedCallView.of(call, row.differences, run_has_ended=has_ended) if call else None
            for call, has_ended in zip((row.one, row.other), ended, strict=True)
        ]
        return cls(
            depth=row.depth,
            kind=shown.kind,
            name=shown.name,
            agent_name=shown.agent_name,
            differences=list(row.differences),
            a=views[0],
            b=views[1],
        )


@dataclass(frozen=True, kw_only=True)
class ComparisonView:
    """Two runs side by side, their calls aligned by structure."""

    __pydantic_config__ = STRICT

    a: ComparedRunView
    b: ComparedRunView
    rows: Annotated[list[DiffRowView], JsonSchema("In order, each call below its caller.")]
    left_out: Annotated[
        int,
        JsonSchema("Calls that are not in `rows`: of long runs, those that are alike or beyond the limit."),
    ]
    first_difference: Annotated[int | None, JsonSchema("The number of the first row that differs, from 0.")]
    differing: Annotated[int, JsonSchema("Calls that differ in more than time.")]
    differs_in_structure: Annotated[
        bool, JsonSchema("Calls are missing or added, or a call or the run ended with another status.")
    ]

    @classmethod
    def of(
        cls, found: RunComparison, *, now_ms: int, prices: Prices = NO_PRICES, max_rows: int = MAX_ROWS
    ) -> ComparisonView:
        shown = shorten_diff(found.rows, max_rows)
        ended = found.one.ending is not None, found.other.ending is not None
        first = found.first_difference
        return cls(
            a=ComparedRunView.of(found.one, now_ms=now_ms, prices=prices),
            b=ComparedRunView.of(found.other, now_ms=now_ms, prices=prices),
            rows=[DiffRowView.of(found.rows[number], ended) for number in shown],
            left_out=len(found.rows) - len(shown),
            first_difference=shown.index(first) if first is not None else None,
            differing=sum(bool(row.differences) for row in found.rows),
            differs_in_structure=found.differs_in_structure,
        )
