"""What the observed code hands over to the recorder. Light, for it is loaded by everything that decorates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class EventDraft(NamedTuple):
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
    fixed: Mapping[str, object] | None = None  # `process` and `attempt`: never redacted, never cut
