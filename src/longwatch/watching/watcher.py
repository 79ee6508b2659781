"""Finder and poller in one process: many executions, asked about in batches."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.errors import LongwatchError
from longwatch.watching.finder import Survey, survey
from longwatch.watching.model import Execution
from longwatch.watching.poller import Claim, Polled, Poller
from longwatch.watching.stores.base import ExecutionStore
from longwatch.watching.stores.records import is_untold

MOST_AT_ONCE = 200  # leases must not run out before the last of a batch is settled
NAP_SECONDS = 5.0  # an execution that is new is found no later than this
SLICE_SECONDS = 0.5  # how soon `stop` is heard

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One look at everything that is open."""

    survey: Survey
    polled: tuple[Polled, ...] = ()
    failed: int = 0  # the store or the journal did not take it; the next round tries again


class Watcher:
    """Watches all open executions of a store until it is stopped."""

    def __init__(self, store: ExecutionStore, poller: Poller, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._store = store
        self._poller = poller
        self._clock = clock
        self._open: dict[tuple[str, str], Execution] = {}  # as of the last round

    def run(self, *, stop: threading.Event | None = None, until_idle: bool = False) -> None:
        """Go on until told to stop, or with `until_idle` until nothing is open."""
        stop = stop or threading.Event()
        while not stop.is_set():
            nap = NAP_SECONDS
            try:
                round_ = self.look()
            except LongwatchError as error:  # the store does not answer: wait, and look again
                log.warning("executions can not be read: %s", error)
            else:
                if until_idle and not round_.survey.open:
                    return
                nap = self._nap(round_)
            until = self._clock.monotonic() + nap
            while not stop.is_set() and (left := until - self._clock.monotonic()) > 0:
                self._clock.sleep(min(left, SLICE_SECONDS))

    def look(self) -> Round:
        """Ask about what is due, with one question to each source; the longest due come first."""
        found = list(self._store.open_executions())
        seen = survey(found, self._clock.now_ms())
        gone = self._gone(found)
        polled: list[Polled] = []
        failed = 0
        claims: list[Claim] = []
        for execution in (*seen.due[:MOST_AT_ONCE], *gone):
            try:
                claim = self._poller.claim(execution.execution_id, execution.plan_id)
            except LongwatchError as error:
                failed += 1
                log.warning("execution %s could not be claimed: %s", execution.execution_id, error)
                continue
            if isinstance(claim, Claim):
                claims.append(claim)
            else:
                polled.append(claim)
        told = self._poller.ask(claims) if claims else {}
        for claim in claims:
            try:
                polled.append(self._poller.settle(claim, told[claim.execution.execution_id]))
            except LongwatchError as error:  # its lease ends, and another round takes it up
                failed += 1
                log.warning("execution %s could not be settled: %s", claim.execution.execution_id, error)
        return Round(survey=seen, polled=tuple(polled), failed=failed)

    def _gone(self, found: list[Execution]) -> list[Execution]:
        """Those that were open the last time and are not now: another writer may have ended them."""
        now = {(each.execution_id, each.plan_id): each for each in found}
        before, self._open = self._open, now
        missing = [
            self._store.get(each.execution_id, each.plan_id) for key, each in before.items() if key not in now
        ]
        return [each for each in missing if each is not None and is_untold(each)]

    def _nap(self, round_: Round) -> float:
        if len(round_.survey.due) > MOST_AT_ONCE:
            return 0.0
        if round_.survey.next_at is None:
            return NAP_SECONDS
        return min(NAP_SECONDS, max(0.0, (round_.survey.next_at - self._clock.now_ms()) / 1000))
