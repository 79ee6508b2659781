"""Names of topics and cursors of streams, as they come from outside."""

from __future__ import annotations

import pytest

from longwatch.errors import InvalidCursor, InvalidInput
from longwatch.server.live.conversation_topics import split_conversation_cursor
from longwatch.server.live.topics import Topic, TopicKind, join_cursors, split_cursors, topics_of


@pytest.mark.parametrize(
    ("name", "kind", "parts"),
    [
        ("runs", TopicKind.RUNS, ()),
        ("run:wf-1", TopicKind.RUN, ("wf-1",)),
        ("run:runs:of/any;kind", TopicKind.RUN, ("runs:of/any;kind",)),
        ("turn:p/s/turn-1", TopicKind.TURN, ("p", "s", "turn-1")),
        ("session:p/s", TopicKind.SESSION, ("p", "s")),
        ("files:p.1", TopicKind.FILES, ("p.1",)),
    ],
)
def test_a_topic_is_read(name: str, kind: TopicKind, parts: tuple[str, ...]) -> None:
    assert Topic.of(name) == Topic(name, kind, parts)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "run",
        "run:",
        "runs:all",
        "turn:p/s",
        "turn:p/s/t/u",
        "session:p",
        "session:p/..",
        "files:",
        "files:-p",
        "files:a b",
        f"files:{'p' * 101}",
        f"run:{'x' * 1025}",
        "run:\ud800",
        "elsewhere:p",
    ],
)
def test_an_invalid_topic_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput):
        Topic.of(name)


@pytest.mark.parametrize("names", [[], ["runs", "runs"], [f"run:{number}" for number in range(101)]])
def test_a_stream_has_some_topics_each_once(names: list[str]) -> None:
    with pytest.raises(InvalidInput):
        topics_of(names)


@pytest.mark.parametrize("cursors", [["12"], ["12", ""], ["", "a3", "v4"], ["", ""]])
def test_cursors_come_apart_as_they_were_joined(cursors: list[str]) -> None:
    assert split_cursors(join_cursors(cursors), len(cursors)) == cursors


@pytest.mark.parametrize("text", ["1;2;3", "1", "1\n;2", "ü;1", f"{'1' * 70_000};2"])
def test_cursors_that_do_not_fit_the_topics_are_refused(text: str) -> None:
    with pytest.raises(InvalidCursor):
        split_cursors(text, 2)


def test_the_cursor_of_a_session_names_its_open_turns() -> None:
    assert split_conversation_cursor("12~turn-a:40~turn-b:") == ("12", {"turn-a": "40", "turn-b": ""})
    assert split_conversation_cursor("") == ("", {})


@pytest.mark.parametrize("text", ["1~", "1~turn-a", "1~other:3", "1" + "~turn-x:1" * 1 + "~:"])
def test_an_invalid_cursor_of_a_session_is_refused(text: str) -> None:
    with pytest.raises(InvalidCursor):
        split_conversation_cursor(text)
