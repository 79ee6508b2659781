"""Simulations with a planted bug, to test whether the simulator finds it.

Each replaces one part of longwatch by the same part with one thing left out. `python -m
longwatch.testing.simulate tests.simulation.bugs:no_drain` plays one of them.
"""

from __future__ import annotations

from longwatch.following.inbox import Inbox
from longwatch.following.polling_service import PollingService
from longwatch.following.run_channel import RunChannel
from longwatch.journal.dynamodb.read_progress import ReadProgress, Scan
from longwatch.journal.dynamodb.reader import WINDOW_MS, TableReader
from longwatch.testing import Simulation
from longwatch.testing.simulation.world import SimulatedParts


class _StrictReader(TableReader):
    def _next_scan(
        self, run_id: str, progress: ReadProgress, now: int, *, may_scan: bool, thorough: bool
    ) -> Scan | None:
        progress.late.clear()
        if not may_scan:
            return None
        return Scan(wide=False, low=None if progress.high is None else progress.high + 1)


class _HoardingReader(TableReader):
    def _finish(self, progress: ReadProgress, scan: Scan) -> None:
        if scan.wide and scan.base is not None:
            progress.floor = max(progress.floor or 0, scan.base - WINDOW_MS)
        progress.scan = None

    def _drop_settled_keys(self, progress: ReadProgress, scan: Scan) -> None:
        """Keep all of them."""


class _UndrainedChannel(RunChannel):
    def reconsider(self) -> None:
        if self.progress.ending is not None and not self.is_closed:
            self._finish_drained(None)
        else:
            super().reconsider()


class _UncountedChannel(RunChannel):
    def leave(self, inbox: Inbox) -> None:
        if self.inboxes.pop(inbox, self) is None:
            self.close()


class _UnrevokedService(PollingService):
    def _revoke(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            self._changed.notify_all()
            self._soon(run.cancel)


# Reads only events that are later than the last time it has seen.
strict_cursor = Simulation(parts=SimulatedParts(make_reader=_StrictReader))
# Keeps the key of every event without a number forever.
unbounded_seen_set = Simulation(parts=SimulatedParts(make_reader=_HoardingReader))
# Ends the watch with the terminal event.
no_drain = Simulation(parts=SimulatedParts(make_channel=_UndrainedChannel))
# Closes the channel of a run when its first follower leaves.
no_reference_count = Simulation(parts=SimulatedParts(make_channel=_UncountedChannel))
# Delivers the results of an earlier start to a later one.
stale_result = Simulation(parts=SimulatedParts(service_overrides=(_UnrevokedService,)))

BUGS = ("no_drain", "no_reference_count", "stale_result", "strict_cursor", "unbounded_seen_set")
