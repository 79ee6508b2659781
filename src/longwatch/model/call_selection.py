"""Which calls of a run an outline includes."""

from __future__ import annotations

from dataclasses import dataclass

from longwatch.model.call_paths import has_failed
from longwatch.model.call_tree import TOP, CallTree
from longwatch.model.calls import Call


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlineOptions:
    """Which calls to select, and how many to show."""

    errors: bool = False  # only calls that failed
    agent: str | None = None  # only calls of this agent
    since: int | None = None  # only calls that were open at this time, in epoch ms, or later
    last: int | None = None  # only so many, those that began last
    depth: int | None = None  # levels to show; the calls below them are counted
    lines: int | None = None  # to fit; None: all calls, with repeated ones folded
    full: bool = False  # one row for each call

    def wants(self, call: Call) -> bool:
        """Whether the call is selected, apart from `last`."""
        return (
            (not self.errors or has_failed(call))
            and (self.agent is None or self.agent in _agents_of(call))
            and (self.since is None or call.end is None or call.end.at >= self.since)
        )

    @property
    def selects(self) -> bool:
        """Whether calls may be left out."""
        return self.errors or any(each is not None for each in (self.agent, self.since, self.last))


def _agents_of(call: Call) -> tuple[str | None, ...]:
    return (call.agent_name, call.name) if call.kind == "agent" else (call.agent_name,)


class Selection:
    """The selected calls and their callers, with the number of calls in each of them."""

    def __init__(self, tree: CallTree, options: OutlineOptions) -> None:
        calls = tree.calls
        wanted = [options.wants(call) for call in calls] if options.selects else [True] * len(calls)
        if options.last is not None:
            by_start = sorted(
                (index for index, is_wanted in enumerate(wanted) if is_wanted),
                key=lambda index: (calls[index].started_at, index),
            )
            latest = set(by_start[max(0, len(by_start) - options.last) :])
            wanted = [index in latest for index in range(len(calls))]
        self.visible = wanted  # and then their callers
        self.sizes = [0] * len(calls)  # visible calls in each call, and itself
        self.failed = [0] * len(calls)
        for index in range(len(calls) - 1, -1, -1):  # callers come before their calls
            caller = tree.callers[index]
            if self.visible[index]:
                self.sizes[index] += 1
                self.failed[index] += has_failed(calls[index])
                if caller != TOP:
                    self.visible[caller] = True
            if caller != TOP:
                self.sizes[caller] += self.sizes[index]
                self.failed[caller] += self.failed[index]
