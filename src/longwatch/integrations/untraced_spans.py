"""Shows the adapter of OpenAI Agents the spans of runs whose tracing is disabled.

The SDK then creates spans that reach no processor, and its run hooks are called in tasks of their own, so
they cannot make an agent or a model the scope of what runs inside. The spans here reach the adapter alone:
they remain no-ops for the SDK, so nothing is exported, neither they nor the spans inside them.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

from agents.tracing import Span, SpanError, TracingProcessor, get_trace_provider
from agents.tracing.scope import Scope
from agents.tracing.spans import NoOpSpan

_numbers = itertools.count(1)


class UntracedSpan(NoOpSpan[Any]):
    """A span that is not traced, with an id, a parent and an error as one that is."""

    __slots__ = ("_error", "_number", "_parent_id", "_processor")

    def __init__(self, data: Any, parent: Span[Any] | None, processor: TracingProcessor) -> None:
        super().__init__(data)
        self._number = next(_numbers)
        self._parent_id = None if parent is None else parent.span_id
        self._processor = processor
        self._error: SpanError | None = None

    @property
    def span_id(self) -> str:
        return f"untraced-{self._number}"

    @property
    def parent_id(self) -> str | None:
        return self._parent_id

    @property
    def error(self) -> SpanError | None:
        return self._error

    def set_error(self, error: SpanError) -> None:
        self._error = error

    def start(self, mark_as_current: bool = False) -> None:
        self._processor.on_span_start(self)
        super().start(mark_as_current)

    def finish(self, reset_current: bool = False) -> None:
        self._processor.on_span_end(self)
        super().finish(reset_current)


def show_untraced_spans(processor: TracingProcessor, is_recorded: Callable[[], bool]) -> None:
    """Let the processor see spans that are not traced, where `is_recorded`."""
    provider: Any = get_trace_provider()
    create_span = provider.create_span

    @functools.wraps(create_span)
    def create(span_data: Any, span_id: Any = None, parent: Any = None, disabled: bool = False) -> Span[Any]:
        span: Span[Any] = create_span(span_data, span_id, parent, disabled)
        if type(span) is not NoOpSpan or not is_recorded():
            return span
        outer = parent if isinstance(parent, Span) else Scope.get_current_span()
        return UntracedSpan(span_data, outer, processor)

    provider.create_span = create
