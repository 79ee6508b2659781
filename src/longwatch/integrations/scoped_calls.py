"""The open calls of an SDK that reports them in the context in which they run."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from contextvars import Token

from longwatch.recording.call_tracker import CallTracker
from longwatch.recording.model_calls import MODEL_CALL_LAYER, ModelCall
from longwatch.recording.open_call import Failure
from longwatch.recording.scope import SCOPE, RecordingScope


class ScopedCalls:
    """A `CallTracker` that also makes each call the scope of what runs inside it. No method raises."""

    def __init__(self, recorded_by: str) -> None:
        self._tracker = CallTracker(recorded_by)
        self._tokens: dict[Hashable, Token[RecordingScope | None]] = {}
        self.chunk = self._tracker.chunk

    def begin(
        self,
        key: Hashable,
        kind: str,
        name: str,
        *,
        parent: Hashable | None = None,
        input: object = None,
        fields: Mapping[str, object] | None = None,
        is_entered: bool = True,
    ) -> None:
        """Record the start of a call, and enter it unless its end is reported in another context."""
        self._tracker.begin(key, kind, name, parent=parent, input=input, fields=fields)
        scope = self._tracker.scope_of(key)
        if isinstance(scope, ModelCall):
            MODEL_CALL_LAYER.set(scope)  # has no effect once the call has ended
        elif scope is not None and is_entered:
            self._tokens[key] = SCOPE.set(scope)

    def end(
        self,
        key: Hashable,
        *,
        output: object = None,
        error: Failure | None = None,
        fields: Mapping[str, object] | None = None,
    ) -> None:
        """Leave a call and record its end."""
        token = self._tokens.pop(key, None)
        if token is not None:
            try:
                SCOPE.reset(token)
            except ValueError:  # the end is reported in another context, which has no further use
                pass
        self._tracker.end(key, output=output, error=error, fields=fields)

    def is_open(self, key: Hashable) -> bool:
        """Whether the call has begun and not ended."""
        return self._tracker.scope_of(key) is not None
