"""Projects and lists of files: what is there, what changed, what is gone."""

from __future__ import annotations

import hashlib

import pytest

from longwatch.documents.files import FileChange
from longwatch.documents.store import DocumentStore
from longwatch.errors import DocumentNotFound, InvalidPath
from longwatch.testing.clock import FakeClock
from tests.contract.documents_basis import BINARY, TEXT, DocumentsBasis, OpenStore, new_project, text_update


class FileListContract(DocumentsBasis):
    def test_an_unknown_project_reads_as_empty(self, store: DocumentStore, project: str) -> None:
        assert store.project(project) is None
        assert store.project_version(project) == 0
        assert store.files(project).files == ()
        assert store.files(project, since=0).version == 0

    def test_a_project_is_made_once_and_keeps_its_name(
        self, store: DocumentStore, project: str, clock: FakeClock
    ) -> None:
        made = store.create_project(project, "Notes")
        clock.advance(5)

        again = store.create_project(project, "Other")

        assert again == made == store.project(project)
        assert (made.name, made.version) == ("Notes", 0)

    def test_writing_a_file_makes_the_project(self, store: DocumentStore, project: str) -> None:
        store.write_text(project, "a.md", "one")

        found = store.project(project)

        assert found is not None
        assert (found.name, found.version) == (project, 1)

    def test_projects_are_listed_by_their_ids(self, store: DocumentStore) -> None:
        names = sorted(new_project() for _ in range(3))
        for name in reversed(names):
            store.create_project(name)

        listed = [each.project for each in store.projects() if each.project in names]

        assert listed == names

    def test_an_entry_describes_the_content_of_a_file(
        self, store: DocumentStore, project: str, clock: FakeClock
    ) -> None:
        made = clock.now_ms()
        store.write_text(project, "a.md", "größer")
        clock.advance(2)
        store.write_bytes(project, "b.bin", b"\x00\xff")
        store.write_text(project, "a.md", "größer 😀")

        first, second = store.files(project).files

        assert (first.path, first.version, first.kind, first.deleted) == ("a.md", 2, TEXT, False)
        assert first.size == len("größer 😀".encode())
        assert first.sha256 == hashlib.sha256("größer 😀".encode()).hexdigest()
        assert (first.created_at, first.last_modified) == (made, made + 2000)
        assert (second.path, second.version, second.kind, second.size) == ("b.bin", 1, BINARY, 2)

    def test_the_project_s_version_grows_by_one_with_each_change(
        self, store: DocumentStore, project: str
    ) -> None:
        seen = []
        for change in (
            lambda: store.write_text(project, "a.md", "one"),
            lambda: store.write_text(project, "a.md", "one"),
            lambda: store.write_bytes(project, "b", b"x"),
            lambda: store.delete(project, "a.md"),
            lambda: store.delete(project, "a.md"),
            lambda: store.apply(project, "c.md", text_update("three")),
        ):
            change()
            seen.append(store.project_version(project))

        assert seen == [1, 1, 2, 3, 3, 4]

    def test_changes_since_a_version_are_listed_with_deletions(
        self, store: DocumentStore, project: str
    ) -> None:
        for name in ("kept", "changed", "gone"):
            store.write_text(project, name, "x")
        version = store.files(project).version
        store.write_text(project, "changed", "y")
        store.delete(project, "gone")
        store.write_text(project, "new", "z")

        news = store.files(project, since=version)

        assert {each.path: each.change_since(version) for each in news.files} == {
            "changed": FileChange.MODIFIED,
            "gone": FileChange.DELETED,
            "new": FileChange.CREATED,
        }
        assert [each.path for each in news.files] == ["changed", "gone", "new"]
        assert news.version == version + 3
        assert store.files(project, since=news.version).files == ()

    def test_a_file_that_came_back_is_created_again(
        self, store: DocumentStore, project: str, clock: FakeClock
    ) -> None:
        store.write_text(project, "a.md", "one")
        clock.advance(1)
        tomb = store.delete(project, "a.md")
        clock.advance(1)

        back = store.write_text(project, "a.md", "two")

        entry = store.entry(project, "a.md")
        assert entry is not None
        assert (tomb.version, tomb.deleted, tomb.size) == (2, True, 0)
        assert (back.version, entry.version, entry.deleted) == (3, 3, False)
        assert entry.change_since(tomb.project_version) is FileChange.CREATED
        assert entry.created_at == entry.last_modified == clock.now_ms()

    def test_only_files_that_are_there_are_listed_without_a_version(
        self, store: DocumentStore, project: str
    ) -> None:
        store.write_text(project, "a.md", "")
        store.write_text(project, "b.md", "x")
        store.delete(project, "b.md")

        assert [each.path for each in store.files(project).files] == ["a.md"]
        assert [each.path for each in store.files(project, since=0).files] == ["a.md", "b.md"]

    @pytest.mark.parametrize("since", [None, 1])
    def test_a_prefix_chooses_paths_that_begin_with_it(
        self, store: DocumentStore, project: str, since: int | None
    ) -> None:
        for path in ("_", "doc.md", "docs/a.md", "docs/é/b.md", "docs_old/c.md", "docz"):
            store.write_text(project, path, path)

        def listed(prefix: str) -> list[str]:
            return [each.path for each in store.files(project, prefix=prefix, since=since).files]

        assert listed("docs/") == ["docs/a.md", "docs/é/b.md"]
        assert listed("docs/e\u0301") == ["docs/é/b.md"]
        assert listed("docs%") == []
        assert listed("docs") == ["docs/a.md", "docs/é/b.md", "docs_old/c.md"]
        assert listed("x" * 3000) == []

    def test_entries_are_returned_in_the_requested_order(self, store: DocumentStore, project: str) -> None:
        for path in ("a", "b", "c"):
            store.write_text(project, path, path)
        store.delete(project, "b")

        found = store.entries(project, ["c", "nothing", "b", "c"])

        assert [(each.path, each.deleted) for each in found] == [("c", False), ("b", True), ("c", False)]
        assert store.entries(project, []) == ()
        assert store.entry(project, "nothing") is None

    def test_more_entries_than_one_request_holds(self, store: DocumentStore, project: str) -> None:
        store.write_text(project, "there", "x")
        missing = [f"none/{number}" for number in range(120)]

        assert [each.path for each in store.entries(project, [*missing, "there"])] == ["there"]

    def test_projects_do_not_see_each_other(self, store: DocumentStore, project: str) -> None:
        other = new_project()
        store.write_text(project, "a.md", "mine")
        store.write_text(other, "a.md", "theirs")

        store.delete(project, "a.md")

        assert store.text(other, "a.md") == "theirs"
        assert store.project_version(other) == 1

    def test_a_missing_file_can_not_be_read_or_deleted(self, store: DocumentStore, project: str) -> None:
        store.write_text(project, "gone.md", "x")
        store.delete(project, "gone.md")

        for path in ("gone.md", "never.md"):
            with pytest.raises(DocumentNotFound):
                store.read(project, path)
            with pytest.raises(DocumentNotFound):
                store.diff(project, path, b"\x00")
            with pytest.raises(DocumentNotFound):
                store.text(project, path)
            with pytest.raises(DocumentNotFound):
                store.content(project, path)
        with pytest.raises(DocumentNotFound):
            store.delete(project, "never.md")
        with pytest.raises(DocumentNotFound):
            store.compact(project, "never.md")

    @pytest.mark.parametrize("path", ["../a", "/etc/passwd", "a//b", "a/./b", "", "a\x00b", "a\\b", "a/"])
    def test_no_path_leaves_its_project(self, store: DocumentStore, project: str, path: str) -> None:
        for call in (
            lambda: store.read(project, path),
            lambda: store.diff(project, path, b"\x00"),
            lambda: store.apply(project, path, b"\x00\x00"),
            lambda: store.write_text(project, path, "x"),
            lambda: store.write_bytes(project, path, b"x"),
            lambda: store.delete(project, path),
            lambda: store.compact(project, path),
            lambda: store.entry(project, path),
            lambda: store.text("../x", "a"),
        ):
            with pytest.raises(InvalidPath):
                call()
        assert store.project(project) is None

    def test_one_name_in_two_unicode_forms_is_one_file(self, store: DocumentStore, project: str) -> None:
        store.write_text(project, "cafe\u0301.md", "one")

        assert store.text(project, "caf\u00e9.md") == "one"
        assert [each.path for each in store.files(project).files] == ["caf\u00e9.md"]

    def test_the_longest_path_and_project_fit(self, store: DocumentStore) -> None:
        path, project = "ä" * 512, "p" * 128

        store.write_bytes(project, path, bytes(400_000))

        assert len(store.content(project, path)) == 400_000
        assert [each.path for each in store.files(project, prefix=path).files] == [path]

    def test_another_process_sees_the_same(self, open_store: OpenStore, project: str) -> None:
        one, other = open_store(), open_store()

        one.write_text(project, "a.md", "hello")

        assert other.text(project, "a.md") == "hello"
        assert other.files(project) == one.files(project)
