"""Builds events from spans and log records of other processes, captured and redacted as a recorder does it.

Their ids derive from the span or record, so a batch that is sent again stores nothing new.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from longwatch.model.event import Event
from longwatch.recording.capture import FULL, Capture, CaptureLimits, capture_fields, message_limits
from longwatch.recording.producers import clean_payload, unredacted_fields
from longwatch.recording.secret_names import SecretNames
from longwatch.settings import MAX_PAYLOAD_BYTES


class EventBuilder:
    """The settings that every event of a server shares."""

    def __init__(
        self,
        *,
        secrets: SecretNames,
        limits: CaptureLimits | None = FULL,
        ttl_seconds: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._limits = limits
        self._secrets = secrets
        self._ttl_seconds = ttl_seconds

    def captured(self, content: dict[str, object], *, are_messages: bool = False) -> dict[str, object]:
        """The content that the capture policy allows."""
        limits = self._limits
        if limits is None or not content:
            return {}
        return Capture(message_limits(limits) if are_messages else limits, self._secrets).fields(content)

    def event(
        self,
        run_id: str,
        source_id: str,
        type: str,
        occurred_at: int,
        payload: Mapping[str, object],
        *,
        agent_name: str | None = None,
        call_id: str | None = None,
        parent_call_id: str | None = None,
        trace_id: str | None = None,
    ) -> Event:
        """An event that `source_id` identifies among those of its millisecond."""
        copy, weight = capture_fields(payload, FULL, self._secrets, unredacted_fields(type))
        stored, text = clean_payload(copy, MAX_PAYLOAD_BYTES, weight)
        ttl_seconds = self._ttl_seconds()
        return Event(
            run_id=run_id,
            event_id=f"{occurred_at:012x}-{source_id}",
            type=type,
            occurred_at=occurred_at,
            agent_name=agent_name,
            payload=stored,
            call_id=call_id,
            parent_call_id=parent_call_id,
            trace_id=trace_id,
            ttl=occurred_at // 1000 + ttl_seconds if ttl_seconds else None,
            encoded=text,
        )
