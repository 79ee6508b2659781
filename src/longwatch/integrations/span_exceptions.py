"""The exceptions behind the errors of OpenAI Agents' spans.

A span's error has a message for people who read traces: the SDK redacts what a tool raised unless the tool
has an error function of its own, and leaves some failures of agents and all cancellations out. The exception
itself is being handled when a span is given its error, and when it ends.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from agents.tracing.spans import SpanImpl

from longwatch.integrations.untraced_spans import UntracedSpan

MAX_SPANS = 10_000  # open spans with an exception; beyond that the oldest are dropped


class SpanExceptions:
    """The exceptions of open spans, by the span's ID."""

    def __init__(self) -> None:
        self._outer: dict[str, BaseException] = {}  # handled by the code around a span
        self._raised: dict[str, BaseException] = {}

    def start(self, span_id: str) -> None:
        """Note what is being handled around the span, which does not fail it."""
        _put(self._outer, span_id)

    def note(self, span_id: str) -> None:
        """Note what was raised inside the span, if it is being handled now."""
        if sys.exception() is not self._outer.get(span_id):
            _put(self._raised, span_id)

    def end(self, span_id: str) -> BaseException | None:
        """What was raised inside the span, at its end."""
        self.note(span_id)
        self._outer.pop(span_id, None)
        return self._raised.pop(span_id, None)


def _put(exceptions: dict[str, BaseException], span_id: str) -> None:
    error = sys.exception()
    if error is not None:
        exceptions[span_id] = error
        if len(exceptions) > MAX_SPANS:
            exceptions.pop(next(iter(exceptions)), None)


def note_exceptions(exceptions: SpanExceptions) -> None:
    """Note the exception whenever a span is given an error."""
    for kind in (SpanImpl, UntracedSpan):
        kind.set_error = _noting(kind.set_error, exceptions)  # type: ignore[method-assign]


def _noting(set_error: Callable[..., None], exceptions: SpanExceptions) -> Callable[..., None]:
    @functools.wraps(set_error)
    def noting(self: Any, error: Any) -> None:
        exceptions.note(self.span_id)
        set_error(self, error)

    return noting
