"""The learned cadence of each kind of execution, cached for a poller of many. Opt-in."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import replace

from longwatch.executions.cadence.eta import Eta, comparable_samples, eta_of
from longwatch.executions.cadence.history import (
    KINDS,
    DurationHistory,
    ExecutionKind,
    Sample,
    read_history,
    recorded_sample,
)
from longwatch.executions.cadence.learned import FEWEST, Learned, learn
from longwatch.executions.due import deadline_at, phase_of
from longwatch.executions.model import Execution
from longwatch.journal.base import Journal
from longwatch.polling.schedules import EXECUTION_PHASES, Phased

ETA_EXECUTIONS = 100  # that an ETA is based on: each is a read of the journal, and a user waits


def read_cadence(journal: Journal, *, most: int = ETA_EXECUTIONS) -> LearnedCadence:
    """The cadence of the newest executions in the journal, read now: for ETAs."""
    return LearnedCadence(read_history(journal, most=most))


class LearnedCadence:
    """Learns a kind of execution when it is first needed, and again after one of it has ended.

    Threads may share it.
    """

    def __init__(self, history: DurationHistory, phases: Phased = EXECUTION_PHASES) -> None:
        self._history, self._phases = history, phases
        self._learned: OrderedDict[ExecutionKind, Learned] = OrderedDict()
        self._lock = threading.Lock()

    def learn_from(self, journal: Journal, run_id: str) -> None:
        """Learn from an execution that has ended, by its events in the journal."""
        self.add(recorded_sample(journal, run_id))

    def add(self, sample: Sample | None) -> None:
        """Add an execution that has ended. None, for one without usable durations, changes nothing."""
        if sample is None:
            return
        with self._lock:
            self._history.add(sample)
            for kind in list(self._learned):
                if kind.of_any_plan == sample.kind.of_any_plan:
                    del self._learned[kind]

    def learned(self, kind: ExecutionKind) -> Learned:
        """The cadence for executions of this kind."""
        with self._lock:
            learned = self._learned.get(kind)
            if learned is None:
                learned = self._learned[kind] = learn(
                    self._history.samples(kind, fewest=FEWEST), self._phases
                )
                if len(self._learned) > KINDS:
                    self._learned.popitem(last=False)
        return learned

    def phases_for(self, execution: Execution) -> Phased:
        """The phases with the learned delay in the one that it is in: for `is_due` and `next_poll_at`.

        The rules of `due` still apply: the deadline, and a wait that the source requests.
        """
        delay = self.learned(ExecutionKind.of(execution)).delay_for(execution)
        return replace(self._phases, seconds={**self._phases.seconds, phase_of(execution).value: delay})

    def next_poll_at(self, execution: Execution) -> int | None:
        """When to poll after the last response, in epoch ms; None where nothing was learned.

        The poller stores it in the record, where other pollers and finders read it.
        """
        polled_at = execution.last_polled_at
        learned = self.learned(ExecutionKind.of(execution))
        if polled_at is None or phase_of(execution) not in learned.plans:
            return None
        due = polled_at + round(learned.delay_for(execution) * 1000)
        deadline = deadline_at(execution)
        return deadline if deadline is not None and polled_at < deadline < due else due

    def eta_of(self, execution: Execution, now_ms: int) -> Eta | None:
        """The ETA; None if there are too few past executions."""
        kind = ExecutionKind.of(execution)
        with self._lock:
            own, any_plan = self._history.samples(kind), self._history.samples(kind.of_any_plan)
        return eta_of(execution, comparable_samples(execution, own, any_plan), now_ms)
