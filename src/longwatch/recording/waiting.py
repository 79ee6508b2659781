"""Records that a run waits: `with longwatch.waiting("approval", detail="deploy to production"):`."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from longwatch.recording.calls import report_fault
from longwatch.recording.decorators import ambient_scope
from longwatch.recording.scope import SCOPE, RecordingScope, new_call_id


class ActiveWait:
    """A wait of a run. Code that starts and ends it in two places calls `begin` and `end`."""

    def __init__(
        self, reason: str, *, detail: str | None = None, scope: RecordingScope | None = None
    ) -> None:
        self.reason = reason
        self.detail = detail
        self._scope = scope
        self._call_id: str | None = None
        self._started = 0.0  # monotonic seconds

    def begin(self) -> Self:
        """Record that the wait begins. A wait that has begun does not change. Never raises."""
        try:
            scope = self._scope or SCOPE.get() or ambient_scope()
            if scope is not None and self._call_id is None:
                self._scope, self._call_id = scope, new_call_id()
                self._started = scope.recorder.clock.monotonic()
                self._record(scope, "waiting_started", {"reason": self.reason, "detail": self.detail})
        except Exception as error:  # noqa: BLE001 - recording never breaks the observed code
            report_fault(error)
        return self

    def end(self) -> None:
        """Record that the wait is over. Without a beginning, nothing is recorded. Never raises."""
        scope = self._scope
        if scope is None or self._call_id is None:
            return
        try:
            elapsed = round((scope.recorder.clock.monotonic() - self._started) * 1000)
            self._record(scope, "waiting_ended", {"reason": self.reason, "duration_ms": elapsed})
        except Exception as error:  # noqa: BLE001
            report_fault(error)
        self._call_id = None

    def _record(self, scope: RecordingScope, type: str, payload: dict[str, object]) -> None:
        scope.recorder.record(
            scope.run_id,
            type,
            {name: value for name, value in payload.items() if value is not None},
            agent_name=scope.agent_name,
            call_id=self._call_id,
            parent_call_id=scope.call_id,
            trace_id=scope.trace_id,
        )

    def __enter__(self) -> Self:
        return self.begin()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    async def __aenter__(self) -> Self:
        return self.begin()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()


def waiting(reason: str, *, detail: str | None = None) -> ActiveWait:
    """Record everything inside `with` or `async with` as a wait of the current run.

    The reason is a short text: `approval`, `answer`, `lock`, `rate limit`, `child process` or your own.
    Outside a run, nothing is recorded.
    """
    return ActiveWait(reason, detail=detail)
