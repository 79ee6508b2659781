"""Makes the events of conversations and turns, redacted and truncated like those of a recorder."""

from __future__ import annotations

from collections.abc import Mapping

from longwatch.journal.base import Journal
from longwatch.journal.codec import encode_payload
from longwatch.model.event import Event
from longwatch.recording.capture import FULL, capture_fields
from longwatch.recording.producers import clean_payload, unredacted_fields
from longwatch.recording.redaction import redact_text
from longwatch.recording.secret_names import SecretNames
from longwatch.settings import MAX_PAYLOAD_BYTES, Settings, lifetime_seconds

FIXED_BYTES = 500  # reserved for the fields that are never truncated


class EventMaker:
    def __init__(self, journal: Journal, settings: Settings | None = None) -> None:
        self._secrets = SecretNames(settings.redact_keys if settings is not None else ())
        self._max_bytes = settings.max_payload_bytes if settings is not None else MAX_PAYLOAD_BYTES
        hours = settings.ttl_hours if settings is not None else None
        self.ttl_seconds = lifetime_seconds(hours, journal.default_ttl_seconds)

    def redact(self, text: str) -> str:
        """The text without secrets, as an event would store it."""
        return redact_text(text, self._secrets)

    def event(
        self,
        run_id: str,
        event_id: str,
        type: str,
        at: int,
        fields: Mapping[str, object],
        *,
        fixed: Mapping[str, object] | None = None,
        call_id: str | None = None,
        parent_call_id: str | None = None,
        expires: bool = True,
    ) -> Event:
        """Make an event. The small `fixed` fields of longwatch are neither redacted nor truncated."""
        captured, weight = capture_fields(fields, FULL, self._secrets, unredacted_fields(type))
        payload, text = clean_payload(captured, self._max_bytes - FIXED_BYTES, weight)
        if fixed:
            payload = {**payload, **fixed}
            text = encode_payload(payload)
        ttl = at // 1000 + self.ttl_seconds if expires and self.ttl_seconds else None
        return Event(
            run_id=run_id,
            event_id=event_id,
            type=type,
            occurred_at=at,
            payload=payload,
            call_id=call_id,
            parent_call_id=parent_call_id,
            ttl=ttl,
            encoded=text,
        )
