"""Calls for tests of trees, paths and outlines."""

from __future__ import annotations

from longwatch.model.calls import Call, Mark


def call(
    call_id: str,
    *,
    kind: str = "tool",
    name: str = "search",
    at: int = 0,
    takes: int | None = 10,
    status: str = "completed",
    agent: str | None = None,
    parent: str | None = None,
    error: str | None = None,
    given: str | None = None,
) -> Call:
    """A call that takes this many milliseconds; None: it has no end."""

    def mark(moment: int, word: str) -> Mark:
        order = (moment, "", 0, f"{call_id}-{word}")
        return Mark(
            order, kind, name, word, agent_name=agent, parent_call_id=parent, error=error, input_preview=given
        )

    return Call(call_id, mark(at, "started"), None if takes is None else mark(at + takes, status))
