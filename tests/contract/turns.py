"""What conversations, turns and blocks promise on every journal."""

from __future__ import annotations

import json

import pytest

from longwatch.errors import (
    AlreadyThere,
    ConversationNotFound,
    InvalidInput,
    InvalidLine,
    ProjectNotFound,
    TurnEnded,
    TurnNotFound,
    TurnTaken,
)
from longwatch.model.run import Status
from longwatch.model.run_query import WORK
from longwatch.testing.clock import FakeClock
from longwatch.turns import Conversations, TurnDetails, tag_of
from tests.contract.events import OpenAgain, event, read_all, run_ids
from tests.contract.turn_lines import (
    Session,
    assistant,
    line,
    result,
    text,
    tool_result,
    tool_use,
)
from tests.contract.turns_endings import TurnEndingsContract
from tests.contract.turns_streaming import StreamingContract
from tests.contract.turns_usage import UsageContract


class TurnsContract(TurnEndingsContract, StreamingContract, UsageContract):
    """What `Conversations` promises."""

    def test_projects_and_sessions_are_listed_in_the_order_they_were_made(
        self, session: Session, other: Conversations
    ) -> None:
        session.all.create_project("q")
        session.all.create_conversation("p", "second", "Second one")

        assert [project.id for project in other.projects()] == ["p", "q"]
        assert [(each.id, each.title) for each in other.conversations("p")] == [
            ("s", None),
            ("second", "Second one"),
        ]
        assert other.project("p").name == "The project"

    def test_projects_of_long_ago_are_still_listed(
        self, session: Session, open_again: OpenAgain, clock: FakeClock
    ) -> None:
        clock.advance(1000 * 24 * 3600)

        found = Conversations(open_again(), clock)

        assert [project.id for project in found.projects()] == ["p"]
        assert [each.id for each in found.conversations("p")] == ["s"]

    def test_missing_ids_are_generated(self, session: Session) -> None:
        project = session.all.create_project()
        conversation = session.all.create_conversation(project.id)

        turn = session.all.create_turn(project.id, conversation.id)

        assert session.all.turn(project.id, conversation.id, turn.turn_id).turn_id.startswith("turn-")

    def test_making_the_same_again_changes_nothing(self, session: Session, other: Conversations) -> None:
        first = session.all.create_turn("p", "s", "go", id="turn-mine")

        other.create_project("p")
        other.create_conversation("p", "s")
        again = other.create_turn("p", "s", "go", id="turn-mine")

        assert again == first
        assert len(other.projects()) == len(other.conversations("p")) == len(other.turns("p", "s")) == 1

    def test_an_incomplete_creation_is_completed(
        self, session: Session, other: Conversations, now: int
    ) -> None:
        session.journal.append(
            [
                event("project:half", now, "project_created", payload={"name": "Half"}),
                event("conversation:p:half", now, "conversation_created"),
            ]
        )
        assert [project.id for project in other.projects()] == ["p"]

        session.all.create_project("half", "Half")
        session.all.create_conversation("p", "half")

        assert [project.id for project in other.projects()] == ["p", "half"]
        assert [each.id for each in other.conversations("p")] == ["s", "half"]

    def test_an_id_of_another_resource_is_refused(self, session: Session) -> None:
        session.all.create_conversation("p", "elsewhere")
        session.all.create_turn("p", "elsewhere", id="turn-mine")

        with pytest.raises(AlreadyThere, match="The project"):
            session.all.create_project("p", "Another name")
        with pytest.raises(AlreadyThere, match="another session"):
            session.all.create_turn("p", "s", id="turn-mine")

    @pytest.mark.parametrize("id", ["", ".", "-x", "a/b", "a:b", "x" * 101, "ä", "a\n"])
    def test_an_ambiguous_id_is_refused(self, session: Session, id: str) -> None:
        with pytest.raises(InvalidInput):
            session.all.create_project(id)
        with pytest.raises(InvalidInput):
            session.all.create_conversation("p", id)
        with pytest.raises(InvalidInput):
            session.all.create_turn("p", "s", id=f"turn-{id}" if id in ("a/b", "a:b", "") else id)

    def test_a_missing_resource_is_named(self, session: Session) -> None:
        turn = session.turn()
        session.all.create_conversation("p", "other")

        with pytest.raises(ProjectNotFound, match="nobody"):
            session.all.conversation("nobody", "s")
        with pytest.raises(ConversationNotFound, match="nothing"):
            session.all.create_turn("p", "nothing")
        with pytest.raises(TurnNotFound, match="turn-none"):
            session.all.turn("p", "s", "turn-none")
        with pytest.raises(TurnNotFound, match=turn):
            session.all.turn("p", "other", turn)
        with pytest.raises(TurnNotFound):
            session.all.feed("p", "other", turn, [result()])

    def test_a_turn_goes_from_pending_through_running_to_completed(
        self, session: Session, other: Conversations
    ) -> None:
        turn = session.turn("make it so")
        seen = [TurnDetails.of(other.turn("p", "s", turn))]
        tags = [tag_of(other.turn("p", "s", turn))]

        for step in (line(type="system"), assistant(text("hello")), result()):
            session.all.feed("p", "s", turn, [step])
            seen.append(TurnDetails.of(other.turn("p", "s", turn)))
            tags.append(tag_of(other.turn("p", "s", turn)))

        assert [view.status for view in seen] == ["pending", "running", "running", "completed"]
        assert [view.block_count for view in seen] == [0, 0, 1, 1]
        assert len(set(tags)) == 4
        assert seen[0].prompt == "make it so"
        assert seen[0].started_at is None
        assert seen[-1].completed_at is not None
        assert [view.last_updated for view in seen] == sorted(view.last_updated for view in seen)

    def test_every_item_of_a_message_becomes_a_block_in_its_order(
        self, session: Session, other: Conversations
    ) -> None:
        turn = session.turn()

        fed = session.all.feed(
            "p",
            "s",
            turn,
            [
                assistant(
                    {"type": "thinking", "thinking": "hm"}, text("I look."), tool_use("u1", command="ls")
                ),
                tool_result("u1", [text("a"), text("b")]),
                tool_result("u2", "no such file", is_error=True),
                line(type="assistant", message={"content": "done"}),
            ],
        )

        assert (fed.accepted, fed.blocks, fed.status) == (4, 6, "running")
        blocks = TurnDetails.of(other.turn("p", "s", turn)).blocks
        assert [block.sequence for block in blocks] == list(range(6))
        assert [(block.type, block.content) for block in blocks] == [
            ("thinking", {"text": "hm"}),
            ("content", {"text": "I look."}),
            ("tool_use", {"tool_use_id": "u1", "tool_name": "Bash", "parameters": {"command": "ls"}}),
            ("tool_result", {"tool_use_id": "u1", "result": "a\nb", "error": None}),
            ("tool_result", {"tool_use_id": "u2", "result": "no such file", "error": "no such file"}),
            ("content", {"text": "done"}),
        ]
        json.dumps(blocks, default=vars)

    def test_hundreds_of_blocks_of_one_moment_keep_their_order(
        self, session: Session, other: Conversations
    ) -> None:
        turn = session.turn()

        session.all.feed("p", "s", turn, [assistant(text(f"{n}a"), text(f"{n}b")) for n in range(150)])

        blocks = other.turn("p", "s", turn).blocks
        assert [block.content["text"] for block in blocks] == [f"{n}{ab}" for n in range(150) for ab in "ab"]

    def test_a_result_with_an_error_fails_the_turn(self, session: Session, other: Conversations) -> None:
        turn = session.turn()

        fed = session.all.feed("p", "s", turn, [result("out of credit", is_error=True)])

        found = other.turn("p", "s", turn)
        assert fed.status == found.wire_status == "failed"
        assert found.error == "out of credit"

    def test_numbered_lines_sent_again_are_stored_once(self, session: Session, other: Conversations) -> None:
        turn = session.turn()
        lines = [line(type="system"), "", assistant(text("same")), assistant(text("same")), result()]
        first = session.all.feed("p", "s", turn, lines, first_line=1)

        again = session.all.feed("p", "s", turn, lines, first_line=1)
        elsewhere = other.feed("p", "s", turn, lines[2:], first_line=3)

        assert (first.accepted, first.blocks, first.status) == (4, 2, "completed")
        assert (again.accepted, again.blocks, again.status) == (4, 0, "completed")
        assert (elsewhere.accepted, elsewhere.blocks) == (3, 0)
        assert other.turn("p", "s", turn).block_count == 2

    def test_lines_that_arrive_out_of_order_stand_in_the_order_of_their_numbers(
        self, session: Session, other: Conversations
    ) -> None:
        turn = session.turn()

        session.all.feed("p", "s", turn, [assistant(text("third"))], first_line=3)
        other.feed("p", "s", turn, [assistant(text("first")), assistant(text("second"))], first_line=1)

        blocks = session.all.turn("p", "s", turn).blocks
        assert [block.content["text"] for block in blocks] == ["first", "second", "third"]

    def test_a_gap_in_the_numbers_of_lines_is_reported_until_it_is_filled(
        self, session: Session, other: Conversations
    ) -> None:
        turn = session.turn()

        first = session.all.feed("p", "s", turn, [assistant(text("1")), assistant(text("2"))], first_line=1)
        ahead = session.all.feed("p", "s", turn, [assistant(text("6"))], first_line=6)
        further = other.feed("p", "s", turn, [assistant(text("8"))], first_line=8)
        shown = TurnDetails.of(other.turn("p", "s", turn))
        filled = session.all.feed("p", "s", turn, [assistant(text(f"{n}")) for n in (3, 4, 5)], first_line=3)
        last = session.all.feed("p", "s", turn, [assistant(text("7")), assistant(text("8"))], first_line=7)

        assert (first.missing, ahead.missing) == ((), ((3, 5),))
        assert further.missing == ((3, 5), (7, 7))
        assert shown.missing_lines == ((3, 5), (7, 7))
        assert (filled.missing, last.missing) == (((7, 7),), ())
        assert "missing_lines" not in vars(TurnDetails.of(other.turn("p", "s", turn)))

    def test_a_turn_that_begins_in_the_middle_misses_its_first_lines(self, session: Session) -> None:
        turn = session.turn()

        fed = session.all.feed("p", "s", turn, [assistant(text("late")), result()], first_line=4)

        assert (fed.status, fed.missing) == ("completed", ((1, 3),))
        assert session.all.turn("p", "s", turn).missing_lines == ((1, 3),)

    @pytest.mark.parametrize("first", [0, 1])
    def test_blank_lines_and_lines_without_numbers_are_not_a_gap(
        self, session: Session, other: Conversations, first: int
    ) -> None:
        turn, fields = session.turn(), assistant(text("x"))
        feeds = [["", fields, "", "", fields, ""], ["", ""], [fields, "  "], [fields]]

        for lines in feeds:
            fed = session.all.feed("p", "s", turn, lines, first_line=first)
            assert fed.missing == ()
            first += len(lines)
        session.all.feed("p", "s", turn, [fields])
        with pytest.raises(InvalidLine):
            other.feed("p", "s", turn, ["", "oops"], first_line=first + 1)
        fed = other.feed("p", "s", turn, [result()], first_line=first + 2)

        found = other.turn("p", "s", turn)
        assert (fed.missing, found.missing_lines, found.block_count) == ((), (), 5)

    def test_other_content_under_a_used_number_is_stored_too(self, session: Session) -> None:
        turn = session.turn()

        session.all.feed("p", "s", turn, [assistant(text("one"))], first_line=1)
        session.all.feed("p", "s", turn, [assistant(text("another"))], first_line=1)

        blocks = session.all.turn("p", "s", turn).blocks
        assert [block.content["text"] for block in blocks] == ["one", "another"]

    def test_a_line_with_a_uuid_is_stored_once_without_numbers(
        self, session: Session, other: Conversations
    ) -> None:
        turn = session.turn()
        named, nameless = assistant(text("named"), uuid="u-1"), assistant(text("nameless"))

        session.all.feed("p", "s", turn, [named, named, nameless])
        other.feed("p", "s", turn, [named, nameless])

        blocks = session.all.turn("p", "s", turn).blocks
        assert [block.content["text"] for block in blocks] == ["named", "nameless", "nameless"]

    def test_a_line_that_is_not_json_stops_the_feed_with_the_number_of_stored_lines(
        self, session: Session, other: Conversations
    ) -> None:
        turn = session.turn()
        lines = [assistant(text("before")), "", "oops", assistant(text("after"))]

        with pytest.raises(InvalidLine, match=r"Line 3 is not JSON.* 1 line before it") as caught:
            session.all.feed("p", "s", turn, lines)
        with pytest.raises(InvalidLine) as numbered:
            session.all.feed("p", "s", turn, lines, first_line=10)

        assert (caught.value.number, caught.value.accepted, caught.value.blocks) == (3, 1, 1)
        assert numbered.value.number == 12
        blocks = other.turn("p", "s", turn).blocks
        assert [block.content["text"] for block in blocks] == ["before", "before"]

    @pytest.mark.parametrize("wrong", ["[1]", '"text"', "null", "{", '{"a": NaN}', "{'a': 1}", "[" * 100_000])
    def test_only_json_objects_are_lines(self, session: Session, wrong: str) -> None:
        turn = session.turn()

        with pytest.raises(InvalidLine, match="Line 1"):
            session.all.feed("p", "s", turn, [wrong])

        assert session.all.turn("p", "s", turn).wire_status == "pending"

    def test_lines_after_the_end_are_refused_and_those_before_it_stored(
        self, session: Session, other: Conversations
    ) -> None:
        turn = session.turn()

        with pytest.raises(TurnEnded) as caught:
            session.all.feed("p", "s", turn, [assistant(text("a")), result(), assistant(text("late"))])
        with pytest.raises(TurnEnded, match="completed"):
            other.feed("p", "s", turn, [line(type="system")])

        assert (caught.value.accepted, caught.value.blocks) == (2, 1)
        found = other.turn("p", "s", turn)
        assert (found.wire_status, found.block_count) == ("completed", 1)

    def test_an_unknown_line_is_accepted_and_makes_no_block(self, session: Session) -> None:
        turn = session.turn()
        unknown = [line(type="rate_limit_event", left=3), line(no="type"), line(type=7), assistant()]

        fed = session.all.feed("p", "s", turn, unknown)

        assert (fed.accepted, fed.blocks) == (4, 0)
        stored = [event for event in read_all(session.journal, turn)[0] if event.type == "turn_line"]
        assert [event.payload["line"] for event in sorted(stored, key=lambda event: event.order)] == [
            json.loads(each) for each in unknown
        ]

    def test_output_between_the_lines_is_stored_on_request(self, session: Session) -> None:
        turn = session.turn()

        fed = session.all.feed("p", "s", turn, ["Loading…", assistant(text("hi"))], keep_output=True)

        assert (fed.accepted, fed.blocks) == (2, 1)
        stored = [event for event in read_all(session.journal, turn)[0] if event.type == "output"]
        assert [event.payload["text"] for event in stored] == ["Loading…"]

    def test_secrets_never_reach_the_journal_and_huge_blocks_are_cut(self, session: Session) -> None:
        turn = session.turn("use AKIAABCDEFGHIJKLMNOP")
        token = "ghp_" + "a" * 36

        session.all.feed("p", "s", turn, [assistant(text(token), tool_use("u1", password="hunter2"))])
        session.all.feed("p", "s", turn, [assistant(text("x" * 900_000))])

        found = session.all.turn("p", "s", turn)
        stored = str(TurnDetails.of(found))
        assert token not in stored
        assert "hunter2" not in stored
        assert "AKIAABCDEFGHIJKLMNOP" not in stored
        assert found.blocks[-1].kind == "content"
        assert "truncated" in found.blocks[-1].content
        assert len(stored) < 500_000

    def test_a_new_turn_cancels_those_before_it_that_have_not_ended(
        self, session: Session, other: Conversations
    ) -> None:
        done, waiting, busy = session.turn(), "", ""
        session.all.feed("p", "s", done, [result()])
        waiting = session.turn()
        busy = session.turn()
        session.all.feed("p", "s", busy, [assistant(text("at work"))])

        last = other.create_turn("p", "s", "instead").turn_id

        states = other.turns("p", "s")
        assert [state.turn_id for state in states] == [done, waiting, busy, last]
        assert [state.wire_status for state in states] == ["completed", "failed", "failed", "pending"]
        assert states[0].error is None
        assert f"turn {last} was started" in (states[2].error or "")
        assert [state.creation.number for state in states if state.creation] == [1, 2, 3, 4]
        with pytest.raises(TurnEnded, match="failed"):
            session.all.feed("p", "s", busy, [assistant(text("still at work"))])

    def test_an_interrupted_turn_has_failed_with_the_reason(
        self, session: Session, other: Conversations
    ) -> None:
        turn, before = session.turn(), session.all.find_turn(session.turn()).turn_id
        session.all.feed("p", "s", before, [assistant(text("at work"))])

        stopped = other.interrupt("p", "s", before, "enough")
        again = session.all.interrupt("p", "s", before, "really")

        assert (stopped.wire_status, stopped.error) == ("failed", "enough")
        assert again == stopped
        assert session.all.interrupt("p", "s", turn).wire_status == "failed"
        found = session.journal.find_run(before)
        assert found is not None
        assert found.status is Status.CANCELLED
        with pytest.raises(TurnEnded):
            session.all.feed("p", "s", before, [result()])

    def test_interrupting_a_turn_that_has_ended_leaves_it_as_it_is(self, session: Session) -> None:
        turn = session.turn()
        session.all.feed("p", "s", turn, [result()])

        assert session.all.interrupt("p", "s", turn).wire_status == "completed"

    def test_a_turn_is_created_before_it_is_claimed_and_ended(self, session: Session) -> None:
        turn = session.turn()
        session.all.start("p", "s", turn, executor="a")
        session.all.feed("p", "s", turn, [result()])

        events = sorted(read_all(session.journal, turn)[0], key=lambda each: each.order)

        assert [each.type for each in events][:3] == ["turn_created", "turn_claimed", "turn_end_claimed"]

    def test_only_one_executes_a_turn(self, session: Session, other: Conversations) -> None:
        turn = session.turn()
        process = {"host": "h", "pid": 12, "started": 5}
        session.all.start("p", "s", turn, executor="a", process=process, claim="mine")

        again = session.all.start("p", "s", turn, executor="a", process=process, claim="mine")

        assert again.wire_status == "running"
        for name, claim in (("b", None), ("a", None), ("a", "another")):
            with pytest.raises(TurnTaken, match=r"already has turn .*: a\."):
                other.start("p", "s", turn, executor=name, process=process, claim=claim)
        session.all.interrupt("p", "s", turn)
        with pytest.raises(TurnEnded):
            session.all.start("p", "s", turn, executor="a", process=process, claim="mine")

    def test_lists_of_work_show_turns_but_not_the_runs_that_list_them(self, session: Session) -> None:
        turn = session.turn("Mend the roof\nand the door")

        (listed,) = session.journal.find_runs(WORK).runs

        assert run_ids(session.journal.find_runs().runs) != [turn]
        assert (listed.run_id, listed.kind, listed.name) == (turn, "turn", "Mend the roof")
        assert listed.parent_run_id == "conversation:p:s"
