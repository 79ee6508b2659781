"""Marks model calls that arrive over OTLP and are recorded already, so that totals count each once.

Two instrumentations may make a span of one call, a span and a log event may describe it, and the program may
record it through an adapter too. Records of one call share its ID or the response ID of the provider. Spans
of one response overlap; otherwise a server reuses its few IDs.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from longwatch.journal.base import Journal
from longwatch.model.event import START, Cursor, Event, tool_status
from longwatch.model.model_calls import CountedCall, ModelFacts, Repeat

MAX_REMEMBERED = 50_000  # ends of calls; the runs that were used last stay
OWN_RUN = "trace-"  # prefix of runs to which programs without a recorder write, through this server


@dataclass(slots=True)
class RunResponses:
    """The ends of the model calls of one run."""

    cursor: Cursor = START
    is_read: bool = False
    starts: dict[str, int] = field(default_factory=dict)
    by_call: dict[str, CountedCall] = field(default_factory=dict)
    by_response: dict[str, CountedCall] = field(default_factory=dict)
    decided: dict[str, Repeat] = field(default_factory=dict)  # by event id: a batch may be sent again

    def add_stored(self, event: Event) -> None:
        """Take over an event of the journal."""
        facts = self._facts(event)
        if facts is None or event.event_id in self.decided:
            return
        self._decide(event, facts, Repeat(facts.same_as, facts.adds_usage is True))

    def repeat_of(self, event: Event) -> Repeat:
        """Whether a new event repeats an earlier one."""
        facts = self._facts(event)
        if facts is None:
            return Repeat()
        known = self.decided.get(event.event_id)
        return known if known is not None else self._decide(event, facts, self._find(event, facts))

    def _facts(self, event: Event) -> ModelFacts | None:
        """What the end of a model call states; None for other events."""
        if event.type != "model_call" or event.call_id is None:
            return None
        if tool_status(event.payload) != "started":
            return ModelFacts.of(event.payload)
        self.starts[event.call_id] = event.occurred_at
        return None

    def _find(self, event: Event, facts: ModelFacts) -> Repeat:
        record = self._record(event, facts)
        known = self.by_call.get(record.call_id)
        if known is not None:
            return known.repeated_by(record)
        known = self.by_response.get(facts.response_id or "")
        return Repeat() if known is None or not known.shares_call(record) else known.repeated_by(record)

    def _decide(self, event: Event, facts: ModelFacts, repeat: Repeat) -> Repeat:
        self.decided[event.event_id] = repeat
        record = self._record(event, facts)
        self.starts.pop(record.call_id, None)
        if repeat.same_as is None:
            self.by_call[record.call_id] = record
            if facts.response_id:
                self.by_response[facts.response_id] = record
        elif repeat.adds_usage and repeat.same_as in self.by_call:
            self.by_call[repeat.same_as].has_tokens = True
        return repeat

    def _record(self, event: Event, facts: ModelFacts) -> CountedCall:
        call_id = event.call_id or ""
        at = event.occurred_at
        return CountedCall.of(call_id, facts, self.starts.get(call_id, at), at)


class RepeatedResponses:
    """The model calls of runs that arrive over OTLP. Threads may share it."""

    def __init__(self, journal: Journal, *, max_remembered: int = MAX_REMEMBERED) -> None:
        self._journal = journal
        self._max_remembered = max_remembered
        self._lock = threading.Lock()
        self._runs: OrderedDict[str, RunResponses] = OrderedDict()  # the least recently used first

    def marked(self, events: Sequence[Event]) -> list[Event]:
        """The events, with marks on repeated calls. Call `forget` if they cannot be stored."""
        run_ids = dict.fromkeys(event.run_id for event in events if event.type == "model_call")
        if not run_ids:
            return list(events)
        with self._lock:
            runs = {run_id: self._read(run_id) for run_id in run_ids}
            found = [
                _marked(event, runs[event.run_id]) if event.run_id in runs else event for event in events
            ]
            self._drop_oldest()
        return found

    def forget(self, events: Iterable[Event]) -> None:
        """These events were not stored: read their runs again."""
        with self._lock:
            for event in events:
                self._runs.pop(event.run_id, None)

    def _read(self, run_id: str) -> RunResponses:
        """The run, with what is stored of it by now. Nothing else writes to a trace that is a run."""
        run = self._runs.pop(run_id, None) or RunResponses()
        self._runs[run_id] = run
        if run.is_read and run_id.startswith(OWN_RUN):
            return run
        if run.is_read or self._journal.find_run(run_id) is not None:
            more = True
            while more:
                page = self._journal.read(run_id, after=run.cursor)
                for event in page.events:
                    run.add_stored(event)
                run.cursor, more = page.cursor, page.more
        run.is_read = True
        return run

    def _drop_oldest(self) -> None:
        size = sum(len(run.decided) for run in self._runs.values())
        while size > self._max_remembered and len(self._runs) > 1:
            _, run = self._runs.popitem(last=False)
            size -= len(run.decided)


def _marked(event: Event, run: RunResponses) -> Event:
    repeat = run.repeat_of(event)
    if repeat.same_as is None:
        return event
    return replace(event, payload={**event.payload, **repeat.fields()}, encoded=None)
