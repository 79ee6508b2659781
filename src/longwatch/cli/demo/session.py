"""A session beside the workflow: one turn of a coding agent, with blocks, and files that grow meanwhile."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from longwatch.clock import Clock
from longwatch.errors import LongwatchError
from longwatch.journal.base import Journal
from longwatch.recording.active_run import this_process
from longwatch.settings import Settings

if TYPE_CHECKING:
    from longwatch.documents.store import DocumentStore
    from longwatch.turns import Conversations

PROJECT = "demo"
PROMPT = "Turn the market brief into a page that people can read, and keep your notes beside it."
JOIN_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class ScriptedBlock:
    """After so many seconds at the pace for people: a file is written, then lines are said."""

    seconds: float
    lines: tuple[dict[str, object], ...] = ()
    file: tuple[str, str] | None = None  # path and text


class Session:
    """Plays the turn in a thread. It writes as an executor and a writer of files would."""

    def __init__(self, journal: Journal, settings: Settings, clock: Clock, *, pace: float) -> None:
        self._journal = journal
        self._settings = settings
        self._clock = clock
        self._pace = pace
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._play, name="demo-session", daemon=True)
        self.session_id = f"brief-{os.urandom(3).hex()}"
        self.error: LongwatchError | None = None

    @property
    def path(self) -> str:
        """Where the page shows it."""
        return f"projects/{PROJECT}/sessions/{self.session_id}"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the turn where it is."""
        self._stopped.set()
        self.join()

    def join(self) -> None:
        self._thread.join(JOIN_SECONDS)

    def _play(self) -> None:
        from longwatch.documents.stores.factory import open_documents
        from longwatch.turns import Conversations

        try:
            with open_documents(settings=self._settings, clock=self._clock) as documents:
                conversations = Conversations(self._journal, self._clock, settings=self._settings)
                self._turn(conversations, documents)
        except LongwatchError as error:
            self.error = error  # the workflow goes on; whoever watches tells it

    def _turn(self, conversations: Conversations, documents: DocumentStore) -> None:
        conversations.create_project(PROJECT)
        conversations.create_conversation(PROJECT, self.session_id, "Publish the brief")
        turn_id = conversations.create_turn(PROJECT, self.session_id, PROMPT).turn_id
        conversations.start(
            PROJECT, self.session_id, turn_id, executor="longwatch demo", process=this_process()
        )

        for step in STEPS:
            if self._stopped.wait(step.seconds * self._pace):
                conversations.interrupt(PROJECT, self.session_id, turn_id, "the demo was stopped")
                return
            if step.file is not None:
                documents.write_text(PROJECT, *step.file)
            conversations.feed(PROJECT, self.session_id, turn_id, [json.dumps(line) for line in step.lines])


def _said(*items: dict[str, object]) -> dict[str, object]:
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

STEPS = (
    ScriptedBlock(0.4, (_said(_thinking("Prices, news and load. A short outline first, then the page.")),)),
    ScriptedBlock(0.7, (_said(_text("I begin with an outline."), _use("t1", "write_file", path=_NOTES)),)),
    ScriptedBlock(
        0.5, (_result("t1", "34 bytes written"),), (_NOTES, "# Outline\n\n- prices\n- news\n- load\n")
    ),
    ScriptedBlock(0.5, (_said(_use("t2", "read_prices", area="NO2", days=30)),)),
    ScriptedBlock(0.8, (_result("t2", "FeedTimeout: no answer in 800 ms", error=True),)),
    ScriptedBlock(
        0.4, (_said(_text("The feed was away. Once more."), _use("t3", "read_prices", area="NO2", days=30)),)
    ),
    ScriptedBlock(0.9, (_result("t3", "mean 46.12, rising"),)),
    ScriptedBlock(0.3, (_said(_use("t4", "write_file", path=_PAGE)),)),
    ScriptedBlock(0.5, (), (_PAGE, _TITLE + _PRICES)),
    ScriptedBlock(0.6, (), (_PAGE, _TITLE + _PRICES + _NEWS)),
    ScriptedBlock(0.6, (_result("t4", "the page is written"),), (_PAGE, _TITLE + _PRICES + _NEWS + _LOAD)),
    ScriptedBlock(0.6, (_said(_text(f"The page is in {_PAGE}, my notes are in {_NOTES}.")),)),
    ScriptedBlock(0.2, ({"type": "result", "is_error": False, "result": "published", "duration_ms": 7000},)),
)
"""What the agent thinks, says, asks its tools for and writes."""
