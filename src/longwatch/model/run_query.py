"""The filter of a list of runs."""

from __future__ import annotations

from dataclasses import dataclass

from longwatch.model.run import RunSummary, Status
from longwatch.model.run_terms import RunTerm


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuery:
    """A filter of runs; all given conditions must hold."""

    status: Status | frozenset[Status] | None = None  # one, or any of several
    kind: str | None = None
    except_kinds: frozenset[str] = frozenset()
    since: int | None = None  # epoch ms; started at or after this
    until: int | None = None  # epoch ms; started before this
    text: str | None = None  # part of the run id or the name, in any case
    terms: tuple[RunTerm, ...] = ()  # of the query language

    def accepts(self, run: RunSummary) -> bool:
        """Whether the filter includes this run."""
        if not self.accepts_status(run.status):
            return False
        if self.kind is not None and run.kind != self.kind:
            return False
        if run.kind in self.except_kinds:
            return False
        if self.since is not None and run.started_at < self.since:
            return False
        if self.until is not None and run.started_at >= self.until:
            return False
        if self.text is not None:
            text = self.text.casefold()
            if text not in run.run_id.casefold() and text not in (run.name or "").casefold():
                return False
        return all(term.accepts(run) for term in self.terms)

    @property
    def statuses(self) -> frozenset[Status]:
        """The accepted statuses; empty: all of them."""
        if self.status is None:
            return frozenset()
        return self.status if isinstance(self.status, frozenset) else frozenset({self.status})

    def accepts_status(self, status: Status) -> bool:
        """Whether the filter includes this status."""
        return self.status is None or status in self.statuses


ALL_RUNS = RunQuery()
INDEX_KINDS = frozenset({"project", "conversation"})  # runs that never end: they only list others
WORK = RunQuery(except_kinds=INDEX_KINDS)
