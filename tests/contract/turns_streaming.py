"""What streamed text of a message promises on every journal: it grows, and its block replaces it."""

from __future__ import annotations

import pytest

from longwatch.turns import Conversations, TurnDetails
from tests.contract.events import read_all
from tests.contract.turn_lines import Session, assistant, line, result, text, tool_use


def starts(kind: str = "text", **more: object) -> str:
    block = {"type": kind, ("text" if kind == "text" else kind): ""}
    return line(type="stream_event", event={"type": "content_block_start", "content_block": block}, **more)


def adds(words: str, kind: str = "text", **more: object) -> str:
    delta = {"type": f"{kind}_delta", kind: words}
    return line(type="stream_event", event={"type": "content_block_delta", "delta": delta}, **more)


STOPS = line(type="stream_event", event={"type": "content_block_stop", "index": 0})


class StreamingContract:
    """The part of `Conversations` that stores messages while they stream."""

    def test_text_grows_while_its_message_streams_and_its_block_replaces_it(
        self, session: Session, other: Conversations
    ) -> None:
        turn = session.turn()
        seen = []
        for first, lines in (
            (1, [starts(), adds("I read "), adds("the ")]),
            (4, [adds("test "), adds("fi")]),
            (6, [adds("rst. ")]),
            (7, [assistant(text("I read the test first. Then I act.")), STOPS]),
        ):
            session.all.feed("p", "s", turn, lines, first_line=first)
            view = vars(TurnDetails.of(other.turn("p", "s", turn)))
            seen.append((view["streaming"].text if "streaming" in view else None, view["block_count"]))

        assert seen == [
            ("I read the ", 0),
            ("I read the test ", 0),
            ("I read the test first. ", 0),
            (None, 1),
        ]
        assert other.turn("p", "s", turn).missing_lines == ()
        deltas = [each for each in read_all(session.journal, turn)[0] if each.type == "block_delta"]
        assert [each.payload["text"] for each in deltas] == ["I read the ", "test ", "first. "]

    def test_a_message_that_is_complete_in_one_batch_stores_no_delta(self, session: Session) -> None:
        turn = session.turn()

        lines = [
            starts("thinking"),
            adds("hm ", "thinking"),
            assistant({"type": "thinking", "thinking": "hm"}),
        ]
        session.all.feed("p", "s", turn, [*lines, starts(), adds("a "), STOPS, assistant(text("a b"))], 1)

        assert [each.type for each in read_all(session.journal, turn)[0]].count("block_delta") == 0
        assert session.all.turn("p", "s", turn).missing_lines == ()

    def test_each_block_of_a_message_streams_by_itself(self, session: Session) -> None:
        turn = session.turn()

        session.all.feed("p", "s", turn, [starts("thinking"), adds("Let me ", "thinking")], 1)
        thinking = session.all.turn("p", "s", turn).streaming
        session.all.feed(
            "p",
            "s",
            turn,
            [assistant({"type": "thinking", "thinking": "Let me see"}), starts(), adds("So ")],
            3,
        )
        content = session.all.turn("p", "s", turn).streaming
        session.all.feed("p", "s", turn, [starts("tool_use")], 6)

        assert thinking is not None
        assert content is not None
        assert (thinking.kind, thinking.text) == ("thinking", "Let me ")
        assert (content.kind, content.text) == ("content", "So ")
        assert thinking.id != content.id

    def test_fragments_sent_again_add_nothing(self, session: Session, other: Conversations) -> None:
        turn, lines = session.turn(), [starts(), adds("one "), adds("two ")]

        for _ in range(3):
            session.all.feed("p", "s", turn, lines, first_line=1)
        session.all.feed("p", "s", turn, [*lines, adds("three ")], first_line=1)

        streaming = other.turn("p", "s", turn).streaming
        assert streaming is not None
        assert streaming.text == "one two three "

    def test_fragments_without_numbers_stream_as_well(self, session: Session) -> None:
        turn = session.turn()

        session.all.feed("p", "s", turn, [line(type="system"), starts(), adds("one ")])
        session.all.feed("p", "s", turn, [adds("two ")])
        streaming = session.all.turn("p", "s", turn).streaming
        session.all.feed("p", "s", turn, [assistant(text("one two three"))])

        assert streaming is not None
        assert streaming.text == "one two "
        assert session.all.turn("p", "s", turn).streaming is None
        assert session.all.turn("p", "s", turn).missing_lines == ()

    def test_an_agent_that_begins_again_replaces_what_it_streamed(self, session: Session) -> None:
        turn = session.turn()

        session.all.feed("p", "s", turn, [starts(), adds("a first try ")], 1)
        session.all.feed("p", "s", turn, [starts(), adds("another ")], 3)

        streaming = session.all.turn("p", "s", turn).streaming
        assert streaming is not None
        assert streaming.text == "another "

    def test_a_subagent_neither_streams_nor_replaces_what_streams(self, session: Session) -> None:
        turn = session.turn()
        session.all.feed("p", "s", turn, [assistant(tool_use("u-1", "Task")), starts(), adds("main ")], 1)

        inner = [starts(parent_tool_use_id="u-1"), adds("inner ", parent_tool_use_id="u-1")]
        session.all.feed("p", "s", turn, [*inner, assistant(text("inner"), parent_tool_use_id="u-1")], 4)
        session.all.feed("p", "s", turn, [adds("again ")], 7)

        streaming = session.all.turn("p", "s", turn).streaming
        assert streaming is not None
        assert streaming.text == "main again "
        assert session.all.turn("p", "s", turn).block_count == 2

    @pytest.mark.parametrize(
        "parts",
        [
            ["the key is sk-ant-0123456", "789abcdefghijklmnop", " and more "],
            ["password: hun", "ter2 ", "done "],
            ["-----BEGIN RSA PRI", "VATE KEY-----\n", "MIIEowIBAAKCAQEA\n", "hunter2\n"],
            ["https://me:hun", "ter2@shop.example/ ", "x "],
        ],
    )
    def test_a_secret_in_two_fragments_never_reaches_the_journal(
        self, session: Session, parts: list[str]
    ) -> None:
        turn = session.turn()

        for number, words in enumerate(["", *parts]):
            lines = [adds(words)] if number else [starts()]
            session.all.feed("p", "s", turn, lines, first_line=number + 1)

        stored = "".join(f"{each.type} {each.payload}" for each in read_all(session.journal, turn)[0])
        assert "block_delta" in stored
        assert not any(secret in stored for secret in ("0123456", "hunter2", "hun", "MIIE"))

    def test_another_process_waits_for_the_next_block(self, session: Session, other: Conversations) -> None:
        turn = session.turn()
        session.all.feed("p", "s", turn, [starts(), adds("one ")], 1)

        other.feed("p", "s", turn, [adds("two ")], first_line=3)
        same = other.turn("p", "s", turn).streaming
        other.feed("p", "s", turn, [assistant(text("one two")), starts(), adds("next ")], first_line=4)

        shown = other.turn("p", "s", turn).streaming
        assert same is not None
        assert shown is not None
        assert (same.text, shown.text) == ("one ", "next ")
        assert other.turn("p", "s", turn).missing_lines == ()

    def test_text_streamed_before_an_interruption_stays(self, session: Session, other: Conversations) -> None:
        turn = session.turn()
        session.all.feed("p", "s", turn, [starts(), adds("so far ")], 1)

        session.all.interrupt("p", "s", turn)

        streaming = other.turn("p", "s", turn).streaming
        assert streaming is not None
        assert streaming.text == "so far "

    def test_fragments_are_lines_of_the_run_too(self, session: Session) -> None:
        turn = session.turn()
        session.all.feed("p", "s", turn, [starts(), adds("a "), STOPS], 1)
        session.all.feed("p", "s", turn, [STOPS, STOPS], 4)
        fed = session.all.feed("p", "s", turn, [adds("b "), assistant(text("a b")), result()], 6)

        assert (fed.status, fed.missing) == ("completed", ())
