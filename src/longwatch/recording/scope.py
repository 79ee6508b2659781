"""The run, agent and call that the current code belongs to, in a context variable.

Everything that decorates functions loads this module, so it imports little.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from longwatch.recording.capture import CaptureLimits
    from longwatch.recording.recorder import Recorder

RUN_ID_VARIABLE = "LONGWATCH_RUN_ID"
ATTEMPT_VARIABLE = "LONGWATCH_ATTEMPT"  # the attempt at the run in `LONGWATCH_RUN_ID`
ATTEMPT_DIGITS = 8
STATE_KEY = "longwatch"  # of the entry with the run id in a W3C `tracestate`


class RecordingScope:
    """Where the events of the current code are recorded."""

    __slots__ = ("agent_name", "call_id", "limits", "recorder", "run_id", "trace_id")

    def __init__(
        self,
        recorder: Recorder,
        run_id: str,
        trace_id: str | None,
        limits: CaptureLimits | None,
        agent_name: str | None = None,
        call_id: str | None = None,
    ) -> None:
        self.recorder = recorder
        self.run_id = run_id
        self.trace_id = trace_id
        self.limits = limits
        self.agent_name = agent_name
        self.call_id = call_id

    def record(self, type: str, payload: Mapping[str, object], *, occurred_at: int | None = None) -> None:
        """Queue an event of this run, agent and call."""
        self.recorder.record(
            self.run_id,
            type,
            payload,
            agent_name=self.agent_name,
            parent_call_id=self.call_id,
            trace_id=self.trace_id,
            occurred_at=occurred_at,
        )


SCOPE: ContextVar[RecordingScope | None] = ContextVar("longwatch_scope", default=None)


class _CallIds:
    """Makes ids unique across processes: eight random hex digits, then a count. As long as a span id."""

    def __init__(self) -> None:
        self.renew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.renew)

    def renew(self) -> None:
        self._prefix = os.urandom(4).hex()
        self._count = itertools.count(1)

    def __call__(self) -> str:
        return f"{self._prefix}{next(self._count):08x}"


new_call_id = _CallIds()


def new_run_id() -> str:
    """`wf-` and 12 hex digits. With eight, two of some 77,000 runs would probably share an id."""
    return f"wf-{os.urandom(6).hex()}"


def new_attempt() -> str:
    """Eight hex digits, which identify an attempt within its run."""
    return os.urandom(ATTEMPT_DIGITS // 2).hex()


def is_attempt(text: str) -> bool:
    return len(text) == ATTEMPT_DIGITS and set(text) <= set("0123456789abcdef")


def attempt_from_environment(run_id: str) -> str | None:
    """The attempt at this run that the environment names, if any."""
    attempt = os.environ.get(ATTEMPT_VARIABLE)
    if attempt is None or os.environ.get(RUN_ID_VARIABLE) != run_id or not is_attempt(attempt):
        return None
    return attempt


def new_trace_id() -> str:
    """32 lowercase hex digits, as OpenTelemetry writes them."""
    return os.urandom(16).hex()


def trace_id_of(traceparent: str | None) -> str | None:
    """The trace id in a W3C `traceparent` (`00-<32 hex>-<16 hex>-<2 hex>`); None if it is invalid."""
    parts = (traceparent or "").strip().lower().split("-")
    if len(parts) < 4 or len(parts[0]) != 2 or len(parts[1]) != 32 or len(parts[2]) != 16:
        return None
    if set(parts[1]) - set("0123456789abcdef") or set(parts[1]) == {"0"}:
        return None
    return parts[1]


class EventDraft(NamedTuple):
    """An event as the observed code queues it, without number, digest and id."""

    run_id: str
    type: str
    occurred_at: int  # epoch milliseconds
    payload: dict[str, object]
    agent_name: str | None = None
    call_id: str | None = None
    parent_call_id: str | None = None
    trace_id: str | None = None
    weight: int = 0  # bytes that count against the queue
    fixed: Mapping[str, object] | None = None  # `process` and `attempt`: never redacted or truncated
