"""The part of the demo in which a coding agent executes one turn and writes files."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from longwatch.cli.demo.part import DemoPart
from longwatch.clock import Clock
from longwatch.journal.base import Journal
from longwatch.recording.active_run import this_process
from longwatch.settings import Settings

if TYPE_CHECKING:
    from longwatch.documents.store import DocumentStore
    from longwatch.turns import Conversations

PROJECT = "demo"
PROMPT = "Turn the market brief into a page that people can read, and keep your notes beside it."


STREAM_SECONDS = 0.2  # between the batches of a message that streams, at the normal pace


@dataclass(frozen=True, slots=True)
class ScriptedBlock:
    """A file that the agent writes and the lines that it prints, after a pause."""

    seconds: float  # at the normal pace
    lines: tuple[dict[str, object], ...] = ()
    file: tuple[str, str] | None = None  # path and text
    streams: str = ""  # the text of the message, printed word by word during the pause


class Session(DemoPart):
    """Plays the turn as its executor would, and writes the files."""

    def __init__(self, journal: Journal, settings: Settings, clock: Clock, *, pace: float) -> None:
        super().__init__(self._run_session, pace=pace)
        self._journal = journal
        self._settings = settings
        self._clock = clock
        self.session_id = f"brief-{os.urandom(3).hex()}"
        self.path = f"projects/{PROJECT}/sessions/{self.session_id}"

    def _run_session(self) -> None:
        from longwatch.documents.stores.factory import open_documents
        from longwatch.turns import Conversations

        with open_documents(settings=self._settings, clock=self._clock) as documents:
            conversations = Conversations(self._journal, self._clock, settings=self._settings)
            self._run_turn(conversations, documents)

    def _run_turn(self, conversations: Conversations, documents: DocumentStore) -> None:
        conversations.create_project(PROJECT)
        conversations.create_conversation(PROJECT, self.session_id, "Publish the brief")
        turn_id = conversations.create_turn(PROJECT, self.session_id, PROMPT).turn_id
        conversations.start(
            PROJECT, self.session_id, turn_id, executor="longwatch demo", process=this_process()
        )

        for step in SCRIPT:
            for fragments in _batches(step):
                if self._stopped.wait(STREAM_SECONDS * self._pace):
                    break
                conversations.feed(
                    PROJECT, self.session_id, turn_id, [json.dumps(each) for each in fragments]
                )
            if self._stopped.wait(0.0 if step.streams else step.seconds * self._pace):
                conversations.interrupt(PROJECT, self.session_id, turn_id, "the demo was stopped")
                return
            if step.file is not None:
                documents.write_text(PROJECT, *step.file)
            conversations.feed(PROJECT, self.session_id, turn_id, [json.dumps(line) for line in step.lines])


def _batches(step: ScriptedBlock) -> Iterator[list[dict[str, object]]]:
    """The fragments of a message in as many batches as fit into the time of the step."""
    words = [f"{word} " for word in step.streams.split()]
    size = max(1, math.ceil(len(words) * STREAM_SECONDS / step.seconds))
    started = {"type": "content_block_start", "content_block": {"type": "text", "text": ""}}
    for first in range(0, len(words), size):
        deltas = ({"type": "text_delta", "text": word} for word in words[first : first + size])
        events = [{"type": "content_block_delta", "delta": delta} for delta in deltas]
        batch = events if first else [started, *events]
        yield [{"type": "stream_event", "event": event} for event in batch]


def _says(*items: dict[str, object]) -> dict[str, object]:
    return {"type": "assistant", "message": {"content": list(items)}}


def _thinking(text: str) -> dict[str, object]:
    return {"type": "thinking", "thinking": text}


def _text(text: str) -> dict[str, object]:
    return {"type": "text", "text": text}


def _use(use_id: str, name: str, **parameters: object) -> dict[str, object]:
    return {"type": "tool_use", "id": use_id, "name": name, "input": parameters}


def _result(use_id: str, text: str, *, error: bool = False) -> dict[str, object]:
    item = {"type": "tool_result", "tool_use_id": use_id, "content": text, "is_error": error}
    return {"type": "user", "message": {"content": [item]}}


_TITLE = "# The Nordic power market\n"
_PRICES = "\nPrices in the south rise for the third week.\n"
_NEWS = "\nReservoirs stand at 71 per cent, and the cable to Denmark is back.\n"
_LOAD = "\nLoad follows the cold: 720 hours of it are in the warehouse.\n"
_NOTES, _PAGE = "notes/outline.md", "pages/brief.md"
_DONE = (
    f"The page is in {_PAGE}, my notes are in {_NOTES}. Prices rise for the third week, so I put them first; "
    "the news and the load follow in the order of the outline. The feed timed out once, and the second "
    "attempt succeeded."
)

_REPORT: dict[str, object] = {
    "type": "result",
    "is_error": False,
    "result": "published",
    "duration_ms": 7_000,
    "total_cost_usd": 0.031,
    "usage": {"input_tokens": 2_310, "cache_read_input_tokens": 9_200, "output_tokens": 640},
}

SCRIPT = (
    ScriptedBlock(0.4, (_says(_thinking("Prices, news and load. A short outline first, then the page.")),)),
    ScriptedBlock(0.7, (_says(_text("I begin with an outline."), _use("t1", "write_file", path=_NOTES)),)),
    ScriptedBlock(
        0.5, (_result("t1", "34 bytes written"),), (_NOTES, "# Outline\n\n- prices\n- news\n- load\n")
    ),
    ScriptedBlock(0.5, (_says(_use("t2", "read_prices", area="NO2", days=30)),)),
    ScriptedBlock(0.8, (_result("t2", "FeedTimeout: no response in 800 ms", error=True),)),
    ScriptedBlock(
        0.4,
        (
            _says(
                _text("The feed timed out. I retry."),
                _use("t3", "read_prices", area="NO2", days=30),
            ),
        ),
    ),
    ScriptedBlock(0.9, (_result("t3", "mean 46.12, rising"),)),
    ScriptedBlock(0.3, (_says(_use("t4", "write_file", path=_PAGE)),)),
    ScriptedBlock(0.5, (), (_PAGE, _TITLE + _PRICES)),
    ScriptedBlock(0.6, (), (_PAGE, _TITLE + _PRICES + _NEWS)),
    ScriptedBlock(0.6, (_result("t4", "the page is written"),), (_PAGE, _TITLE + _PRICES + _NEWS + _LOAD)),
    ScriptedBlock(1.6, (_says(_text(_DONE)),), streams=_DONE),
    ScriptedBlock(0.2, (_REPORT,)),
)
