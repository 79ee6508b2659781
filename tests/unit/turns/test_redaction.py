"""Keys to redact hide the content of a turn, and nothing by which it is found, claimed or ended."""

from __future__ import annotations

import os

import pytest

from longwatch.journal.memory import MemoryJournal
from longwatch.model.process import process_of
from longwatch.model.run import Status
from longwatch.settings import Settings
from longwatch.testing.clock import FakeClock
from longwatch.turns import Conversations
from tests.contract.turn_lines import assistant, result, text

OWN_FIELDS = (
    *("status", "kind", "name", "error_code", "written_for", "attempt", "process", "id", "host", "pid"),
    *("claim", "turn_id", "project_id", "conversation_id", "number", "reported", "line_number", "ended_at"),
)


@pytest.fixture
def turns() -> Conversations:
    settings = Settings("memory://", redact_keys=OWN_FIELDS)
    conversations = Conversations(MemoryJournal(), FakeClock(), settings=settings)
    conversations.create_project("p", "The project")
    conversations.create_conversation("p", "s")
    return conversations


def test_a_turn_is_listed_claimed_fed_and_ended_whatever_keys_are_redacted(turns: Conversations) -> None:
    turn_id = turns.create_turn("p", "s", "do it").turn_id
    process = process_of(os.getpid())

    turns.start("p", "s", turn_id, executor="agent", process=process.fields)
    turns.feed("p", "s", turn_id, [assistant(text("working")), result()], 1, defer_end=True)
    state = turns.end("p", "s", turn_id, fields={"exit_code": 0})

    assert turns.turns("p", "s") == [state]
    assert (state.process, state.block_count, state.status) == (process, 1, Status.SUCCEEDED)


def test_a_turn_without_a_report_stays_unknown_whatever_keys_are_redacted(turns: Conversations) -> None:
    turn_id = turns.create_turn("p", "s", "do it").turn_id

    state = turns.end("p", "s", turn_id, fields={"exit_code": 0})

    assert state.status is Status.UNKNOWN
    assert state.ending is not None
    assert not state.ending.own_word
