"""What becomes of turns when several write to them at once: the same on every journal."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pytest

from longwatch.errors import AlreadyThere, JournalUnavailable, TurnEnded, TurnTaken, Unreachable
from longwatch.journal.base import Journal
from longwatch.model.event import Event
from longwatch.model.process import process_of
from longwatch.model.run import ENDS
from longwatch.testing.clock import FakeClock
from longwatch.turns import Conversations, TurnState, turn_state
from tests.contract.basis import Contract
from tests.contract.events import OpenAgain, read_all
from tests.contract.turn_lines import Session, TickingClock, assistant, result, text

WRITERS = 4


class Meanwhile:
    """A journal in which something happens between the next read of a writer and what it writes."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.happens: Callable[[], object] | None = None
        self.before = ""  # only before an event of this type is written; "": any

    def append(self, events: Sequence[Event]) -> None:
        if not self.before or any(event.type == self.before for event in events):
            happens, self.happens = self.happens, None
            if happens is not None:
                happens()
        self._journal.append(events)

    def __getattr__(self, name: str) -> object:
        return getattr(self._journal, name)


class Interrupted:
    """A journal that is lost after one event of a creation was stored."""

    def __init__(self, journal: Journal, stores: str) -> None:
        self._journal = journal
        self._stores = stores
        self.lost: list[Event] = []

    def append(self, events: Sequence[Event]) -> None:
        self._journal.append([event for event in events if event.type in (self._stores, "turn_numbered")])
        self.lost += [event for event in events if event.type not in (self._stores, "turn_numbered")]
        if self.lost:
            raise JournalUnavailable("connection lost")

    def __getattr__(self, name: str) -> object:
        return getattr(self._journal, name)


