"""The tool that records a note about a run. The only one that writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from longwatch.model.event import Event, new_event_id
from longwatch.model.json_schema import STRICT
from longwatch.model.preview import one_line
from longwatch.server.event_intake import IncomingEvent
from longwatch.server.mcp.box import ToolBox
from longwatch.server.mcp.results import MAX_NAME, NoteRecorded
from longwatch.server.mcp.runs import RunName

MAX_NOTE = 10_000  # characters
NOTE = "operator_note"  # an observer's event: never a sign of activity


@dataclass(frozen=True, kw_only=True)
class RecordNote:
    """Arguments of `record_note`."""

    __pydantic_config__ = STRICT

    run: RunName
    text: Annotated[str, Field(min_length=1, max_length=MAX_NOTE, description="The note.")]


async def record_note(box: ToolBox, given: RecordNote) -> NoteRecorded:
    """Append a note to the events of an existing run. Secrets in it are redacted."""
    context = box.context
    run_id = (await box.find(given.run)).run_id
    now = context.clock.now_ms()
    ttl = context.journal.default_ttl_seconds
    event = Event(
        run_id=run_id,
        event_id=new_event_id(now),
        type=NOTE,
        occurred_at=now,
        payload={"text": given.text, "by": one_line(box.client, MAX_NAME)},
        ttl=None if ttl is None else now // 1000 + ttl,
    )
    await context.call(context.event_intake.append, [IncomingEvent(event, True)], now_ms=now)
    await context.run_cache.catch_up(run_id)
    return NoteRecorded(run_id=run_id, event_id=event.event_id)
