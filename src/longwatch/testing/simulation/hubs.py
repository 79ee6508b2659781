"""Hubs as a simulation needs them: nothing in them depends on the machine's clock or its processes."""

from __future__ import annotations

from collections.abc import Callable

from longwatch.following.arrivals_reader import ArrivalsReader
from longwatch.following.hub import Hub
from longwatch.following.inbox import Inbox
from longwatch.following.process_watch import ProcessWatch
from longwatch.following.run_channel import EventSource, RunChannel
from longwatch.following.run_poller import RunPoll, RunPoller, RunPollState
from longwatch.model.process import Presence, ProcessIdentity

HOST = "simulated"

MakeChannel = Callable[[str, EventSource, Hub], RunChannel]


class SimulatedHub(Hub):
    """A hub with one batch for all that is due. Processes have exited as soon as `gone` lists them."""

    make_channel: MakeChannel = RunChannel
    gone: set[int] | None = None  # process ids; None: it cannot see the processes of the producers

    _opened: dict[RunChannel, float]  # when each channel was

    def _open(self) -> None:
        was_open = self._is_open
        super()._open()
        if was_open or not self._is_open:
            return
        self._opened = {}
        if self.gone is not None:
            self.processes = ProcessWatch(self.timers, self._clock, presence=self._presence, pidfds=False)
        if isinstance(self._source, RunPoller):
            self._source = _OneBatch(
                self.journal,
                self._threads,
                self.outage,
                poll_seconds=self._poll_seconds,
                page_events=self._page_events,
                batches=1,
            )

    def _presence(self, process: ProcessIdentity) -> Presence:
        if process.host != HOST or self.gone is None:
            return Presence.UNKNOWN
        return Presence.GONE if process.pid in self.gone else Presence.ALIVE

    def join(self, run_id: str, inbox: Inbox) -> RunChannel:
        channel = self._channels.get(run_id)
        if channel is None:
            channel = self._channels[run_id] = type(self).make_channel(run_id, self._source, self)
            self._source.add(channel)
            self._opened[channel] = self.now()
        channel.add(inbox)
        return channel

    def forget(self, channel: RunChannel) -> None:
        super().forget(channel)
        self._opened.pop(channel, None)

    def cursor_size(self, run_id: str, *, live_seconds: float) -> int:
        """How long the cursor is with which a run is polled, once it has been for so long; else 0."""
        channel = self._channels.get(run_id)
        if channel is None or not isinstance(self._source, RunPoller):
            return 0
        state = self._source._polled.get(channel)
        if state is None or state.backoff.failures or state.has_more:
            return 0  # it is still catching up, or has to once the store answers again
        return len(state.cursor) if self.now() - self._opened[channel] > live_seconds else 0

    def leftovers(self) -> list[str]:
        """What the hub still holds without any follower."""
        if not self._is_open:
            return []
        held = {
            "inboxes": len(self._inboxes),
            "channels": len(self._channels),
            "alarms": len(self.timers._queue),
            "backfills": len(self._backfilling),
            "processes state": self.processes.watched,
        }
        if isinstance(self._source, ArrivalsReader):
            held["followed runs"] = len(self._source._channels)
            held["change signals"] = self._source.is_ready + len(self._source._lent)
        else:
            held["polls"] = len(self._source._polled) + len(self._source._timers._queue)
        return [f"{count} {what} left" for what, count in held.items() if count]


class _OneBatch(RunPoller):
    """How long a read took by the machine's clock decides nothing here."""

    def _read(self, batch: list[RunPollState]) -> None:
        quiet: list[RunPollState] = []
        answers: list[RunPoll] = []
        for state in batch:
            self._poll_run(state, quiet, answers)
        self._report(quiet, answers)
