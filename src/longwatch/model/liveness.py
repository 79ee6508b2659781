"""Whether a run died: one rule for the command line, the hub and the server.

A run died if it has no ending, its owner is a known process, every process that has not left is gone, and
none of them has undelivered events. An observer that cannot judge one of the processes, or cannot read some
of the events, reports a condition and never decides. The time of the death is an interval: not before the
run's last activity or heartbeat, nor after the first observation that its last process was gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256

from longwatch.model.attempts import CLOCK_SKEW_MS, MAX_MEMBERS, Lifecycle, Member
from longwatch.model.endings import PROCESS_DIED, Ending, Status
from longwatch.model.event import MAX_OCCURRED_AT, Event, Order
from longwatch.model.process import Presence, ProcessIdentity

NO_HEARTBEAT_AFTER_MS = 180_000  # three of the longest interval
_BY_SEVERITY = ("crowded", "no heartbeat", "unattended", "undelivered")


@dataclass(frozen=True, slots=True)
class Condition:
    """Something true of a run at this moment that is not part of its history."""

    name: str  # waiting, silent, missing, no heartbeat, unattended, undelivered, unreadable or crowded
    message: str
    since: int | None = None  # epoch ms, if that is not the time of the last event

    @property
    def severity(self) -> int:
        """Of several conditions of a run's processes, the most severe is shown first."""
        return _BY_SEVERITY.index(self.name) if self.name in _BY_SEVERITY else -1


@dataclass(frozen=True, slots=True)
class Observation:
    """What an observer has seen of one process of a run."""

    presence: Presence
    alive_at: int | None = None  # epoch ms of the last heartbeat, or when it was last seen alive
    gone_by: int | None = None  # epoch ms of the first observation that it is gone
    has_undelivered: bool = False  # its outbox contains events of the run, or is unreadable
    is_before_boot: bool = False  # it is gone because this machine was rebooted


@dataclass(frozen=True, slots=True)
class Liveness:
    """The conclusion of an observer."""

    death: Event | None = None  # the ending to write for a run that died
    conditions: tuple[Condition, ...] = ()
    gone: frozenset[str] = frozenset()  # producers whose process has exited while others still run

    @property
    def ending(self) -> Ending | None:
        return None if self.death is None else Ending.of(self.death)


ALIVE = Liveness()


def judge(
    run_id: str,
    lifecycle: Lifecycle,
    *,
    last: Order,
    active_at: int | None,
    observations: Mapping[str, Observation],
    now_ms: int,
    ttl_seconds: int | None = None,
) -> Liveness:
    """Decide from these observations of its processes whether a run died.

    `last` is the order of the run's last event, `active_at` the time of its last activity: an event of an
    observer is not a sign of life.
    """
    attempt = lifecycle.current
    members = attempt.members
    if attempt.ending is not None or not members:
        return ALIVE
    if lifecycle.has_gaps:
        return Liveness(conditions=(UNREADABLE_EVENTS,))
    seen = [(each, observations.get(each.process.id, UNSEEN)) for each in members]
    unknown = [pair for pair in seen if pair[1].presence is Presence.UNKNOWN]
    if lifecycle.is_crowded:
        return Liveness(conditions=(CROWDED,))
    if unknown:
        return Liveness(conditions=tuple(_missing_heartbeats(unknown, active_at or 0, now_ms)))
    if any(_outlives_boot(found, active_at) for _, found in seen):
        return ALIVE  # another machine with the same ID, such as a clone or a container image
    alive = [member for member, found in seen if found.presence is Presence.ALIVE]
    if alive:
        gone = frozenset(each.producer for each, found in seen if found.presence is Presence.GONE)
        return Liveness(conditions=tuple(_unattended(members, alive)), gone=gone)
    if not any(each.is_owner for each in members):
        return ALIVE
    undelivered = [member for member, found in seen if found.has_undelivered]
    if undelivered:
        return Liveness(conditions=(_undelivered(undelivered[0].process),))
    interval = _interval([found for _, found in seen], active_at or 0, now_ms)
    return Liveness(death_event(run_id, attempt.id, members, last, interval, ttl_seconds=ttl_seconds))


