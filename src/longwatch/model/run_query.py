"""Which runs to list."""

from __future__ import annotations

from dataclasses import dataclass

from longwatch.model.run import RunSummary, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuery:
    """Which runs to list. Everything given must hold."""

    status: Status | frozenset[Status] | None = None  # one, or any of several
    kind: str | None = None
    except_kinds: frozenset[str] = frozenset()
    since: int | None = None  # epoch ms; began at or after this
    until: int | None = None  # epoch ms; began before this
    text: str | None = None  # part of the run id or the name, in any case

    def accepts(self, run: RunSummary) -> bool:
        """Whether this run is one of those asked for."""
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
            wanted = self.text.casefold()
            return wanted in run.run_id.casefold() or wanted in (run.name or "").casefold()
        return True

    @property
    def statuses(self) -> frozenset[Status]:
        """The statuses asked for; none if any will do."""
        if self.status is None:
            return frozenset()
        return self.status if isinstance(self.status, frozenset) else frozenset({self.status})

    def accepts_status(self, status: Status) -> bool:
        """Whether this status is one of those asked for."""
        return self.status is None or status in self.statuses


ALL_RUNS = RunQuery()


INDEX_KINDS = frozenset({"project", "conversation"})  # runs that never end: they only list others


WORK = RunQuery(except_kinds=INDEX_KINDS)
