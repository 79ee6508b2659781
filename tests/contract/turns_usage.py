"""What a turn and its session have used of models, and what a turn waits for, on every journal."""

from __future__ import annotations

import pytest

from longwatch.errors import TurnEnded
from longwatch.turns import Conversations
from longwatch.turns.views import SessionDetails, TurnLine
from tests.contract.turn_lines import Session, assistant, line, text, tool_result, tool_use

TOKENS = {"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 5}


def claude_result(cost: float, **more: object) -> str:
    return line(type="result", subtype="success", result="done", usage=TOKENS, total_cost_usd=cost, **more)


def asks(request: str, tool: str = "Bash") -> str:
    wanted = {"subtype": "can_use_tool", "tool_name": tool, "input": {"command": "rm -r build"}}
    return line(type="control_request", request_id=request, request=wanted)


def reasons(session: Session, turn: str) -> list[str]:
    return [wait.reason for wait in session.all.turn("p", "s", turn).waiting]


class UsageContract:
    """The part of `Conversations` that counts tokens and records waits."""

    def test_a_session_has_the_usage_of_its_turns(self, session: Session, other: Conversations) -> None:
        for cost in (0.25, 0.5):
            turn = session.turn()
            session.all.feed("p", "s", turn, [assistant(text("Hello")), claude_result(cost)], 1)
        broken = session.turn()
        session.all.feed("p", "s", broken, [assistant(text("Hello"))], 1)

        turns = other.turns("p", "s")
        whole = SessionDetails.of_turns(other.conversation("p", "s"), turns).usage
        usage = TurnLine.of(turns[0]).usage

        assert usage is not None
        assert (usage.input_tokens, usage.cache_read_tokens, usage.cost) == (100, 90, 0.25)
        assert "usage" not in vars(TurnLine.of(turns[2]))
        assert whole is not None
        assert (whole.model_calls, whole.calls_with_tokens, whole.priced_calls) == (3, 2, 2)
        assert (whole.input_tokens, whole.output_tokens, whole.cost) == (200, 10, 0.75)

    def test_a_thread_of_codex_counts_once(self, session: Session) -> None:
        for count in (100, 250):
            turn = session.turn()
            lines = [
                line(type="thread.started", thread_id="t-1"),
                line(type="turn.completed", usage={"input_tokens": count, "output_tokens": 10}),
            ]
            session.all.feed("p", "s", turn, lines, 1)

        usage = SessionDetails.of_turns(session.all.conversation("p", "s"), session.all.turns("p", "s")).usage

        assert usage is not None
        assert (usage.model_calls, usage.input_tokens, usage.output_tokens) == (2, 250, 10)

    def test_a_run_of_a_turn_has_its_usage_in_lists(self, session: Session) -> None:
        turn = session.turn()
        session.all.feed("p", "s", turn, [assistant(text("Hello")), claude_result(0.25)], 1)

        found = session.journal.find_run(turn)

        assert found is not None
        assert found.totals.usage.reports[turn].cost == 0.25

    def test_a_turn_waits_from_a_request_to_its_response(self, session: Session) -> None:
        turn = session.turn()
        session.all.feed(
            "p", "s", turn, [assistant(tool_use("t1")), asks("r1"), asks("r2", "AskUserQuestion")], 1
        )
        assert sorted(reasons(session, turn)) == ["answer", "approval"]

        session.all.feed("p", "s", turn, [line(type="control_response", response={"request_id": "r1"})], 4)
        assert reasons(session, turn) == ["answer"]

        session.all.feed("p", "s", turn, [assistant(text("Thanks"))], 5)
        session.all.feed("p", "s", turn, [assistant(tool_use("t1")), asks("r1")], 1)
        assert reasons(session, turn) == []
        found = session.journal.find_run(turn)
        assert found is not None
        assert sorted(found.totals.waited_ms) == ["answer", "approval"]

    def test_the_result_of_a_tool_shows_that_its_request_was_answered(self, session: Session) -> None:
        turn = session.turn()
        session.all.feed("p", "s", turn, [assistant(tool_use("t1")), asks("r1")], 1)

        session.all.feed("p", "s", turn, [tool_result("t1", "done")], 3)

        assert reasons(session, turn) == []

    def test_an_executor_can_report_a_wait_and_its_end(self, session: Session, other: Conversations) -> None:
        turn = session.turn()
        session.all.wait("p", "s", turn, "approval", "deploy")
        session.all.wait("p", "s", turn, "approval", "deploy")
        session.all.wait("p", "s", turn, "rate limit")

        [view, _] = TurnLine.of(other.turn("p", "s", turn)).waiting
        assert (view.reason, view.detail) == ("approval", "deploy")

        session.all.resume("p", "s", turn, "approval")
        assert reasons(session, turn) == ["rate limit"]
        session.all.resume("p", "s", turn)
        session.all.resume("p", "s", turn)
        assert reasons(session, turn) == []
        assert "waiting" not in vars(TurnLine.of(other.turn("p", "s", turn)))

    def test_a_turn_that_has_ended_waits_for_nothing(self, session: Session) -> None:
        turn = session.turn()
        session.all.wait("p", "s", turn, "approval")
        session.all.interrupt("p", "s", turn)

        assert reasons(session, turn) == []
        with pytest.raises(TurnEnded):
            session.all.wait("p", "s", turn, "approval")
