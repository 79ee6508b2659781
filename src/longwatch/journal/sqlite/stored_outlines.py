"""What `show` prints about a large run that has ended, as snapshots: facts, and outlines."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from longwatch.journal.codec import from_line, to_line
from longwatch.journal.run_totals import totals_from_json, totals_to_json
from longwatch.journal.sqlite.rows import decode_run, encode_run
from longwatch.journal.sqlite.snapshots import RunSnapshots
from longwatch.model.call_outline import CallSpan, Outline, OutlineRow, RowKind
from longwatch.model.call_selection import OutlineOptions
from longwatch.model.calls import NO_CALLS, Call, Mark
from longwatch.model.event import Event
from longwatch.model.model_calls import ModelFacts
from longwatch.model.numbering import NumberSet
from longwatch.model.run import ProducerNumbers, Run, RunSummary
from longwatch.model.totals import RunTotals
from longwatch.model.usage import ModelUsage, Usage

T = TypeVar("T")

FACTS = "facts"
MAX_ROWS = 1_000  # of an outline that is stored
NOTHING_ELSE = ""  # that these views depend on: prices are applied to what is stored


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What is shown of a run besides its calls, which a stored one lacks."""

    whole: Run
    own: Run | None  # the fold of its last attempt, of a run with several
    agents: Mapping[str, Usage]  # that called models in this attempt
    latest: Sequence[Event]  # the last events, of a run without calls


class StoredOutlines:
    """The facts and the outlines of one run; None where nothing valid is stored."""

    def __init__(self, snapshots: RunSnapshots, run: RunSummary) -> None:
        self._snapshots = snapshots
        self._run = run

    def facts(self) -> RunFacts | None:
        return self._find(FACTS, lambda value: _facts_from(self._run.run_id, value))

    def outline(self, options: OutlineOptions) -> Outline | None:
        return self._find(_view(options), _outline_from)

    def _find(self, view: str, decode: Callable[[dict[str, Any]], T]) -> T | None:
        body = self._snapshots.find(self._run, view, NOTHING_ELSE)
        return None if body is None else decode(json.loads(body))

    def save_facts(self, facts: RunFacts) -> None:
        """Store the facts for later readers."""
        value = {
            "whole": _run_to_json(facts.whole),
            "own": None if facts.own is None else _run_to_json(facts.own),
            "agents": {name: totals_to_json(RunTotals(usage)) for name, usage in facts.agents.items()},
            "latest": list(map(to_line, facts.latest)),
        }
        self._snapshots.save(facts.whole, FACTS, NOTHING_ELSE, json.dumps(value).encode())

    def save_outline(self, whole: Run, options: OutlineOptions, outline: Outline) -> None:
        """Store the outline, unless it is long."""
        if len(outline.rows) <= MAX_ROWS:
            body = json.dumps(_fields_of(outline), default=_fields_of).encode()
            self._snapshots.save(whole, _view(options), NOTHING_ELSE, body)


def _view(options: OutlineOptions) -> str:
    return f"outline {options!r}"


def _fields_of(value: Any) -> dict[str, Any]:
    return {each.name: getattr(value, each.name) for each in fields(value)}


def _run_to_json(run: Run) -> dict[str, Any]:
    return {
        "summary": encode_run(run.summary),
        "counts": run.counts,
        "producers": {name: [each.seen.ranges, each.count] for name, each in run.producers.items()},
        "lines": run.lines.ranges,
    }


def _facts_from(run_id: str, value: dict[str, Any]) -> RunFacts:
    return RunFacts(
        _run_from(run_id, value["whole"]),
        None if value["own"] is None else _run_from(run_id, value["own"]),
        {name: totals_from_json(each).usage for name, each in value["agents"].items()},
        list(map(from_line, value["latest"])),
    )


def _run_from(run_id: str, value: dict[str, Any]) -> Run:
    return Run(
        decode_run(run_id, value["summary"]),
        NO_CALLS,
        value["counts"],
        {name: ProducerNumbers(_numbers(seen), count) for name, (seen, count) in value["producers"].items()},
        lines=_numbers(value["lines"]),
    )


def _numbers(ranges: Sequence[Sequence[int]]) -> NumberSet:
    return NumberSet(tuple((low, high) for low, high in ranges))


def _outline_from(value: dict[str, Any]) -> Outline:
    rows = [
        OutlineRow(
            **{
                **row,
                "kind": RowKind(row["kind"]),
                "first": _call_from(row["first"]),
                "span": CallSpan(**row["span"]),
                "rails": tuple(row["rails"]),
            }
        )
        for row in value["rows"]
    ]
    span = None if value["span"] is None else CallSpan(**value["span"])
    return Outline(rows, value["folded"], value["left_out"], span)


def _call_from(value: dict[str, Any]) -> Call:
    return Call(value["call_id"], _mark_from(value["start"]), _mark_from(value["end"]))


def _mark_from(value: dict[str, Any] | None) -> Mark | None:
    if value is None:
        return None
    return Mark(**{**value, "order": tuple(value["order"]), "model": _model_from(value["model"])})


def _model_from(value: dict[str, Any] | None) -> ModelFacts | None:
    if value is None:
        return None
    facts = ModelFacts(**value)
    reasons, usage = value["finish_reasons"], value["usage"]
    return replace(
        facts,
        finish_reasons=None if reasons is None else tuple(reasons),
        usage=None if usage is None else ModelUsage(**usage),
    )