UNSEEN = Observation(Presence.UNKNOWN)
UNREADABLE_EVENTS = Condition(
    "unreadable",
    "some events cannot be read, so the run is not judged; run `longwatch doctor`",
)
CROWDED = Condition("crowded", f"more than {MAX_MEMBERS} processes work on the run, too many to judge")


def _outlives_boot(found: Observation, active_at: int | None) -> bool:
    """Whether there were signs of life after the boot that supposedly ended the process."""
    if not found.is_before_boot or found.gone_by is None:
        return False
    return max(found.alive_at or 0, active_at or 0) > found.gone_by + CLOCK_SKEW_MS


def _interval(observations: Sequence[Observation], active_at: int, now_ms: int) -> tuple[int, int]:
    not_before = max([active_at, *(each.alive_at for each in observations if each.alive_at is not None)])
    not_after = max(each.gone_by if each.gone_by is not None else now_ms for each in observations)
    return not_before, max(not_before, not_after)


def death_event(
    run_id: str,
    attempt: str | None,
    members: Iterable[Member],
    last: Order,
    interval: tuple[int, int | None],
    *,
    ttl_seconds: int | None = None,
) -> Event:
    """The terminal event that an observer writes for a run that died.

    Its ID and time depend only on what every observer sees, so two observers write the same event.
    `occurred_at` is just after the run's last event, where a reader with a limited look-back finds it; the
    payload has the interval.
    """
    processes = sorted({each.process.id: each.process for each in members}.values(), key=lambda each: each.id)
    ids = [each.id for each in processes]
    seed = "\0".join([run_id, attempt or "", *ids, last[3]])
    at = min(last[0] + 1, MAX_OCCURRED_AT)
    payload: dict[str, object] = {
        "status": Status.DIED.value,
        "written_for": True,
        "error_code": PROCESS_DIED,
        "error_message": death_message(processes),
        "processes": ids,
        "not_before": interval[0],
        "exit_observed": False,
    }
    if interval[1] is not None:
        payload["not_after"] = interval[1]
    if attempt is not None:
        payload["attempt"] = attempt
    return Event(
        run_id=run_id,
        event_id=f"died-{sha256(seed.encode(errors='replace')).hexdigest()[:32]}",
        type="workflow_error",
        occurred_at=at,
        ttl=None if ttl_seconds is None else at // 1000 + ttl_seconds,
        payload=payload,
    )


def death_message(processes: Sequence[ProcessIdentity]) -> str:
    """The error message of a death."""
    if len(processes) == 1:
        (process,) = processes
        return f"Process {process.pid} on {process.host} exited without reporting an outcome."
    pids = ", ".join(str(each.pid) for each in sorted(processes, key=lambda each: each.pid)[:10])
    more = f" and {len(processes) - 10} more" if len(processes) > 10 else ""
    host = processes[0].host if processes else "an unknown host"
    return f"Processes {pids}{more} on {host} exited without reporting an outcome."


def _unattended(members: Sequence[Member], alive: Sequence[Member]) -> Iterable[Condition]:
    living = {each.process.id for each in alive}
    owners = [each.process for each in members if each.is_owner]
    if owners and not any(each.id in living for each in owners):
        gone, runs = owners[0], alive[0].process
        role = f" ({gone.role})" if gone.role else ""
        yield Condition(
            "unattended", f"process {gone.pid}{role} is gone; process {runs.pid} on {runs.host} still runs"
        )


def _missing_heartbeats(
    unknown: Iterable[tuple[Member, Observation]], active_at: int, now_ms: int
) -> Iterable[Condition]:
    for member, found in unknown:
        # A process that was killed before its first heartbeat has none, so the last event counts.
        seen_at = max(found.alive_at or 0, active_at)
        if now_ms - seen_at > NO_HEARTBEAT_AFTER_MS:
            since = datetime.fromtimestamp(seen_at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
            process = member.process
            yield Condition(
                "no heartbeat",
                f"no heartbeat since {since} from process {process.pid} on {process.host}",
                since=seen_at,
            )


def _undelivered(process: ProcessIdentity) -> Condition:
    where = f" in {process.outbox}" if process.outbox else ""
    return Condition(
        "undelivered",
        f"process {process.pid} on {process.host} is gone and left events{where}; "
        "deliver them with `longwatch ship`",
    )
