"""Finds the parents and agents of calls whose spans arrived in any order.

A span that is sent over OTLP names the span around it, which may not be a recorded call. Then a `call_link`
states the parent of that span, and links lead to the nearest recorded call. The agent of such a call is the
one of the nearest call above it that has one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from longwatch.model.event import Order

if TYPE_CHECKING:
    from longwatch.model.calls import Call

CALL_LINK = "call_link"

Links = Mapping[str, tuple[Order, str | None]]  # a span that is not recorded -> its parent; the first counts


def resolve_parents(calls: Mapping[str, Call], links: Links) -> dict[str, Call]:
    """The calls with the nearest recorded call as their parent, and with the agent around them."""
    parents = {call_id: nearest_call(call.parent_call_id, calls, links) for call_id, call in calls.items()}
    agents: dict[str, str | None] = {}
    for call_id in calls:
        _find_agent(call_id, calls, parents, agents)
    return {
        call_id: _with(call, parents[call_id], agents[call_id])
        if call.parent_call_id != parents[call_id] or call.agent_name != agents[call_id]
        else call
        for call_id, call in calls.items()
    }


def nearest_call(parent: str | None, calls: Mapping[str, object], links: Links) -> str | None:
    """The first recorded call on the way up. Without one: None, or the id of a span that is missing."""
    steps = 0
    while parent is not None and parent not in calls and parent in links:
        parent = links[parent][1]
        steps += 1
        if steps > len(links):  # the links form a circle
            return None
    return parent


def _find_agent(
    call_id: str,
    calls: Mapping[str, Call],
    parents: Mapping[str, str | None],
    agents: dict[str, str | None],
) -> None:
    """Set the agent of this call and of those above it that have none."""
    path: list[str] = []
    agent: str | None = None
    step: str | None = call_id
    while step is not None and step in calls:
        if step in agents:
            agent = agents[step]
            break
        agents[step] = None  # also ends a circle
        path.append(step)
        agent = calls[step].agent_name
        if agent is not None:
            break
        step = parents[step]
    for each in path:
        agents[each] = agent


def _with(call: Call, parent: str | None, agent: str | None) -> Call:
    start, end = (
        mark and replace(mark, parent_call_id=parent, agent_name=mark.agent_name or agent)
        for mark in (call.start, call.end)
    )
    return replace(call, start=start, end=end)
