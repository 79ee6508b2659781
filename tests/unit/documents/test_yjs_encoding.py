"""State vectors and delete sets as Yjs writes them."""

from __future__ import annotations

from pycrdt import Doc, Snapshot, Text

from longwatch.documents.yjs_encoding import EMPTY_UPDATE, DocumentFingerprint, state_vector, waits_for_more


def document() -> Doc[Text]:
    doc: Doc[Text] = Doc({"content": Text("hello world")}, client_id=300)
    del doc["content"][2:4]
    del doc["content"][5:6]
    return doc


def test_a_state_vector_counts_what_each_client_wrote() -> None:
    assert state_vector(document().get_state()) == {300: 11}
    assert state_vector(b"\x00") == {}


def test_clients_that_wrote_nothing_are_left_out() -> None:
    assert state_vector(b"\x02\x01\x00\x05\x07") == {5: 7}


def test_a_picture_shows_what_is_deleted() -> None:
    picture = DocumentFingerprint.of_snapshot(Snapshot.from_doc(document()).encode())

    assert picture.units == {300: 11}
    assert picture.deleted == {300: [(2, 4), (7, 8)]}


def test_the_order_of_clients_has_no_meaning() -> None:
    one = DocumentFingerprint.of_snapshot(b"\x02\x01\x01\x00\x02\x02\x01\x05\x01\x02\x01\x02\x02\x06")
    other = DocumentFingerprint.of_snapshot(b"\x02\x02\x01\x05\x01\x01\x01\x00\x02\x02\x02\x06\x01\x02")

    assert one == other


def test_an_update_waits_for_blocks_and_for_what_it_deletes() -> None:
    deletion = b"\x00\x01\x01\x01\x02\x03"  # units 2 to 4 of client 1

    assert not waits_for_more(EMPTY_UPDATE, {})
    assert waits_for_more(b"\x01\x01", {})
    assert waits_for_more(deletion, {})
    assert waits_for_more(deletion, {1: 4})
    assert not waits_for_more(deletion, {1: 5})
