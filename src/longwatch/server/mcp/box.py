"""What the tools work with: the parts of the server, and what is known of the caller."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from longwatch.journal.run_lookup import find_run
from longwatch.journal.views import RunLine
from longwatch.model.run import RunSummary
from longwatch.server.context import ServerContext
from longwatch.server.mcp.results import RunBrief

ReportProgress = Callable[[float, float, str], Awaitable[None]]
"""Reports the progress of a call, the total, and a message. Does nothing if the client did not ask for it."""


@dataclass(frozen=True, slots=True)
class OwnRunName:
    """The run that the caller is part of, and the variable or header that names it."""

    run_id: str
    named_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolBox:
    """One call of a tool."""

    context: ServerContext
    may_write: bool
    own_run: OwnRunName | None
    client: str  # its name, as it states it
    report_progress: ReportProgress

    async def find(self, wanted: str) -> RunSummary:
        """The run with this ID, the only one whose ID begins so, or the newest for `latest`."""
        return await self.context.call(find_run, self.context.journal, wanted, lister="list_runs")

    async def brief(self, run: RunSummary) -> RunBrief:
        """The run as it is at this moment."""
        observed = await self.context.observe(run)
        line = RunLine.of(
            observed.run,
            now_ms=self.context.clock.now_ms(),
            observed=observed.conditions,
            prices=self.context.prices.current(),
        )
        return RunBrief.of(line)
