"""A turn has one ending, however many writers try to store one at once: the same on every journal."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import cast

import pytest

from longwatch.errors import TurnEnded, Unreachable
from longwatch.journal.base import Journal
from longwatch.journal.claims import END_CLAIMED, ending_id, store_death
from longwatch.model.run import Status
from longwatch.testing.clock import FakeClock
from longwatch.turns import Conversations
from longwatch.turns.verdict import CORRECTED
from tests.contract.events import OpenAgain, event, read_all
from tests.contract.turn_lines import Session, assistant, line, result, text
from tests.contract.turns_concurrency import ConcurrentTurnsContract, Meanwhile, at_once

ROUNDS = 25
HOUR = 3600.0

Ends = Callable[[Conversations, str], str]
"""Ends a turn and returns the status for its caller."""

DENIED = line(type="result", subtype="success", permission_denials=[{"tool_name": "Bash"}])

ENDS: dict[str, Ends] = {
    "success": lambda all_, turn: all_.feed("p", "s", turn, [result()]).status,
    "failure": lambda all_, turn: all_.feed("p", "s", turn, [result("no", is_error=True)]).status,
    "interrupt": lambda all_, turn: all_.interrupt("p", "s", turn).wire_status,
    "end well": lambda all_, turn: all_.end("p", "s", turn, "turn_completed").wire_status,
    "crash": lambda all_, turn: all_.end("p", "s", turn, "turn_failed", {"exit_code": 3}).wire_status,
    "death": lambda all_, turn: all_.report_death("p", "s", turn, "gone").wire_status,
}


def endings(journal: Journal, turn: str) -> list[str]:
    """The ids of the terminal events of a turn."""
    types = ("turn_completed", "turn_failed", "turn_cancelled", "workflow_error")
    return [event.event_id for event in read_all(journal, turn)[0] if event.type in types]


def corrections(journal: Journal, turn: str) -> list[object]:
    """The statuses to which a turn was corrected."""
    found = [event for event in read_all(journal, turn)[0] if event.type == CORRECTED]
    return [event.payload["status"] for event in found]


class TurnEndingsContract(ConcurrentTurnsContract):
    """Who decides how a turn ended."""

    @pytest.mark.parametrize("second", ENDS)
    @pytest.mark.parametrize("first", ENDS)
    def test_the_first_ending_is_returned_to_every_caller(
        self,
        session: Session,
        meanwhile: Meanwhile,
        slow: Conversations,
        other: Conversations,
        first: str,
        second: str,
    ) -> None:
        turn, warnings = session.turn(), list[str]()
        meanwhile.before = END_CLAIMED
        meanwhile.happens = lambda: warnings.append(ENDS[first](session.all, turn))

        warnings.append(ENDS[second](slow, turn))

        warnings.append(other.turn("p", "s", turn).wire_status)
        # The failure that the slow writer reports is stored before its claim, and no reader passes over it.
        is_success = first in ("success", "end well") and second != "failure"
        assert warnings == ["completed" if is_success else "failed"] * 3
        assert endings(session.journal, turn) == [ending_id(turn)]

    @pytest.mark.parametrize("when", ["before it reads", "before it claims", "never"])
    def test_the_death_that_an_observer_stores_is_the_ending_unless_another_came_first(
        self, session: Session, meanwhile: Meanwhile, clock: FakeClock, other: Conversations, when: str
    ) -> None:
        turn = session.turn()
        fields = {"status": "died", "written_for": True, "processes": [], "not_before": 1, "not_after": 2}
        death = event(turn, clock.now_ms(), "workflow_error", payload=fields)
        if when == "before it reads":
            session.all.end("p", "s", turn)
        elif when == "before it claims":
            meanwhile.before, meanwhile.happens = END_CLAIMED, lambda: session.all.end("p", "s", turn)

        store_death(cast(Journal, meanwhile), death)

        state = other.turn("p", "s", turn)
        assert state.status is (Status.DIED if when == "never" else Status.SUCCEEDED)
        assert endings(session.journal, turn) == [ending_id(turn)]

    def test_an_interrupt_and_a_result_at_the_same_time_have_one_outcome(
        self, session: Session, open_again: OpenAgain, clock: FakeClock
    ) -> None:
        feeder, user = (Conversations(open_again(), clock) for _ in range(2))
        for _ in range(ROUNDS):
            turn, warnings, begin = session.turn(), list[str](), threading.Barrier(2)

            def end(
                ends: Ends, writer: Conversations, turn: str, warnings: list[str], begin: threading.Barrier
            ) -> None:
                begin.wait()
                try:
                    warnings.append(ends(writer, turn))
                except TurnEnded as error:
                    warnings.append(error.status)

            at_once(
                [
                    partial(end, ENDS["success"], feeder, turn, warnings, begin),
                    partial(end, ENDS["interrupt"], user, turn, warnings, begin),
                ]
            )

            warnings.append(session.all.turn("p", "s", turn).wire_status)
            assert len(set(warnings)) == 1, warnings
            assert endings(session.journal, turn) == [ending_id(turn)]

    def test_a_writer_that_dies_after_its_claim_has_ended_the_turn(
        self, session: Session, meanwhile: Meanwhile, slow: Conversations, other: Conversations
    ) -> None:
        turn = session.turn()

        def dies() -> None:
            raise Unreachable("the writer is gone")

        meanwhile.before, meanwhile.happens = "turn_completed", dies
        with pytest.raises(Unreachable):
            slow.feed("p", "s", turn, [result("all done")])

        assert session.all.interrupt("p", "s", turn).wire_status == "completed"

        (stored,) = [each for each in read_all(session.journal, turn)[0] if each.type == "turn_completed"]
        assert stored.payload["result"] == "all done"
        assert other.turn("p", "s", turn).wire_status == "completed"

    def test_a_result_whose_response_was_lost_ends_the_turn_when_it_is_fed_again(
        self, session: Session, meanwhile: Meanwhile, slow: Conversations
    ) -> None:
        turn, lines = session.turn(), [assistant(text("a")), result()]

        def dies() -> None:
            raise Unreachable("no answer")

        meanwhile.before, meanwhile.happens = END_CLAIMED, dies
        with pytest.raises(Unreachable):
            slow.feed("p", "s", turn, lines, first_line=1)
        assert session.all.turn("p", "s", turn).wire_status == "running"

        assert slow.feed("p", "s", turn, lines, first_line=1).status == "completed"

    @pytest.mark.parametrize("depth", [5, 27, 60])
    def test_a_result_of_any_depth_and_size_ends_the_turn(
        self, session: Session, other: Conversations, depth: int
    ) -> None:
        turn, deep = session.turn(), "x" * 500_000

        wrapped: object = deep
        for _ in range(depth):
            wrapped = {"in": wrapped}
        fed = session.all.feed("p", "s", turn, [line(type="result", subtype="success", result=wrapped)])

        assert fed.status == other.turn("p", "s", turn).wire_status == "completed"

    def test_the_ending_comes_after_the_lines_of_its_millisecond(
        self, session: Session, clock: FakeClock
    ) -> None:
        turn = session.turn()
        still = Conversations(session.journal, FakeClock(clock.now_ms()))

        still.feed("p", "s", turn, [assistant(text("a"), text("b")), result()])

        events = sorted(read_all(session.journal, turn)[0], key=lambda each: each.order)
        assert [each.type for each in events][-4:] == ["block", "block", "turn_result", "turn_completed"]

    def test_a_turn_that_ends_long_after_its_creation_ends_for_its_followers(
        self, session: Session, other: Conversations, clock: FakeClock
    ) -> None:
        turn = session.turn()
        session.all.feed("p", "s", turn, [assistant(text("a"))])
        other.turn("p", "s", turn)
        clock.advance(HOUR)
        session.all.feed("p", "s", turn, [assistant(text("b"))])
        assert other.turn("p", "s", turn).wire_status == "running"

        before = clock.now_ms()
        session.all.interrupt("p", "s", turn)

        found, run = other.turn("p", "s", turn), session.journal.find_run(turn)
        assert found.wire_status == "failed"
        assert found.completed_at is not None
        assert found.completed_at >= before
        assert run is not None
        assert run.ended_at == found.completed_at

    @pytest.mark.parametrize(
        ("first", "second", "corrected"),
        [
            ("interrupt", "success", [Status.SUCCEEDED]),
            ("interrupt", "failure", []),
            ("interrupt", "crash", []),
            ("interrupt", "death", []),
            ("success", "crash", [Status.FAILED]),
            ("success", "death", []),
            ("success", "interrupt", []),
            ("success", "end well", []),
            ("death", "success", [Status.SUCCEEDED]),
            ("failure", "end well", []),  # the agent itself reported the failure
        ],
    )
    def test_a_later_outcome_corrects_the_run_and_leaves_the_reported_turn_unchanged(
        self,
        session: Session,
        meanwhile: Meanwhile,
        slow: Conversations,
        other: Conversations,
        first: str,
        second: str,
        corrected: list[Status],
    ) -> None:
        turn = session.turn()
        meanwhile.before = END_CLAIMED
        meanwhile.happens = lambda: ENDS[first](session.all, turn)

        ENDS[second](slow, turn)

        run = session.journal.find_run(turn)
        assert run is not None
        assert corrections(session.journal, turn) == corrected
        assert run.status is (corrected[0] if corrected else other.turn("p", "s", turn).status)

    def test_an_outcome_that_is_stated_after_the_end_is_a_correction_once(self, session: Session) -> None:
        turn = session.turn()
        session.all.feed("p", "s", turn, [result()])

        stated = [session.all.end("p", "s", turn, "turn_failed", {"signal": "SIGSEGV"}) for _ in range(2)]

        assert [state.wire_status for state in stated] == ["completed", "completed"]
        assert corrections(session.journal, turn) == ["failed"]
        run = session.journal.find_run(turn)
        assert run is not None
        assert (run.status, run.error) == (
            Status.FAILED,
            "the agent reported success; then ended by SIGSEGV",
        )

    def test_endings_of_an_earlier_version_are_read_by_the_rule_of_their_time(
        self, session: Session, other: Conversations, now: int
    ) -> None:
        turn = session.turn()
        session.journal.append(
            [
                event(
                    turn,
                    now + 5_000,
                    "turn_cancelled",
                    event_id=f"{turn}-interrupted",
                    payload={"error_message": "x"},
                ),
                event(turn, now + 5_001, "turn_completed", event_id=f"{turn}-00000001-000-00ff"),
            ]
        )

        assert other.turn("p", "s", turn).wire_status == "completed"
        assert other.interrupt("p", "s", turn).wire_status == "completed"

    def test_a_success_with_a_denied_tool_is_partial_with_a_reason(
        self, session: Session, other: Conversations
    ) -> None:
        turn = session.turn()

        fed = session.all.feed("p", "s", turn, [DENIED])

        found, run = other.turn("p", "s", turn), session.journal.find_run(turn)
        assert (fed.status, found.wire_status, found.status) == ("failed", "failed", Status.PARTIAL)
        assert found.error == "the agent was denied permission: Bash"
        assert run is not None
        assert run.status is Status.PARTIAL

    def test_an_executor_ends_its_turn_with_the_report_and_the_exit(
        self, session: Session, other: Conversations
    ) -> None:
        turn = session.turn()

        fed = session.all.feed("p", "s", turn, [result("ok"), assistant(text("bye"))], defer_end=True)
        ended = session.all.end(
            "p", "s", turn, "turn_failed", {"exit_code": 3, "error_message": "exit code 3"}
        )

        assert (fed.status, fed.accepted) == ("running", 2)
        assert (ended.wire_status, ended.block_count) == ("failed", 1)
        assert other.turn("p", "s", turn).error == "the agent reported success; then exit code 3"

    @pytest.mark.parametrize("batches", [1, 2])
    @pytest.mark.parametrize("defer_end", [False, True])
    def test_a_codex_turn_with_a_declined_command_is_partial_with_a_reason(
        self, session: Session, other: Conversations, batches: int, defer_end: bool
    ) -> None:
        turn = session.turn()
        item = {"id": "i", "type": "command_execution", "command": "rm -r /", "status": "declined"}
        lines = [line(type="item.completed", item=item), line(type="turn.completed")]

        for batch in [lines] if batches == 1 else [[each] for each in lines]:
            session.all.feed("p", "s", turn, batch, defer_end=defer_end)
        if defer_end:
            session.all.end("p", "s", turn, fields={"exit_code": 0})

        state = other.turn("p", "s", turn)
        assert state.status is Status.PARTIAL
        assert state.error == "the agent was denied permission: command_execution"
        assert corrections(session.journal, turn) == []

    def test_the_tools_of_codex_are_used_once(self, session: Session) -> None:
        turn = session.turn()
        item = {"id": "item_1", "type": "command_execution", "command": "ls"}
        change = {"id": "item_2", "type": "file_change", "changes": [], "status": "completed"}
        started, completed = line(type="item.started", item=item), line(type="item.completed", item=item)

        session.all.feed("p", "s", turn, [started], first_line=1)
        for _ in range(2):
            session.all.feed(
                "p", "s", turn, [completed, line(type="item.completed", item=change)], first_line=2
            )
        fed = session.all.feed("p", "s", turn, [line(type="turn.failed", error={"message": "no credit"})])

        found = session.all.turn("p", "s", turn)
        assert [(block.kind, block.content["tool_use_id"]) for block in found.blocks] == [
            ("tool_use", "item_1"),
            ("tool_result", "item_1"),
            ("tool_use", "item_2"),
            ("tool_result", "item_2"),
        ]
        assert (fed.status, found.error) == ("failed", "no credit")
