"""Conditions of a run query on the summary of a run, and their alternatives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import ge, gt, le, lt

from longwatch.model.summary import RunSummary

PARTIAL_FIELDS: Mapping[str, Callable[[RunSummary], Iterable[str]]] = {  # a part of the text matches
    "agent": lambda run: run.agents,
    "tool": lambda run: run.tools,
    "error": lambda run: (run.error or "",),
    "name": lambda run: (run.name or "",),
    "run": lambda run: (run.run_id,),
    "text": lambda run: (run.run_id, run.name or ""),
}
EXACT_FIELDS: Mapping[str, Callable[[RunSummary], Iterable[str]]] = {  # the whole text matches
    "kind": lambda run: (run.kind,),
    "tag": lambda run: run.tags,
    "user": lambda run: (run.labels.user or "",),
    "session": lambda run: (run.labels.session or "",),
}
COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {">": gt, ">=": ge, "<": lt, "<=": le}


@dataclass(frozen=True, slots=True)
class TextTerm:
    """A field that has one of these texts, in any case; or none of them."""

    field: str
    values: frozenset[str]  # folded
    is_negated: bool = False

    def accepts(self, run: RunSummary) -> bool:
        """Whether the run meets this condition."""
        if self.field in EXACT_FIELDS:
            found = any(text.casefold() in self.values for text in EXACT_FIELDS[self.field](run))
        else:
            texts = [text.casefold() for text in PARTIAL_FIELDS[self.field](run)]
            found = any(value in text for value in self.values for text in texts)
        return found is not self.is_negated


@dataclass(frozen=True, slots=True)
class DurationTerm:
    """A duration beyond a limit; that of an open run is counted up to the time of the query."""

    comparison: str  # one of `COMPARISONS`
    limit_ms: int
    now_ms: int
    is_negated: bool = False

    def accepts(self, run: RunSummary) -> bool:
        """Whether the run meets this condition. The least possible duration of a run that died counts."""
        duration = run.duration_ms(self.now_ms)
        if duration is None:
            duration = run.duration_between[0] if run.duration_between else 0
        return COMPARISONS[self.comparison](duration, self.limit_ms) is not self.is_negated


RunTerm = TextTerm | DurationTerm
