"""One document: updates in, state and diffs out, texts and bytes written whole."""

from __future__ import annotations

import pytest
from pycrdt import Doc, Map, Text

from longwatch.documents.store import DocumentStore
from longwatch.documents.stores.base import MAX_UPDATES
from longwatch.errors import InvalidInput, InvalidUpdate
from tests.contract.documents_basis import (
    BINARY,
    TEXT,
    DocumentsBasis,
    Editor,
    OpenStore,
    binary_update,
    bytes_in,
    text_in,
    text_update,
)

EMOJI = "a👩‍👩‍👧‍👦b e\u0301 🇩🇪 c"


class ContentContract(DocumentsBasis):
    def test_an_update_makes_the_document(self, store: DocumentStore, project: str) -> None:
        applied = store.apply(project, "a.md", text_update("hello"))

        state = store.read(project, "a.md")
        assert (applied.version, applied.changed) == (1, True)
        assert (state.version, state.entry.version, text_in(state.update)) == (1, 1, "hello")
        assert store.text(project, "a.md") == "hello"

    def test_an_update_that_is_already_stored_is_not_a_change(
        self, store: DocumentStore, project: str
    ) -> None:
        update = text_update("hello")
        store.apply(project, "a.md", update)
        before = store.entry(project, "a.md")

        again = store.apply(project, "a.md", update)

        assert (again.version, again.changed) == (1, False)
        assert store.entry(project, "a.md") == before

    def test_an_empty_update_creates_nothing(self, store: DocumentStore, project: str) -> None:
        applied = store.apply(project, "a.md", b"\x00\x00")

        assert (applied.version, applied.changed) == (0, False)
        assert store.entry(project, "a.md") is None

    def test_a_deletion_of_text_is_a_change_and_reported_once(
        self, store: DocumentStore, project: str
    ) -> None:
        editor = Editor(store, project)
        editor.insert(0, "hello world")
        editor.send()
        editor.delete(0, 6)

        first, second = editor.send(), editor.send()

        assert (first.version, first.changed) == (2, True)
        assert (second.version, second.changed) == (2, False)
        assert store.text(project, "notes.md") == "world"

    def test_a_diff_holds_what_a_client_lacks(self, store: DocumentStore, project: str) -> None:
        editor, other = Editor(store, project), Editor(store, project)
        editor.insert(0, "a long beginning " * 100)
        editor.send()
        other.fetch()
        editor.insert(0, "!")
        editor.send()

        state = store.diff(project, "notes.md", other.doc.get_state())

        assert (state.version, state.entry.path) == (2, "notes.md")
        assert len(state.update) < 100
        other.fetch()
        assert str(other.text) == str(editor.text)

    @pytest.mark.parametrize("update", [b"", b"\xff", b"garbage", b"\x01\x01\x01\x05", b"\x02" * 40])
    def test_an_invalid_update_is_refused_and_loses_nothing(
        self, store: DocumentStore, project: str, update: bytes
    ) -> None:
        store.write_text(project, "a.md", "kept")

        with pytest.raises(InvalidUpdate, match="Yjs update"):
            store.apply(project, "a.md", update)
        with pytest.raises(InvalidUpdate):
            store.apply(project, "new.md", update)

        assert store.text(project, "a.md") == "kept"
        assert store.project_version(project) == 1
        assert store.entry(project, "new.md") is None

    def test_an_invalid_state_vector_is_refused(self, store: DocumentStore, project: str) -> None:
        store.write_text(project, "a.md", "kept")

        with pytest.raises(InvalidUpdate, match="state vector"):
            store.diff(project, "a.md", b"\xff\xff")

    def test_bytes_after_an_update_are_not_stored(self, store: DocumentStore, project: str) -> None:
        update = text_update("hello")

        store.apply(project, "a.md", update + b"and more")

        assert store.read(project, "a.md").update == update

    def test_updates_in_the_wrong_order_take_effect_in_the_end(
        self, store: DocumentStore, open_store: OpenStore, project: str
    ) -> None:
        editor = Editor(store, project)
        for word in ("one", " two", " three"):
            editor.insert(len(str(editor.text)), word)
        first, second, third = editor.made

        assert store.apply(project, "notes.md", third).changed
        assert not store.apply(project, "notes.md", third).changed
        assert store.text(project, "notes.md") == ""
        assert open_store().apply(project, "notes.md", first).changed
        store.compact(project, "notes.md")
        assert store.text(project, "notes.md") == "one"
        assert store.apply(project, "notes.md", second).version == 3

        assert store.text(project, "notes.md") == "one two three"
        assert text_in(store.read(project, "notes.md").update) == "one two three"
        assert text_in(store.diff(project, "notes.md", b"\x00").update) == "one two three"

    def test_a_deletion_that_arrives_before_its_text_is_stored(
        self, store: DocumentStore, project: str
    ) -> None:
        editor = Editor(store, project)
        editor.insert(0, "hello")
        editor.delete(0, 4)
        text, deletion = editor.made

        assert store.apply(project, "notes.md", deletion).changed
        store.compact(project, "notes.md")
        store.apply(project, "notes.md", text)

        assert store.text(project, "notes.md") == "o"

    def test_a_client_of_a_waiting_document_ends_with_all_of_it(
        self, store: DocumentStore, project: str
    ) -> None:
        editor, reader = Editor(store, project), Editor(store, project)
        for word in ("one", " two", " three"):
            editor.insert(len(str(editor.text)), word)
        store.apply(project, "notes.md", editor.made[0])
        store.apply(project, "notes.md", editor.made[2])
        reader.fetch()

        reader.doc.apply_update(editor.made[1])

        assert str(reader.text) == "one two three"

    def test_a_text_is_written_and_read(self, store: DocumentStore, project: str) -> None:
        for text in ("", "one\ntwo\n", EMOJI, EMOJI[::-1], "\r\n\t\u2028", ""):
            store.write_text(project, "a.md", text)

            assert store.text(project, "a.md") == text
            assert store.content(project, "a.md") == text.encode()
            assert text_in(store.read(project, "a.md").update) == text

    def test_the_same_text_again_is_not_a_change(self, store: DocumentStore, project: str) -> None:
        first = store.write_text(project, "a.md", "")

        again = store.write_text(project, "a.md", "")

        assert (first.version, first.changed) == (1, True)
        assert (again.version, again.changed) == (1, False)

    def test_half_a_character_is_refused(self, store: DocumentStore, project: str) -> None:
        with pytest.raises(InvalidInput, match="not valid Unicode"):
            store.write_text(project, "a.md", "\ud83d")

    def test_a_written_text_leaves_an_editor_s_unsent_words_unchanged(
        self, store: DocumentStore, project: str
    ) -> None:
        store.write_text(project, "notes.md", f"first {EMOJI} line\nsecond line\n")
        editor = Editor(store, project)
        editor.fetch()
        editor.insert(6, "(mine) ")

        store.write_text(project, "notes.md", f"first {EMOJI} line\nsecond, better line\nthird\n")
        editor.send()

        assert store.text(project, "notes.md") == f"first (mine) {EMOJI} line\nsecond, better line\nthird\n"

    def test_a_text_written_from_an_older_one_keeps_what_others_added(
        self, store: DocumentStore, project: str
    ) -> None:
        base = f"alpha {EMOJI}\nbeta\ngamma\n"
        store.write_text(project, "a.md", base)
        store.write_text(project, "a.md", f"alpha {EMOJI}\nbeta, theirs\ngamma\n")

        store.write_text(project, "a.md", f"alpha! {EMOJI}\nbeta\ngamma\ndelta\n", base=base)

        assert store.text(project, "a.md") == f"alpha! {EMOJI}\nbeta, theirs\ngamma\ndelta\n"

    def test_a_text_with_something_else_in_it_can_be_written_over(
        self, store: DocumentStore, project: str
    ) -> None:
        doc: Doc[Text] = Doc({"content": Text("before after")})
        doc["content"].insert_embed(6, {"image": "x"})
        doc["content"].format(0, 3, {"bold": True})
        store.apply(project, "a.md", doc.get_update())

        store.write_text(project, "a.md", "before, after")

        assert store.text(project, "a.md") == "before, after"

    def test_bytes_are_written_and_read(self, store: DocumentStore, project: str) -> None:
        for data in (bytes(range(256)), b"", b"\x00"):
            store.write_bytes(project, "a.bin", data)

            assert store.content(project, "a.bin") == data
            assert bytes_in(store.read(project, "a.bin").update) == data

    def test_the_same_bytes_again_are_not_a_change(self, store: DocumentStore, project: str) -> None:
        first, again = (store.write_bytes(project, "a.bin", b"") for _ in range(2))

        assert (first.version, first.changed) == (1, True)
        assert (again.version, again.changed) == (1, False)

    def test_a_client_makes_a_binary_document(self, store: DocumentStore, project: str) -> None:
        store.apply(project, "a.png", binary_update(b"\x89PNG"), kind="binary")

        entry = store.entry(project, "a.png")
        assert entry is not None
        assert (entry.kind, entry.size) == (BINARY, 4)
        assert store.content(project, "a.png") == b"\x89PNG"
        with pytest.raises(InvalidInput, match="is binary"):
            store.text(project, "a.png")

    def test_the_kind_counts_only_for_a_new_document(self, store: DocumentStore, project: str) -> None:
        store.apply(project, "a.md", text_update("hello"))

        store.apply(project, "a.md", text_update(" more"), kind=BINARY)

        assert len(store.text(project, "a.md")) == len("hello more")
        with pytest.raises(InvalidInput, match="kind"):
            store.apply(project, "a.md", b"\x00\x00", kind="picture")

    def test_a_value_other_than_bytes_is_an_empty_file(self, store: DocumentStore, project: str) -> None:
        doc: Doc[Map[object]] = Doc({"file": Map({"bytes": "text"})})

        store.apply(project, "a.bin", doc.get_update(), kind=BINARY)

        assert store.content(project, "a.bin") == b""

    def test_a_text_becomes_binary_and_back(self, store: DocumentStore, project: str) -> None:
        kinds = []
        for content in ("text", b"\x00", b"", ""):
            if isinstance(content, str):
                assert store.write_text(project, "a", content).changed
            else:
                assert store.write_bytes(project, "a", content).changed
            entry = store.entry(project, "a")
            assert entry is not None
            kinds.append((entry.kind, entry.size, entry.version))

        assert kinds == [(TEXT, 4, 1), (BINARY, 1, 2), (BINARY, 0, 3), (TEXT, 0, 4)]

    def test_a_file_of_several_megabytes_comes_back_whole(self, store: DocumentStore, project: str) -> None:
        data = bytes(range(256)) * 12_000
        other = data[::-1]

        store.write_bytes(project, "big.bin", data)
        store.write_bytes(project, "big.bin", other)

        assert store.content(project, "big.bin") == other
        store.compact(project, "big.bin")
        assert store.content(project, "big.bin") == other
        assert len(store.read(project, "big.bin").update) < len(data) * 1.1

    def test_deleting_empties_the_document_for_its_editors(self, store: DocumentStore, project: str) -> None:
        editor = Editor(store, project)
        editor.insert(0, "hello")
        editor.send()
        store.delete(project, "notes.md")

        fresh = Editor(store, project)
        fresh.insert(0, "new")
        fresh.send()

        assert store.text(project, "notes.md") == "new"
        editor.fetch()
        assert str(editor.text) == "new"

    def test_an_empty_file_can_be_deleted(self, store: DocumentStore, project: str) -> None:
        store.write_text(project, "a.md", "")

        tomb = store.delete(project, "a.md")

        assert (tomb.version, tomb.deleted) == (2, True)
        assert store.delete(project, "a.md") == tomb

    def test_a_word_typed_before_the_deletion_arrived_brings_the_file_back(
        self, store: DocumentStore, project: str
    ) -> None:
        editor = Editor(store, project)
        editor.insert(0, "hello")
        editor.send()
        store.delete(project, "notes.md")
        editor.insert(5, " again")

        applied = editor.send()

        assert (applied.version, applied.changed) == (3, True)
        assert store.text(project, "notes.md") == " again"

    def test_an_update_that_leaves_nothing_does_not_bring_a_file_back(
        self, store: DocumentStore, project: str
    ) -> None:
        editor = Editor(store, project)
        editor.insert(0, "hello")
        editor.send()
        store.delete(project, "notes.md")
        editor.insert(5, "x")
        editor.delete(5, 6)

        applied = editor.send()

        entry = store.entry(project, "notes.md")
        assert entry is not None
        assert (applied.version, applied.changed) == (3, True)
        assert (entry.version, entry.deleted) == (3, True)

    def test_compaction_changes_nothing_that_can_be_seen(self, store: DocumentStore, project: str) -> None:
        editor = Editor(store, project)
        for number in range(5):
            editor.insert(0, f"{number} ")
            editor.send()
        listed, read = store.files(project), store.read(project, "notes.md")

        assert store.compact(project, "notes.md")
        assert not store.compact(project, "notes.md")

        assert store.files(project) == listed
        assert store.read(project, "notes.md") == read
        editor.insert(0, "more ")
        assert editor.send().version == 6
        assert store.text(project, "notes.md") == "more 4 3 2 1 0 "

    def test_deleted_words_are_gone_after_a_compaction(self, store: DocumentStore, project: str) -> None:
        store.write_text(project, "a.md", "the password is hunter2")
        store.write_text(project, "a.md", "the password is secret")

        store.compact(project, "a.md")

        assert b"hunter2" not in store.read(project, "a.md").update

    def test_a_long_log_is_compacted_by_itself(self, store: DocumentStore, project: str) -> None:
        for number in range(MAX_UPDATES + 1):
            store.write_text(project, "a.md", f"{'x' * number}\n")

        assert store.read(project, "a.md").version == MAX_UPDATES + 1
        assert not store.compact(project, "a.md")
        assert store.text(project, "a.md") == f"{'x' * MAX_UPDATES}\n"
