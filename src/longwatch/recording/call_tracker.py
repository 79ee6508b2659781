"""Records the calls of SDKs that report them through callbacks, each with a key such as a run ID of its own.

tracker = CallTracker("langchain")
tracker.begin(run_id, "tool", "search", parent=parent_run_id, input={"query": "…"})
tracker.end(run_id, output="…")
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping

from longwatch.recording.calls import report_fault
from longwatch.recording.model_calls import ModelCall, end_layer, outer_layer
from longwatch.recording.open_call import EVENT_TYPES, VALUES, Failure, OpenCall, enclosing_scope
from longwatch.recording.scope import RecordingScope

MAX_OPEN = 10_000  # calls; beyond that the oldest are dropped, because some never end


class CallTracker:
    """The open calls of one SDK. Safe to use from every thread and task; no method raises."""

    def __init__(self, recorded_by: str, *, max_open: int = MAX_OPEN) -> None:
        self._recorded_by = recorded_by
        self._max_open = max_open
        self._lock = threading.Lock()
        self._open: OrderedDict[Hashable, OpenCall] = OrderedDict()

    def begin(
        self,
        key: Hashable,
        kind: str,
        name: str,
        *,
        parent: Hashable | None = None,
        input: object = None,
        fields: Mapping[str, object] | None = None,
    ) -> None:
        """Record the start of a call: an agent, a tool, a model or a node.

        Its parent is the open call with the key `parent`, otherwise the current scope's call. Outside any
        run, the call opens a run of its own, which ends with it. Nothing is recorded for a model call that an
        outer layer records.
        """
        try:
            if kind == "model" and outer_layer() is not None:
                return
            call = self._start(kind, name, self.scope_of(parent), input, fields or {})
            if call is not None:
                self._add(key, call)
        except Exception as error:  # noqa: BLE001 - recording never breaks the observed code
            report_fault(error)

    def end(
        self,
        key: Hashable,
        *,
        output: object = None,
        error: Failure | None = None,
        fields: Mapping[str, object] | None = None,
    ) -> None:
        """Record the end of a call. An unknown key is ignored.

        Of a model call, `fields` has the response: `usage` (a `ModelUsage`), `response_id`, `finish_reasons`.
        """
        with self._lock:
            call = self._open.pop(key, None)
        if call is not None:
            call.finish(output=output, error=error, fields=fields)

    def chunk(self, key: Hashable) -> None:
        """Count a chunk of a model's stream; the first one sets the time to the first token."""
        call = self._open.get(key)
        if isinstance(call, ModelCall):
            call.chunk()
            end_layer(call)

    def scope_of(self, key: Hashable | None) -> RecordingScope | None:
        """The scope of an open call, so that an adapter can set `SCOPE` while the body of the call runs."""
        return None if key is None else self._open.get(key)

    def _start(
        self,
        kind: str,
        name: str,
        scope: RecordingScope | None,
        input: object,
        fields: Mapping[str, object],
    ) -> OpenCall | None:
        if kind not in EVENT_TYPES:
            raise ValueError(f"Invalid kind of call {kind!r}. Use one of {', '.join(EVENT_TYPES)}.")
        found = enclosing_scope(name, scope)
        if found is None:
            return None
        outer, run = found
        values = {"input": input, "parameters": fields.get("parameters")}
        if kind != "model":
            call = OpenCall(kind, name, outer, run)
            call.start(values, fields)
            return call
        fixed = {"operation": "chat", "recorded_by": self._recorded_by, **fields}
        model = ModelCall(name, outer, {key: fixed[key] for key in fixed if key not in VALUES}, run)
        model.begin(values)
        return model

    def _add(self, key: Hashable, call: OpenCall) -> None:
        with self._lock:
            replaced = self._open.pop(key, None)
            self._open[key] = call
            dropped = self._open.popitem(last=False)[1] if len(self._open) > self._max_open else None
        for each in (replaced, dropped):
            if each is not None:
                each.finish(error="the end of the call was not reported")
