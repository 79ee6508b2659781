"""Known bugs, planted to see whether the simulator finds them. Only for its own tests.

None of them is in the product: each is a part of it with one thing left out, put in its place.
"""

from __future__ import annotations

from enum import StrEnum

from longwatch.following.inbox import Inbox
from longwatch.following.polling_service import PollingService
from longwatch.following.run_channel import RunChannel
from longwatch.journal.dynamodb.read_progress import ReadProgress, Scan
from longwatch.journal.dynamodb.reader import WINDOW_MS, TableReader
from longwatch.testing.simulation.hubs import MakeChannel
from longwatch.testing.simulation.stores import MakeReader


class FollowerBug(StrEnum):
    """What is left out."""

    STRICT_CURSOR = "strict-cursor"  # reads only what is later than the last time it saw
    NO_DRAIN = "no-drain"  # the terminal event counts as the last one
    STALE_RESULT = "stale-result"  # what an earlier start found is delivered to a later one
    UNBOUNDED_SEEN_SET = "unbounded-seen-set"  # every event without a number is remembered for ever
    NO_REFERENCE_COUNT = "no-reference-count"  # the first one who leaves ends the poll for everybody


def reader_with(bug: FollowerBug | None) -> MakeReader:
    """How a DynamoDB journal reads."""
    match bug:
        case FollowerBug.STRICT_CURSOR:
            return _StrictReader
        case FollowerBug.UNBOUNDED_SEEN_SET:
            return _HoardingReader
        case _:
            return TableReader


def channel_with(bug: FollowerBug | None) -> MakeChannel:
    """How a hub shares a run."""
    match bug:
        case FollowerBug.NO_DRAIN:
            return _UndrainedChannel
        case FollowerBug.NO_REFERENCE_COUNT:
            return _UncountedChannel
        case _:
            return RunChannel


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
        """Never."""


class _UndrainedChannel(RunChannel):
    def reconsider(self) -> None:
        if self.known.ending is not None and not self.is_closed:
            self._finish_drained(None)
        else:
            super().reconsider()


class _UncountedChannel(RunChannel):
    def leave(self, seat: Inbox) -> None:
        if self.seats.pop(seat, self) is None:
            self.close()


class Unrevoked(PollingService):
    """A polling service that forgets to tell what is under way that nobody wants it any more."""

    def _revoke(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            self._changed.notify_all()
            self._soon(run.cancel)