class ConcurrentTurnsContract(Contract):
    """What the fold of concurrent writes gives."""

    @pytest.fixture
    def clock(self) -> FakeClock:
        return TickingClock()

    @pytest.fixture
    def session(self, open_again: OpenAgain, clock: FakeClock) -> Session:
        return Session(open_again, clock)

    @pytest.fixture
    def other(self, open_again: OpenAgain, clock: FakeClock) -> Conversations:
        """The same journal as another process sees it."""
        return Conversations(open_again(), clock)

    @pytest.fixture
    def meanwhile(self, open_again: OpenAgain) -> Meanwhile:
        return Meanwhile(open_again())

    @pytest.fixture
    def slow(self, meanwhile: Meanwhile, clock: FakeClock) -> Conversations:
        """A writer who is overtaken by what happens `meanwhile`."""
        return Conversations(meanwhile, clock)  # type: ignore[arg-type]

    def test_lines_in_flight_during_an_interrupt_are_stored_and_the_turn_stays_failed(
        self, session: Session, meanwhile: Meanwhile, slow: Conversations, other: Conversations
    ) -> None:
        turn = session.turn()
        meanwhile.happens = lambda: session.all.interrupt("p", "s", turn, "enough")

        slow.feed("p", "s", turn, [assistant(text("on my way"))])

        found = other.turn("p", "s", turn)
        assert (found.wire_status, found.error, found.block_count) == ("failed", "enough", 1)
        with pytest.raises(TurnEnded):
            slow.feed("p", "s", turn, [assistant(text("more"))])

    def test_the_same_lines_fed_twice_at_once_are_stored_once(
        self, session: Session, meanwhile: Meanwhile, slow: Conversations, other: Conversations
    ) -> None:
        turn = session.turn()
        lines = [assistant(text("a"), text("b"), uuid="u-1"), assistant(text("c")), result()]
        meanwhile.happens = lambda: session.all.feed("p", "s", turn, lines, first_line=1)

        slow.feed("p", "s", turn, lines, first_line=1)

        found = other.turn("p", "s", turn)
        assert [block.content["text"] for block in found.blocks] == ["a", "b", "c"]
        assert found.wire_status == "completed"

    def test_a_named_line_fed_twice_at_once_without_numbers_is_stored_once(
        self, session: Session, meanwhile: Meanwhile, slow: Conversations, other: Conversations
    ) -> None:
        turn = session.turn()
        named = assistant(text("once"), uuid="u-1")
        meanwhile.happens = lambda: session.all.feed("p", "s", turn, [assistant(text("x")), named])

        slow.feed("p", "s", turn, [named])

        texts = [str(block.content["text"]) for block in other.turn("p", "s", turn).blocks]
        assert sorted(texts) == ["once", "x"]

    def test_a_write_can_be_read_although_the_clock_of_another_writer_is_ahead(
        self, session: Session, open_again: OpenAgain, clock: FakeClock
    ) -> None:
        turn, ahead = session.turn(), TickingClock()
        ahead.advance(10.0)
        Conversations(open_again(), ahead).feed("p", "s", turn, [assistant(text("ahead"))])
        session.all.turn("p", "s", turn)

        session.all.feed("p", "s", turn, [assistant(text("behind"))])

        assert session.all.turn("p", "s", turn).block_count == 2
        assert session.all.turns("p", "s")[0].block_count == 2

    def test_of_two_turns_created_at_once_one_continues(
        self, session: Session, meanwhile: Meanwhile, slow: Conversations, other: Conversations
    ) -> None:
        made: list[TurnState] = []
        meanwhile.happens = lambda: made.append(session.all.create_turn("p", "s", "quick"))

        made.append(slow.create_turn("p", "s", "slow"))

        *earlier, last = other.turns("p", "s")
        assert [state.creation.number for state in (*earlier, last) if state.creation] == [1, 2]
        assert [state.wire_status for state in earlier] == ["failed"]
        assert last.wire_status == "pending"
        assert {state.turn_id for state in (*earlier, last)} == {state.turn_id for state in made}

    @pytest.mark.parametrize("stored", ["turn_created", "turn_added"])
    def test_the_retry_of_an_interrupted_creation_stores_what_is_missing_at_the_same_time(
        self, session: Session, open_again: OpenAgain, clock: FakeClock, other: Conversations, stored: str
    ) -> None:
        interrupted = Interrupted(open_again(), stored)
        with pytest.raises(JournalUnavailable):
            Conversations(interrupted, clock).create_turn("p", "s", "go", id="turn-mine")  # type: ignore[arg-type]
        clock.advance(3.0)

        state = other.create_turn("p", "s", "go", id="turn-mine")

        (added,) = other.conversation("p", "s").turns
        assert [event.type for event in read_all(session.journal, "turn-mine")[0]] == ["turn_created"]
        assert state.creation is not None
        assert state.creation.number == added.number == 1
        assert state.created_at == added.order[0]

    @pytest.mark.parametrize("before", ["turn_numbered", "turn_created"])
    def test_a_turn_that_two_create_at_once_is_created_once(
        self, session: Session, meanwhile: Meanwhile, slow: Conversations, before: str
    ) -> None:
        meanwhile.before = before
        meanwhile.happens = lambda: session.all.create_turn("p", "s", "quick", id="turn-mine")

        state = slow.create_turn("p", "s", "slow", id="turn-mine")

        created = [each for each in read_all(session.journal, "turn-mine")[0] if each.type == "turn_created"]
        (added,) = session.all.conversation("p", "s").turns
        assert state.creation is not None
        assert [each.occurred_at for each in created] == [state.created_at] == [added.order[0]]
        assert state.creation.number == added.number

    def test_a_claimed_turn_keeps_its_number_although_others_were_added_since(
        self, session: Session, meanwhile: Meanwhile, slow: Conversations
    ) -> None:
        def meanwhile_others() -> None:
            session.all.create_turn("p", "s", "another")
            session.all.create_turn("p", "s", "quick", id="turn-mine")

        meanwhile.before, meanwhile.happens = "turn_created", meanwhile_others

        slow.create_turn("p", "s", "slow", id="turn-mine")

        created = [each for each in read_all(session.journal, "turn-mine")[0] if each.type == "turn_created"]
        assert [each.payload["number"] for each in created] == [1]

    def test_a_turn_that_many_create_and_end_at_once_has_one_ending(
        self, session: Session, open_again: OpenAgain, clock: FakeClock
    ) -> None:
        writers = [Conversations(open_again(), clock) for _ in range(WRITERS)]
        begin = threading.Barrier(WRITERS)

        def make_and_end(number: int, writer: Conversations) -> None:
            for each in range(5):
                begin.wait()
                writer.create_turn("p", "s", f"from {number}", id=f"turn-{each}")
                writer.end("p", "s", f"turn-{each}", "turn_failed", {"error_message": f"by {number}"})

        at_once([partial(make_and_end, *each) for each in enumerate(writers)])

        for each in range(5):
            types = [event.type for event in read_all(session.journal, f"turn-{each}")[0]]
            counts = [types.count(type_) for type_ in ("turn_created", "turn_end_claimed")]
            assert (counts, sum(type_ in ENDS for type_ in types)) == ([1, 1], 1)
        numbers = [turn.number for turn in session.all.conversation("p", "s").turns]
        assert sorted(set(numbers)) == sorted(numbers)

    def test_an_id_that_two_sessions_choose_at_once_is_refused_to_one(
        self, session: Session, meanwhile: Meanwhile, slow: Conversations
    ) -> None:
        session.all.create_conversation("p", "t")
        meanwhile.before = "turn_created"
        meanwhile.happens = lambda: session.all.create_turn("p", "t", "quick", id="turn-mine")

        with suppress(AlreadyThere):  # the one with the later time
            slow.create_turn("p", "s", "slow", id="turn-mine")

        listed = [*session.all.turns("p", "s", thorough=True), *session.all.turns("p", "t", thorough=True)]
        assert [state.turn_id for state in listed] == ["turn-mine"]

    def test_a_turn_that_was_added_after_its_creation_has_one_ending(
        self,
        session: Session,
        open_again: OpenAgain,
        clock: FakeClock,
        meanwhile: Meanwhile,
        slow: Conversations,
    ) -> None:
        interrupted = Interrupted(open_again(), "turn_created")
        with pytest.raises(JournalUnavailable):
            Conversations(interrupted, clock).create_turn("p", "s", "go", id="turn-mine")  # type: ignore[arg-type]
        (added,) = interrupted.lost
        session.journal.append([replace(added, occurred_at=added.occurred_at + 3)])
        meanwhile.before = "turn_end_claimed"
        meanwhile.happens = lambda: session.all.end("p", "s", "turn-mine")

        slow.create_turn("p", "s", "next")

        events, _ = read_all(session.journal, "turn-mine")
        assert [event.type for event in events if event.type in ENDS] == ["turn_completed"]

    def test_of_many_turns_made_at_once_all_but_the_last_end(
        self, session: Session, open_again: OpenAgain, clock: FakeClock, other: Conversations
    ) -> None:
        writers = [Conversations(open_again(), clock) for _ in range(WRITERS)]
        begin = threading.Barrier(WRITERS)

        def make(writer: Conversations) -> None:
            begin.wait()
            for _ in range(3):
                writer.create_turn("p", "s")

        at_once([partial(make, writer) for writer in writers])

        states = other.turns("p", "s")
        assert len(states) == WRITERS * 3
        assert [state.wire_status for state in states] == ["failed"] * (WRITERS * 3 - 1) + ["pending"]
        numbers = [state.creation.number for state in states if state.creation is not None]
        assert sorted(numbers) == list(range(1, WRITERS * 3 + 1))

    def test_of_two_executors_that_start_a_turn_at_once_the_first_has_it(
        self, session: Session, meanwhile: Meanwhile, slow: Conversations, other: Conversations
    ) -> None:
        turn = session.turn()
        meanwhile.happens = lambda: session.all.start("p", "s", turn, executor="quick")

        with pytest.raises(TurnTaken):
            slow.start("p", "s", turn, executor="slow")

        start = other.turn("p", "s", turn).start
        assert start is not None
        assert start.executor == "quick"

    def test_a_start_that_is_repeated_names_one_attempt(self, session: Session, other: Conversations) -> None:
        turn = session.turn()

        for writer in (session.all, other):
            writer.start("p", "s", turn, executor="agent", claim="mine")

        begun = [each for each in read_all(session.journal, turn)[0] if each.type == "turn_started"]
        (attempt,) = (each.payload["attempt"] for each in begun)
        assert re.fullmatch(r"[0-9a-f]{8}", str(attempt))

    @pytest.mark.parametrize("executor", ["agent", None])
    def test_of_many_executors_with_one_name_one_has_the_turn(
        self, session: Session, open_again: OpenAgain, clock: FakeClock, executor: str | None
    ) -> None:
        turn, begin, rejected = session.turn(), threading.Barrier(WRITERS), list[str]()

        def start(writer: Conversations) -> None:
            begin.wait()
            try:
                writer.start("p", "s", turn, executor=executor)
            except TurnTaken:
                rejected.append(turn)

        at_once([partial(start, Conversations(open_again(), clock)) for _ in range(WRITERS)])

        assert len(rejected) == WRITERS - 1

    def test_a_turn_that_ends_while_it_is_claimed_is_not_executed(
        self, session: Session, meanwhile: Meanwhile, slow: Conversations
    ) -> None:
        turn = session.turn()
        meanwhile.happens = lambda: session.all.interrupt("p", "s", turn)

        with pytest.raises(TurnEnded):
            slow.start("p", "s", turn, executor="agent")

    def test_feeding_and_interrupting_from_many_threads_gives_every_reader_the_same(
        self, session: Session, open_again: OpenAgain, clock: FakeClock
    ) -> None:
        turn = session.turn()
        readers = [Conversations(open_again(), clock) for _ in range(WRITERS)]

        def feed(writer: Conversations, index: int) -> None:
            for number in range(8):
                try:
                    writer.feed("p", "s", turn, [assistant(text(f"{index}.{number}"))])
                except TurnEnded:
                    return
            if index == 0:
                writer.interrupt("p", "s", turn)

        at_once([partial(feed, each, index) for index, each in enumerate(readers)])

        folded = turn_state(read_all(session.journal, turn)[0])
        states = [reader.interrupt("p", "s", turn) for reader in readers]
        assert all(state == folded for state in states)
        assert folded.wire_status == "failed"

    def test_a_feed_whose_response_was_lost_is_repeated_with_the_same_lines(
        self, session: Session, meanwhile: Meanwhile, slow: Conversations, other: Conversations
    ) -> None:
        turn = session.turn()
        lines = [assistant(text("a")), assistant(text("b")), result()]

        def half_of_it() -> None:
            session.all.feed("p", "s", turn, lines[:1], first_line=1)
            raise Unreachable("no answer")

        meanwhile.happens = half_of_it
        with pytest.raises(JournalUnavailable):
            slow.feed("p", "s", turn, lines, first_line=1)

        again = slow.feed("p", "s", turn, lines, first_line=1)

        assert (again.accepted, again.blocks, again.status) == (3, 1, "completed")
        assert other.turn("p", "s", turn).block_count == 2

    def test_a_turn_whose_process_is_gone_ends_when_it_is_read(
        self, session: Session, other: Conversations, clock: FakeClock
    ) -> None:
        turn = session.turn()
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        process = process_of(child.pid).fields
        session.all.start("p", "s", turn, executor="agent", process=process)
        assert other.turn("p", "s", turn).wire_status == "running"

        child.communicate(b"\n")
        at_first = other.turn("p", "s", turn)
        clock.advance(3.0)
        later = other.turns("p", "s")[-1]

        assert at_first.wire_status == "running"  # its starter may still report how it ended
        assert later.wire_status == "failed"
        assert f"Process {child.pid}" in (later.error or "")
        assert session.all.turn("p", "s", turn) == later

    def test_a_turn_whose_process_is_on_another_machine_continues(
        self, session: Session, clock: FakeClock
    ) -> None:
        turn = session.turn()
        elsewhere = {"host": f"not-{socket.gethostname()}", "pid": 1, "started": 1}
        session.all.start("p", "s", turn, process=elsewhere)
        session.all.turn("p", "s", turn)

        clock.advance(3600.0)

        assert session.all.turn("p", "s", turn).wire_status == "running"


def at_once(actions: Sequence[Callable[[], None]]) -> None:
    """Do all of these at the same time; what one of them raises is raised here."""
    raised: list[BaseException] = []

    def do(deed: Callable[[], None]) -> None:
        try:
            deed()
        except BaseException as error:  # noqa: BLE001 - a thread has no caller
            raised.append(error)

    threads = [threading.Thread(target=do, args=(deed,)) for deed in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]
