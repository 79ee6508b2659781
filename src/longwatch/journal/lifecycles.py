"""The lifecycle of a run as JSON, for journals that store a summary of each run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from longwatch.model.attempts import Lifecycle, Member, Start
from longwatch.model.endings import Ending, Status
from longwatch.model.event import Order
from longwatch.model.process import ProcessIdentity
from longwatch.model.run import Origin

DEAD_PREFIX = "dead-"  # of the ids of endings with the error code `producer_dead`


def to_json(facts: Lifecycle) -> list[Any]:
    """Lists and texts only, as short as possible: a journal writes them with every append."""
    return [
        [[*each.order, each.attempt, *([True] if each.is_session else [])] for each in facts.starts],
        [_ending(each) for each in facts.endings],
        [[*each.order, each.is_owner, each.attempt, each.process.fields] for each in facts.members],
        facts.closed,
        facts.dropped,
        *([True] if facts.has_gaps else []),
    ]


def from_json(value: list[Any]) -> Lifecycle:
    """The lifecycle that `to_json` wrote."""
    starts, endings, members, closed, dropped, *gaps = value
    return Lifecycle(
        starts=tuple(Start(_order(each[:4]), each[4], each[5:] == [True]) for each in starts),
        endings=tuple(_ending_from(each) for each in endings),
        members=tuple(
            Member(process, _order(each[:4]), each[4], each[5])
            for each in members
            if (process := ProcessIdentity.of(each[6])) is not None
        ),
        closed=tuple((at, producer) for at, producer in closed),
        dropped=_order(dropped) if dropped else None,
        has_gaps=gaps == [True],
    )


def lifecycle_from_ending(origin: Origin, ending: Ending | None) -> Lifecycle:
    """The lifecycle of a summary of an earlier version, which has a single ending.

    There, the ending of a process that had exited has the status `failed`. Its ID identifies it, and its time
    is just after the last event, because the time of the exit is unknown.
    """
    starts = () if origin.inferred else (Start(origin.order),)
    if ending is None:
        return Lifecycle(starts=starts)
    at, _, _, event_id = ending.order
    if event_id.startswith(DEAD_PREFIX) and not ending.own_word:
        ending = replace(ending, status=Status.DIED, not_before=max(0, at - 1))
    return Lifecycle(starts=starts, endings=(ending,))


def _ending(ending: Ending) -> list[Any]:
    stated: list[Any] = [
        ending.status,
        ending.order,
        ending.own_word,
        ending.error,
        ending.correction,
        ending.attempt,
    ]
    if ending.status is Status.DIED:
        processes = None if ending.processes is None else sorted(ending.processes)
        stated += [processes, ending.not_before, ending.not_after]
    elif ending.warnings:
        stated.append(ending.warnings)
    return stated


def _ending_from(value: list[Any]) -> Ending:
    status, order, own_word, error, correction, attempt, *more = value
    processes, not_before, not_after = more if len(more) == 3 else (None, None, None)
    return Ending(
        status=Status(status),
        order=_order(order),
        own_word=own_word,
        error=error,
        correction=correction,
        attempt=attempt,
        processes=None if processes is None else frozenset(processes),
        not_before=not_before,
        not_after=not_after,
        warnings=more[0] if len(more) == 1 else 0,
    )


def _order(value: list[Any]) -> Order:
    at, producer, number, event_id = value
    return (at, producer, number, event_id)
