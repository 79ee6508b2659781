"""Observes the processes of a run from this machine, for readers that ask once rather than follow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from longwatch.errors import LongwatchError
from longwatch.journal.base import Heartbeats, Journal
from longwatch.journal.sqlite.waiting import may_wait
from longwatch.model.liveness import ALIVE, Liveness, Observation, judge
from longwatch.model.process import Presence, Process, Surroundings, this_surroundings
from longwatch.runs import RunSummary

Observe = Callable[[Iterable[Process]], Mapping[str, Observation]]


def observe(processes: Iterable[Process], *, now_ms: int, here: Surroundings) -> dict[str, Observation]:
    """What can be seen of these processes at this moment."""
    return {each.id: _observed(each, now_ms, here) for each in processes}


def _observed(process: Process, now_ms: int, here: Surroundings) -> Observation:
    presence = process.presence(here)
    if presence is Presence.ALIVE:
        return Observation(presence, alive_at=now_ms)
    if presence is Presence.GONE:
        return Observation(presence, gone_by=process.gone_by(now_ms, here))
    return Observation(presence)


def with_records(
    observed: Mapping[str, Observation], processes: Iterable[Process], run_id: str, journal: Journal
) -> dict[str, Observation]:
    """The observations, with what is on record: heartbeats, and events that wait in an outbox. Reads both."""
    beats = heartbeats_of(journal, observed)
    outboxes = {each.id: each.outbox for each in processes}
    known: dict[str, Observation] = {}
    for process_id, found in observed.items():
        times = [at for at in (found.alive_at, beats.get(process_id)) if at is not None]
        waits = found.presence is Presence.GONE and may_wait(outboxes.get(process_id), run_id)
        known[process_id] = replace(found, alive_at=max(times, default=None), has_undelivered=waits)
    return known


def heartbeats_of(journal: Journal, process_ids: Iterable[str]) -> Mapping[str, int]:
    """The last heartbeat of each process; a journal that can not be read has none."""
    if not isinstance(journal, Heartbeats):
        return {}
    try:
        return journal.heartbeats(list(process_ids))
    except LongwatchError:  # heartbeats only narrow an interval
        return {}


def liveness_of(
    run: RunSummary, journal: Journal, *, now_ms: int, here: Surroundings | None = None
) -> Liveness:
    """What can be said at this moment about the processes of a run that has no ending."""
    attempt = run.lifecycle.current
    if attempt.ending is not None or not attempt.members:
        return ALIVE
    processes = [each.process for each in attempt.members]
    seen = observe(processes, now_ms=now_ms, here=here if here is not None else this_surroundings())
    if any(each.presence is Presence.ALIVE for each in seen.values()):
        known: Mapping[str, Observation] = seen
    else:
        known = with_records(seen, processes, run.run_id, journal)
    active_at = run.last_event_at if run.is_active else None
    return judge(
        run.run_id,
        run.lifecycle,
        last=run.last_order,
        active_at=active_at,
        observations=known,
        now_ms=now_ms,
    )


def with_liveness(run: RunSummary, liveness: Liveness) -> RunSummary:
    """The run as it stands by this observation: died, or as its events say. Nothing is written."""
    ending = liveness.ending
    return run if ending is None else replace(run, lifecycle=run.lifecycle.with_ending(ending))
