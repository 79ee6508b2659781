"""The real Yjs, as browsers use it, exchanges updates and diffs with a store."""

from __future__ import annotations

import random
import secrets
from pathlib import Path

import pytest

from longwatch.documents.store import DocumentStore
from longwatch.documents.stores.sqlite import SqliteDocumentStore
from tests.integration.documents.conftest import Yjs

WORDS = ("x", "word ", "\n", "é", "e\u0301", "😀", "👩‍👩‍👧", "🇩🇪")


@pytest.fixture
def store(tmp_path: Path) -> DocumentStore:
    return SqliteDocumentStore(tmp_path / "documents.db")


@pytest.fixture
def name() -> str:
    return secrets.token_hex(4)


def units(text: str) -> int:
    """The length of the text in JavaScript."""
    return len(text.encode("utf-16-le")) // 2


def test_a_text_from_the_store_is_read_in_yjs(store: DocumentStore, yjs: Yjs, name: str) -> None:
    store.write_text("p", "a.md", "größer 😀 e\u0301")
    store.write_text("p", "a.md", "größer 👩‍👩‍👧 e\u0301!")

    yjs.apply(name, store.read("p", "a.md").update)

    assert yjs.text(name) == "größer 👩‍👩‍👧 e\u0301!"


def test_bytes_from_the_store_are_a_uint8array_in_yjs(store: DocumentStore, yjs: Yjs, name: str) -> None:
    data = bytes(range(256)) * 4000
    store.write_bytes("p", "a.bin", b"before")
    store.write_bytes("p", "a.bin", data)

    yjs.apply(name, store.read("p", "a.bin").update)

    assert yjs.bytes_of(name) == data
    assert yjs.request(name, "kind") == "Uint8Array"


def test_bytes_from_yjs_are_a_file_in_the_store(store: DocumentStore, yjs: Yjs, name: str) -> None:
    yjs.request(name, "setBytes", data="AP8=")

    store.apply("p", "a.bin", yjs.update(name), kind="binary")

    assert store.content("p", "a.bin") == b"\x00\xff"


def test_everything_that_yjs_can_hold_passes_through_the_store(
    store: DocumentStore, yjs: Yjs, name: str
) -> None:
    yjs.request(name, "fill")

    applied = store.apply("p", "a.md", yjs.update(name))
    store.compact("p", "a.md")

    assert applied.changed
    assert not store.apply("p", "a.md", yjs.update(name)).changed
    assert store.text("p", "a.md") == yjs.text(name)
    yjs.apply(f"{name}-copy", store.read("p", "a.md").update)
    assert yjs.text(f"{name}-copy") == yjs.text(name)


def test_a_diff_brings_yjs_up_to_date(store: DocumentStore, yjs: Yjs, name: str) -> None:
    store.write_text("p", "a.md", "a beginning " * 300)
    yjs.apply(name, store.read("p", "a.md").update)
    store.write_text("p", "a.md", "a beginning " * 300 + "and an end")

    diff = store.diff("p", "a.md", yjs.state(name))

    assert len(diff.update) < 100
    yjs.apply(name, diff.update)
    assert yjs.text(name).endswith("and an end")


def test_a_deletion_in_yjs_is_a_change_once(store: DocumentStore, yjs: Yjs, name: str) -> None:
    yjs.request(name, "insert", at=0, text="hello")
    store.apply("p", "a.md", yjs.update(name))
    yjs.request(name, "remove", at=0, length=2)

    first, again = (store.apply("p", "a.md", yjs.update(name)) for _ in range(2))

    assert (first.version, first.changed, again.version, again.changed) == (2, True, 2, False)
    assert store.text("p", "a.md") == "llo"


@pytest.mark.parametrize("halves", [False, True], ids=["whole characters", "halves too"])
@pytest.mark.parametrize("seed", range(8))
def test_editors_in_yjs_and_writers_at_the_store_converge(
    store: DocumentStore, yjs: Yjs, name: str, seed: int, halves: bool
) -> None:
    chance = random.Random(seed)
    editors = [f"{name}-{number}" for number in range(3)]
    store.write_text("p", "a.md", "")
    for _ in range(60):
        editor = chance.choice(editors)
        match chance.randrange(6):
            case 0 | 1:
                places = _places(yjs.text(editor), halves=halves)
                yjs.request(editor, "insert", at=chance.choice(places), text=chance.choice(WORDS))
            case 2:
                places = _places(yjs.text(editor), halves=halves)
                start, end = sorted(chance.choices(places, k=2))
                yjs.request(editor, "remove", at=start, length=end - start)
            case 3:
                store.apply("p", "a.md", yjs.update(editor))
            case 4:
                yjs.apply(editor, store.diff("p", "a.md", yjs.state(editor)).update)
            case 5:
                now = store.text("p", "a.md")
                at = chance.randint(0, len(now))
                store.write_text("p", "a.md", now[:at] + chance.choice(WORDS) + now[at + 2 :])
                if chance.random() < 0.3:
                    store.compact("p", "a.md")

    for editor in editors:
        store.apply("p", "a.md", yjs.update(editor))
    for editor in editors:
        yjs.apply(editor, store.diff("p", "a.md", yjs.state(editor)).update)

    assert {yjs.text(editor) for editor in editors} == {store.text("p", "a.md")}


def _places(text: str, *, halves: bool) -> list[int]:
    """Where an editor can write, as JavaScript counts: between characters, or in the middle of one too."""
    if halves:
        return list(range(units(text) + 1))
    return [units(text[:at]) for at in range(len(text) + 1)]


def test_half_an_emoji_deleted_in_yjs_leaves_a_readable_text(
    store: DocumentStore, yjs: Yjs, name: str
) -> None:
    yjs.request(name, "insert", at=0, text="a😀b")
    store.apply("p", "a.md", yjs.update(name))
    yjs.request(name, "remove", at=2, length=1)

    store.apply("p", "a.md", yjs.update(name))

    text = store.text("p", "a.md")
    assert (text[0], text[-1]) == ("a", "b")
    store.write_text("p", "a.md", "ab")
    yjs.apply(name, store.diff("p", "a.md", yjs.state(name)).update)
    assert yjs.text(name) == "ab"
