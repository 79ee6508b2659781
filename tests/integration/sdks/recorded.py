"""What the adapters record of a program, in a journal in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from longwatch.journal.memory import MemoryJournal
from longwatch.model.calls import NO_CALLS, Call
from longwatch.model.event import Event
from longwatch.recording import recorder as recorder_module
from longwatch.recording.recorder import Recorder, configure
from longwatch.settings import Settings


class Recorded:
    """The runs that were recorded so far."""

    def __init__(self, journal: MemoryJournal, recorder: Recorder) -> None:
        self._journal = journal
        self._recorder = recorder

    def run_ids(self) -> list[str]:
        assert self._recorder.flush()
        return [run.run_id for run in self._journal.find_runs().runs]

    def events(self, *types: str) -> list[Event]:
        """The events of the only run, of these types if any are named, in order."""
        (run_id,) = self.run_ids()
        events = self._journal.read(run_id, limit=10_000).events
        ordered = sorted(events, key=lambda event: event.order)
        return [event for event in ordered if not types or event.type in types]

    def all_events(self) -> list[Event]:
        """The events of all runs."""
        return [
            event for run_id in self.run_ids() for event in self._journal.read(run_id, limit=10_000).events
        ]

    def calls(self) -> Mapping[str, Call]:
        return NO_CALLS.plus(self.events()).by_id()

    def tree(self) -> list[str]:
        """A line for each call, `kind name status`, indented below the call that made it."""
        calls = self.calls()

        def below(parent: str | None, depth: int) -> Iterator[str]:
            children = (call for call in calls.values() if call.parent_call_id == parent)
            for call in sorted(children, key=lambda call: (call.started_at, call.call_id)):
                yield f"{'  ' * depth}{call.kind} {call.name} {call.status}"
                yield from below(call.call_id, depth + 1)

        lines = list(below(None, 0))
        assert len(lines) == len(calls), "a call has a parent that was not recorded"
        return lines

    def start(self, kind: str, name: str) -> Event:
        """The first event of the only call of this kind and name."""
        return self._of(kind, name)[0]

    def end(self, kind: str, name: str) -> Event:
        """The last event of the only call of this kind and name."""
        return self._of(kind, name)[-1]

    def _of(self, kind: str, name: str) -> list[Event]:
        (call_id,) = [key for key, call in self.calls().items() if (call.kind, call.name) == (kind, name)]
        return [event for event in self.events() if event.call_id == call_id]


@contextmanager
def recording(folder: Path, **options: str) -> Iterator[Recorded]:
    """Record the block into a journal of its own."""
    before = recorder_module._process_recorder
    journal = MemoryJournal()
    settings = Settings(journal="memory://", outbox=str(folder / "outbox.db"), **options)  # type: ignore[arg-type]
    recorder = configure(journal, settings=settings)
    try:
        yield Recorded(journal, recorder)
    finally:
        recorder.close()
        recorder_module._process_recorder = before
