"""The spans of this process that have not ended yet: which run each belongs to, and what it is a part of.

Every span is tracked, also those that are not recorded, because a recorded one may be inside them.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from longwatch.integrations.genai import SpanKind
from longwatch.recording.recorder import Recorder
from longwatch.recording.scope import RecordingScope

MAX_OPEN_SPANS = 10_000  # spans that never end are forgotten, the oldest first

Key = tuple[int, int]  # trace id and span id


@dataclass(frozen=True, slots=True)
class RootEnd:
    """How the first span of a trace ended."""

    at: int  # epoch milliseconds
    failure: str | None


@dataclass(slots=True, kw_only=True)
class SpanRun:
    """The run that spans are recorded in: somebody else's, or a trace that is a run of its own."""

    recorder: Recorder
    run_id: str
    root: Key | None = None  # the trace's first span in this process; None if the run is somebody else's
    name: str = ""
    started_at: int | None = None  # epoch milliseconds
    root_end: RootEnd | None = None
    open_spans: int = 0
    begun: bool = False
    ended: bool = False


@dataclass(slots=True, kw_only=True)
class OpenSpan:
    """A span that has not ended yet."""

    run: SpanRun
    recorded_as: SpanKind | None = None
    parent_call_id: str | None = None  # the nearest call around it that is recorded
    call_id: str | None = (
        None  # its own once it is recorded, else its parent's: what is inside is part of that
    )
    agent_name: str | None = None
    scope_call_id: str | None = None  # the longwatch call in which it was started


class OpenSpans:
    """Safe to use from every thread; no method waits for anything but another one of these."""

    def __init__(self, *, max_open: int = MAX_OPEN_SPANS) -> None:
        self._max_open = max_open
        self._lock = threading.Lock()
        self._spans: OrderedDict[Key, OpenSpan] = OrderedDict()
        self._runs: dict[int, SpanRun] = {}  # traces that are runs of their own

    def enter(
        self,
        key: Key,
        parent: Key | None,
        scope: RecordingScope | None,
        run_for: Callable[[SpanRun | None], SpanRun],
    ) -> OpenSpan:
        """A span started. `run_for` chooses its run, given the one of the span around it or of its trace."""
        with self._lock:
            outer = self._spans.get(parent) if parent is not None else None
            run = run_for(outer.run if outer is not None else self._runs.get(key[0]))
            if run.root is not None:
                self._runs[key[0]] = run
            run.open_spans += 1
            span = _placed(run, outer, scope)
            self._spans[key] = span
            return span

    def leave(self, key: Key) -> OpenSpan | None:
        """A span ended; None if nobody knows it. Call `left` when its end has been recorded."""
        with self._lock:
            return self._spans.pop(key, None)

    def left(self, key: Key, run: SpanRun) -> bool:
        """The end of a span was recorded. Whether it was the last that was open of its run."""
        with self._lock:
            return self._without(key, run)

    def forget_oldest(self) -> SpanRun | None:
        """Keep memory bounded. Returns a run that this leaves without any span, for somebody to end."""
        with self._lock:
            if len(self._spans) <= self._max_open:
                return None
            key, span = self._spans.popitem(last=False)
            return span.run if self._without(key, span.run) else None

    def take_runs(self) -> list[SpanRun]:
        """Forget everything; returns the runs of traces that were still open."""
        with self._lock:
            runs, self._runs = list(self._runs.values()), {}
            self._spans.clear()
            return runs

    def begins(self, run: SpanRun) -> bool:
        """Whether the caller is to record the run's beginning: it is a trace, and nobody has."""
        with self._lock:
            first = run.root is not None and not run.begun
            run.begun = run.begun or first
            return first

    def ends(self, run: SpanRun) -> bool:
        """Whether the caller is to record the run's end: it has begun, and nobody has."""
        with self._lock:
            first = run.begun and not run.ended
            run.ended = run.ended or first
            return first

    def _without(self, key: Key, run: SpanRun) -> bool:
        run.open_spans -= 1
        if run.open_spans == 0 and self._runs.get(key[0]) is run:
            del self._runs[key[0]]
        return run.open_spans == 0


def _placed(run: SpanRun, outer: OpenSpan | None, scope: RecordingScope | None) -> OpenSpan:
    """Where a span stands: in the span around it, or in a longwatch call that was made inside that one."""
    scope_call_id = scope.call_id if scope is not None else None
    if (
        outer is not None
        and outer.run.run_id == run.run_id
        and (scope is None or outer.scope_call_id == scope_call_id)
    ):
        around, agent_name = outer.call_id, outer.agent_name
    else:
        around, agent_name = scope_call_id, scope.agent_name if scope is not None else None
    return OpenSpan(
        run=run,
        parent_call_id=around,
        call_id=around,
        agent_name=agent_name,
        scope_call_id=scope_call_id,
    )
