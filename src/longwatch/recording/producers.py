"""A producer is one recorder in one process for one run: it numbers its events and chains their digests.

Used by the writer thread alone, so nothing here is locked.
"""

from __future__ import annotations

import logging
import secrets
from dataclasses import dataclass

from longwatch.errors import InvalidEvent
from longwatch.events import Event
from longwatch.journal.codec import digest, encode_payload
from longwatch.recording.redaction import may_hold_secret, redact
from longwatch.recording.truncation import fitted

log = logging.getLogger("longwatch")

CLOSED = "producer_closed"


@dataclass(frozen=True, slots=True)
class Note:
    """What the observed code handed over: everything but the number, the digest and the id."""

    run_id: str
    type: str
    occurred_at: int  # epoch milliseconds
    payload: dict[str, object]
    agent_name: str | None = None
    call_id: str | None = None
    parent_call_id: str | None = None
    trace_id: str | None = None
    weight: int = 0  # bytes that count against the queue


class Producer:
    """Turns the notes of one run into events, in the order they were handed over."""

    def __init__(self, run_id: str, *, max_payload_bytes: int) -> None:
        self.run_id = run_id
        self.name = secrets.token_hex(6)
        self._max_payload_bytes = max_payload_bytes
        self._number = 0
        self._previous: str | None = None

    def event(self, note: Note, *, ttl_seconds: int | None) -> Event:
        """The next event of this producer."""
        payload, text = self._storable(note)
        self._number += 1
        event = Event(
            run_id=note.run_id,
            event_id=f"{note.occurred_at:012x}{self.name}{self._number:08x}",
            type=note.type,
            occurred_at=note.occurred_at,
            agent_name=note.agent_name,
            payload=payload,
            call_id=note.call_id,
            parent_call_id=note.parent_call_id,
            producer=self.name,
            number=self._number,
            previous_digest=self._previous,
            trace_id=note.trace_id,
            ttl=note.occurred_at // 1000 + ttl_seconds if ttl_seconds else None,
            encoded=text,
        )
        self._previous = digest(event)
        return event

    def closing(self, occurred_at: int, *, ttl_seconds: int | None) -> Event:
        """The last event: it states how many there are, itself included."""
        note = Note(self.run_id, CLOSED, occurred_at, {"count": self._number + 1})
        return self.event(note, ttl_seconds=ttl_seconds)

    def _storable(self, note: Note) -> tuple[dict[str, object], str]:
        try:
            text = encode_payload(note.payload)
        except (
            InvalidEvent
        ) as error:  # capture lets nothing through but what the codec does not expect either
            log.warning("the payload of a %s event cannot be stored: %s", note.type, error)
            gist: dict[str, object] = {
                "unstorable": repr(note.payload).encode(errors="replace").decode()[:2000]
            }
            return gist, encode_payload(gist)
        payload = note.payload
        if may_hold_secret(text):
            clean = {str(key): redact(value) for key, value in payload.items()}
            if clean != payload:
                payload, text = clean, encode_payload(clean)
        kept, text = fitted(payload, text, self._max_payload_bytes)
        return dict(kept) if kept is not payload else payload, text
