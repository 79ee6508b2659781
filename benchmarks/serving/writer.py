"""Appends an event ten times a second: `python -m benchmarks.serving.writer FILE RUN`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from benchmarks.serving.peers import EVENTS_PER_SECOND, FILLING

from longwatch.journal.sqlite import SqliteJournal
from longwatch.model.event import Event, new_event_id


def write(path: str, run_id: str) -> None:
    """Until it is ended."""
    with SqliteJournal(Path(path)) as journal:
        due, number = time.monotonic(), 0
        while True:
            number += 1
            at = time.time_ns() // 1_000_000
            payload = {"sent": time.time(), "text": FILLING}
            journal.append(
                [
                    Event(
                        run_id=run_id,
                        event_id=new_event_id(at),
                        type="tool_call",
                        occurred_at=at,
                        payload=payload,
                        producer="bench",
                        number=number,
                    )
                ]
            )
            due += 1 / EVENTS_PER_SECOND
            time.sleep(max(0.0, due - time.monotonic()))


if __name__ == "__main__":
    write(sys.argv[1], sys.argv[2])
