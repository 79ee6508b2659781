"""A document in memory: what counts as news, and what hostile bytes can do."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pycrdt import Array, Doc, Map, Text

from longwatch.documents import yjs_updates
from longwatch.documents.files import FileKind
from longwatch.documents.replica import Replica
from longwatch.errors import InvalidUpdate, JournalUnusable


def updates_of(*words: str) -> list[bytes]:
    """One update a word, each after the one before."""
    doc: Doc[Text] = Doc({"content": Text()})
    found: list[bytes] = []
    watching = doc.observe(lambda event: found.append(event.update))
    for word in words:
        doc["content"] += word
    doc.unobserve(watching)
    return found


def rich_update() -> bytes:
    """An update with a bit of everything that Yjs knows."""
    doc: Doc[Any] = Doc(client_id=7)
    text, shared, listed = doc.get("content", type=Text), doc.get("file", type=Map), doc.get("l", type=Array)
    text += "hello 😀 world"
    shared["bytes"] = b"abc"
    shared["more"] = [1, 2.5, {"a": None}, True]
    shared["nested"] = Text("inside")
    listed.append("x")
    del text[0:3]
    text.format(0, 3, {"bold": True})
    return doc.get_update()


def test_only_new_changes_have_to_be_stored() -> None:
    whole: Doc[Text] = Doc({"content": Text("a long text " * 1000)})
    replica = Replica([whole.get_update()])
    whole["content"] += "!"

    stored = replica.merge(whole.get_update())

    assert stored is not None
    assert len(stored) < 100
    assert replica.text().endswith(" !")


def test_updates_in_every_order_give_one_text() -> None:
    words = [f"{number}." for number in range(8)]
    updates = updates_of(*words)

    for seed in range(50):
        order = list(updates)
        random.Random(seed).shuffle(order)
        log: list[bytes] = []
        waits = False
        for update in order:
            replica = Replica(log, waits=waits)
            stored = replica.merge(update)
            assert stored is not None
            assert replica.merge(update) is None
            log, waits = [replica.state()], replica.waits
        assert not waits
        assert Replica(log).text() == "".join(words)


def test_a_waiting_document_is_marked_until_nothing_waits() -> None:
    first, second, third = updates_of("a", "b", "c")
    replica = Replica()
    waiting = []

    for update in (third, first, second):
        replica.merge(update)
        waiting.append(replica.waits)

    assert waiting == [True, True, False]


@given(st.binary(max_size=60))
def test_random_bytes_are_accepted_or_refused(data: bytes) -> None:
    try:
        Replica().merge(data)
    except InvalidUpdate:
        pass


@given(
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 5), st.binary(max_size=5)), min_size=1, max_size=4)
)
def test_a_damaged_update_is_accepted_or_refused_and_can_be_read(
    damage: list[tuple[int, int, bytes]],
) -> None:
    update = bytearray(rich_update())
    for at, length, data in damage:
        update[at : at + length] = data

    replica = Replica()
    try:
        stored = replica.merge(bytes(update))
    except InvalidUpdate:
        return

    again = Replica([stored] if stored else [], waits=replica.waits)
    assert again.text() == replica.text()
    assert again.content(FileKind.BINARY) == replica.content(FileKind.BINARY)
    assert again.merge(bytes(update)) is None


def test_an_update_that_claims_all_memory_is_refused() -> None:
    with pytest.raises(InvalidUpdate):
        Replica().merge(b"\xff\xff\xff\xff\xff\xff\x7f\x01\x01")


def test_an_update_over_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yjs_updates, "MAX_CONTENT_BYTES", 10)

    with pytest.raises(InvalidUpdate, match="limit is 10"):
        Replica().merge(bytes(11))


def test_a_damaged_store_is_distinguished_from_a_bad_update() -> None:
    with pytest.raises(JournalUnusable, match="backup"):
        Replica([b"\xff"])


def test_one_author_continues_where_it_stopped() -> None:
    log: list[bytes] = []
    for text in ("one", "one two", "two", "two 😀 three"):
        update = Replica(log, author=5).write_text(text)
        log.append(update)
        assert Replica(log).text() == text

    assert len(Replica(log).state()) < 80
