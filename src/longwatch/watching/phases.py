"""In which phase an execution is, which decides how often it is asked about (document 004)."""

from __future__ import annotations

from enum import StrEnum

from longwatch.polling.schedules import EXECUTION_PHASES, Phased
from longwatch.watching.model import Execution, ServerState


class Phase(StrEnum):
    """How far the servers are."""

    PENDING = "pending"  # none has begun
    STARTED = "started"  # the transition: some are in progress, and none has finished
    IN_PROGRESS = "in_progress"  # some have finished, some have not


def phase_of(execution: Execution) -> Phase:
    """The phase, from the states of all servers. An execution without any is pending: empty is never done."""
    states = {server.state for _, server in execution.servers()}
    if any(state.is_final for state in states):
        return Phase.IN_PROGRESS
    if states & {ServerState.IN_PROGRESS, ServerState.UNKNOWN}:
        return Phase.STARTED
    return Phase.PENDING


def delay_of(execution: Execution, phases: Phased = EXECUTION_PHASES) -> float:
    """Seconds from one look to the next in the phase that it is in."""
    return phases.seconds.get(phase_of(execution).value, phases.otherwise)
