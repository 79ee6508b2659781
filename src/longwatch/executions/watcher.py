"""Finder and poller in one process: many executions, asked about in batches."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.errors import LongwatchError
from longwatch.executions.due import next_poll_at
from longwatch.executions.finder import Survey, list_unsettled, survey
from longwatch.executions.model import Execution, ExecutionKey
from longwatch.executions.poller import Claim, Poller, PollReport, Result
from longwatch.executions.stores.base import ExecutionStore

MOST_AT_ONCE = 200  # leases must not run out before the last of a batch is settled
NAP_SECONDS = 5.0  # an execution that is new is found no later than this
NAP_MS = round(NAP_SECONDS * 1000)
LOOK_BACK_SECONDS = 60.0
SLICE_SECONDS = 0.5  # how soon `stop` is heard
INSTANT_SECONDS = 0.0005  # less than this is no time to wait: times are whole milliseconds

log = logging.getLogger(__name__)

_COMES_BACK = (Result.POLLED, Result.NO_RESPONSE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One look at everything that is open."""

    survey: Survey
    polled: tuple[PollReport, ...] = ()
    failed: int = 0  # the store or the journal did not take it; the next round tries again


class Watcher:
    """Watches all open executions of a store until it is stopped."""

    def __init__(
        self,
        store: ExecutionStore,
        poller: Poller,
        *,
        clock: Clock = SYSTEM_CLOCK,
        on_tick: Callable[[Collection[Execution]], None] | None = None,
        skipped: Collection[str] = (),
    ) -> None:
        self._store = store
        self._poller = poller
        self._clock = clock
        self._skipped = frozenset(skipped)  # sources that can not be polled from here
        self._on_tick = on_tick  # called about twice a second between polls, with what was open at the last
        self._open: dict[ExecutionKey, Execution] = {}  # as of the last round
        self._looked_back: float | None = None  # monotonic seconds

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
            while not stop.is_set() and (left := until - self._clock.monotonic()) > INSTANT_SECONDS:
                if self._on_tick is not None:
                    self._on_tick(self._open.values())
                self._clock.sleep(min(left, SLICE_SECONDS))

    def look(self) -> Round:
        """Ask about what is due, with one question to each source; the longest due come first."""
        found = [each for each in self._store.open_executions() if each.source not in self._skipped]
        seen = survey(found, self._clock.now_ms())
        due = (*seen.due, *self._gone(found))
        polled: list[PollReport] = []
        for begin in range(0, len(due), MOST_AT_ONCE):
            polled += self._poll(due[begin : begin + MOST_AT_ONCE])
        for each in polled:
            if each.execution.closed:
                self._open.pop(each.execution.key, None)
        return Round(survey=seen, polled=tuple(polled), failed=len(due) - len(polled))

    def _poll(self, due: Sequence[Execution]) -> Iterator[PollReport]:
        """Claim them, ask about all at once, and settle each. One that fails stops none of the others."""
        claims: list[Claim] = []
        for execution in due:
            try:
                claim = self._poller.claim(execution.execution_id, execution.plan_id)
            except LongwatchError as error:
                log.warning("execution %s could not be claimed: %s", execution.key, error)
                continue
            if isinstance(claim, Claim):
                claims.append(claim)
            else:
                yield claim
        told = self._poller.poll_sources(claims) if claims else {}
        for claim in claims:
            try:
                yield self._poller.settle(claim, told[claim.execution.key])
            except LongwatchError as error:  # its lease ends, and another round takes it up
                log.warning("execution %s could not be settled: %s", claim.execution.key, error)

    def _gone(self, found: list[Execution]) -> list[Execution]:
        """Those that were open the last time and are not now: another poller or writer has ended them."""
        now = {each.key: each for each in found}
        gone = [key for key in self._open if key not in now]
        missing = [self._store.get(key.execution_id, key.plan_id) for key in gone]
        self._open = now
        ended = {
            key: each for key, each in zip(gone, missing, strict=True) if each is not None and each.closed
        }
        for each in self._unsettled():
            ended.setdefault(each.key, each)
        return list(ended.values())

    def _unsettled(self) -> list[Execution]:
        """Closed ones that need a poll, read at the start and then once a minute."""
        now = self._clock.monotonic()
        if self._looked_back is not None and now - self._looked_back < LOOK_BACK_SECONDS:
            return []
        found = list_unsettled(self._store, self._clock.now_ms())
        self._looked_back = now
        return found

    def _nap(self, round_: Round) -> float:
        soon = [
            next_poll_at(each.execution)
            for each in round_.polled
            if each.result in _COMES_BACK and not each.execution.closed
        ]
        if round_.survey.next_at is not None:
            soon.append(round_.survey.next_at)
        wait = min(soon, default=self._clock.now_ms() + NAP_MS) - self._clock.now_ms()
        return min(NAP_SECONDS, max(0.0, wait / 1000))
