"""Characters that were cut in half become what Yjs makes of them; all others stay."""

from __future__ import annotations

import pytest
from pycrdt import Doc, Text

from longwatch.documents.replica import Replica
from longwatch.documents.yjs_updates import repair_updates

CLIENT = 5


def text_update(text: str) -> bytes:
    doc: Doc[Text] = Doc({"content": Text(text)}, client_id=CLIENT)
    return doc.get_update()


def deletion(first: int, length: int) -> bytes:
    """Units of the client, counted as Yjs counts."""
    return bytes([0, 1, CLIENT, 1, first, length])


@pytest.mark.parametrize(
    ("first", "length", "left"),
    [
        (0, 1, "😀b😁c"),
        (1, 2, "ab😁c"),
        (1, 1, "a\ufffdb😁c"),
        (2, 1, "a\ufffdb😁c"),
        (2, 2, "a\ufffd😁c"),
        (2, 3, "a\ufffd\ufffdc"),
        (4, 1, "a😀b\ufffdc"),
        (0, 7, ""),
    ],
)
def test_half_a_character_that_was_deleted_leaves_a_replacement(first: int, length: int, left: str) -> None:
    replica = Replica([text_update("a😀b😁c")])

    replica.merge(deletion(first, length))

    assert replica.text() == left
    assert Replica([replica.state()]).text() == left
    assert Replica([text_update("a😀b😁c"), deletion(first, length)]).text() == left


def test_updates_without_cut_characters_are_the_same_objects() -> None:
    updates = [text_update("a😀b"), deletion(1, 2)]

    assert repair_updates(updates) is updates
    assert repair_updates([b"\x00\x00"]) == [b"\x00\x00"]


def test_a_long_text_keeps_its_length_right() -> None:
    text = "x" * 200 + "😀" + "y" * 200
    replica = Replica([text_update(text)])

    replica.merge(b"\x00\x01\x05\x01\xc9\x01\x01")  # unit 201: the second half

    assert replica.text() == "x" * 200 + "\ufffd" + "y" * 200
