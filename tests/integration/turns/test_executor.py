"""A command as the executor of a turn, while its journal does not respond."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from longwatch.errors import JournalUnavailable
from longwatch.model.event import Event
from longwatch.model.run import Status
from longwatch.testing import FakeClock, FaultyJournal
from longwatch.turns import Conversations, TurnState
from longwatch.turns.executor import Executor, TurnCommand, turn_environment
from longwatch.turns.turn_sink import JournalTurnSink, TurnName

# Prints a line, waits for a word, then prints many.
AGENT = """
import json, sys
say = lambda words: print(json.dumps({"type": "assistant", "message": {"content": words}}), flush=True)
say("first")
open(sys.argv[1]).read()
for number in range(50): say(f"{number}")
print('{"type": "result", "subtype": "success"}', flush=True)
"""


@pytest.fixture
def journal() -> FaultyJournal:
    return FaultyJournal()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def turns(journal: FaultyJournal, clock: FakeClock) -> Conversations:
    conversations = Conversations(journal, clock)
    conversations.create_project("p")
    conversations.create_conversation("p", "s")
    return conversations


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """What the agent waits for."""
    path = tmp_path / "gate"
    os.mkfifo(path)
    return path


def executor(
    turns: Conversations, turn: TurnState, gate: Path, clock: FakeClock, after_first: Callable[[], None]
) -> tuple[Executor, list[str]]:
    """The agent's executor. When the first block is stored, something happens and the agent continues."""
    warnings: list[str] = []
    shown: list[Event] = []

    def show(events: Sequence[Event]) -> None:
        if not shown:
            after_first()
            gate.write_text("go")
        shown.extend(events)

    command = TurnCommand(
        command=[sys.executable, "-c", AGENT, str(gate)],
        environment=turn_environment(
            os.environ, TurnName.of(turn), prompt=None, journal_url="memory://", trace_id="ab" * 16
        ),
        prompt="",
    )
    sink = JournalTurnSink(turns, TurnName.of(turn))
    return Executor(command, sink, show=show, warn=warnings.append, clock=clock, stderr=None), warnings


def blocks(turns: Conversations, turn: TurnState) -> list[object]:
    return [block.content["text"] for block in turns.turn("p", "s", turn.turn_id).blocks]


def test_lines_wait_for_a_journal_that_does_not_respond_and_are_stored_once(
    journal: FaultyJournal, turns: Conversations, gate: Path, clock: FakeClock
) -> None:
    turn = turns.create_turn("p", "s")

    def trouble() -> None:
        journal.fail(3)

    attended, warnings = executor(turns, turn, gate, clock, trouble)
    executed = attended.run()

    assert executed.turn.status is Status.SUCCEEDED
    assert blocks(turns, turn) == ["first", *(f"{number}" for number in range(50))]
    assert "cannot store the command's lines" in warnings[0]


def test_a_lost_response_stores_nothing_twice(
    journal: FaultyJournal, turns: Conversations, gate: Path, clock: FakeClock
) -> None:
    turn = turns.create_turn("p", "s")

    attended, _ = executor(turns, turn, gate, clock, lambda: journal.time_out(2))
    attended.run()

    assert len(blocks(turns, turn)) == 51


def test_a_journal_that_stays_unavailable_is_given_up_with_a_message(
    journal: FaultyJournal, turns: Conversations, gate: Path, clock: FakeClock
) -> None:
    turn = turns.create_turn("p", "s")
    attended, warnings = executor(turns, turn, gate, clock, journal.fail)

    with pytest.raises(JournalUnavailable):
        attended.run()

    assert "is no longer stored" in warnings[-1]
    assert turns.turn("p", "s", turn.turn_id).block_count == 1


def test_a_turn_that_is_interrupted_between_two_lines_stops_its_command(
    turns: Conversations, gate: Path, clock: FakeClock
) -> None:
    turn = turns.create_turn("p", "s")

    def interrupt() -> None:
        turns.interrupt("p", "s", turn.turn_id, "enough")

    attended, _ = executor(turns, turn, gate, clock, interrupt)
    executed = attended.run()

    assert (executed.turn.status, executed.turn.error) == (Status.CANCELLED, "enough")
    assert blocks(turns, turn) == ["first"]
    assert executed.interrupted_by is None


def test_a_reader_that_stops_reading_blocks_stops_nothing(
    turns: Conversations, gate: Path, clock: FakeClock
) -> None:
    turn = turns.create_turn("p", "s")

    def nobody_reads() -> None:
        gate.write_text("go")
        raise BrokenPipeError

    attended, _ = executor(turns, turn, gate, clock, nobody_reads)
    attended.run()

    assert len(blocks(turns, turn)) == 51
