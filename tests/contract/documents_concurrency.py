"""Many writers at once: nothing is lost, all end with the same text, each change has its own version."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st
from pycrdt import Doc, Text

from longwatch.documents.files import Applied
from tests.contract.documents_basis import DocumentsBasis, Editor, OpenStore, new_project
from tests.patience import PATIENCE_SECONDS

PATH = "notes.md"
WORDS = ("x", "word ", "\n", "é", "e\u0301", "😀", "👩‍👩‍👧", "🇩🇪", "日本", "\u200f")


@dataclass(frozen=True)
class Step:
    """Something that one of the editors, or the store, does."""

    what: str
    who: int = 0
    at: float = 0.0  # where in the text, from 0 to 1
    length: float = 0.0
    word: str = ""


def steps(editors: int) -> st.SearchStrategy[list[Step]]:
    share = st.floats(0, 1, allow_nan=False)
    who = st.integers(0, editors - 1)
    return st.lists(
        st.one_of(
            st.builds(Step, st.just("insert"), who, share, share, st.sampled_from(WORDS)),
            st.builds(Step, st.just("delete"), who, share, share),
            st.builds(Step, st.sampled_from(["send", "fetch", "send one"]), who),
            st.builds(Step, st.just("write"), who, share, share, st.sampled_from(WORDS)),
            st.builds(Step, st.sampled_from(["compact", "remove", "reopen"])),
        ),
        max_size=30,
    )


class Story:
    """Several editors and one that has received every single update: what the store must come to."""

    def __init__(self, open_store: OpenStore, editors: int) -> None:
        self._open_store = open_store
        self.store, self.project = open_store(), new_project()
        self.editors = [Editor(self.store, self.project, PATH) for _ in range(editors)]
        self.versions = [0]
        self.changes = 0

    def play(self, story: Sequence[Step]) -> None:
        for step in story:
            self._do(step, self.editors[step.who])
        for editor in self.editors:
            self._note(editor.send())

    def _do(self, step: Step, editor: Editor) -> None:
        there = self.store.entry(self.project, PATH)
        alive = there is not None and not there.deleted
        length = len(str(editor.text))
        match step.what:
            case "insert":
                editor.insert(int(step.at * length), step.word)
            case "delete":
                start = int(step.at * length)
                editor.delete(start, start + int(step.length * (length - start)))
            case "send":
                self._note(editor.send())
            case "send one" if editor.made:  # only the last edit, so that earlier ones may be missing
                self._note(self.store.apply(self.project, PATH, editor.made[-1]))
            case "fetch" if alive:
                editor.fetch()
            case "write":
                self._write(step, alive=alive)
            case "compact" if there is not None:
                self.store.compact(self.project, PATH)
            case "remove" if alive:
                self.changes += 1
                self.versions.append(self.store.delete(self.project, PATH).version)
            case "reopen":
                self.store = self._open_store()

    def _write(self, step: Step, *, alive: bool) -> None:
        now = self.store.text(self.project, PATH) if alive else ""
        start = int(step.at * len(now))
        end = start + int(step.length * (len(now) - start))
        wanted = now[:start] + step.word + now[end:]
        self._note(self.store.write_text(self.project, PATH, wanted))
        assert self.store.text(self.project, PATH) == wanted

    def _note(self, applied: Applied) -> None:
        self.changes += applied.changed
        self.versions.append(applied.version)

    def expected(self) -> str:
        """The text of a client that received every update of every editor, and everything in the store."""
        doc: Doc[Text] = Doc()
        for editor in self.editors:
            for update in editor.made:
                doc.apply_update(update)
        doc.apply_update(self.store.read(self.project, PATH).update)
        return str(doc.get("content", type=Text))


class ConcurrentWritesContract(DocumentsBasis):
    def test_editors_converge_whatever_they_do(self, open_store: OpenStore) -> None:
        @self.hypothesis()
        @given(story=steps(3))
        def check(story: list[Step]) -> None:
            played = Story(open_store, 3)

            played.play(story)

            assert played.versions == sorted(played.versions)
            entry = played.store.entry(played.project, PATH)
            assert (entry.version if entry else 0) == played.changes
            assert played.store.project_version(played.project) == played.changes
            if entry is None or entry.deleted:
                return
            for editor in played.editors:
                editor.fetch()
            assert {str(editor.text) for editor in played.editors} == {
                played.store.text(played.project, PATH)
            }
            assert played.store.text(played.project, PATH) == played.expected()

        check()

    def test_words_of_writers_who_race_are_all_there(self, open_store: OpenStore, project: str) -> None:
        writers, rounds = 4, 6
        stores = [open_store() for _ in range(2)]

        def write(writer: int) -> list[Applied]:
            editor = Editor(stores[writer % 2], project)
            done = []
            for number in range(rounds):
                editor.insert(0, f"<{writer}.{number}>")
                done.append(editor.send())
            return done

        applied = at_once([lambda writer=writer: write(writer) for writer in range(writers)])  # type: ignore[misc]

        text = stores[0].text(project, "notes.md")
        assert all(f"<{writer}.{number}>" in text for writer in range(writers) for number in range(rounds))
        versions = sorted(each.version for each in applied if each.changed)
        assert versions == list(range(1, writers * rounds + 1))
        assert stores[1].project_version(project) == writers * rounds

    def test_whole_texts_that_are_written_at_once_merge(self, open_store: OpenStore, project: str) -> None:
        stores = [open_store() for _ in range(2)]
        lines = [f"line {number}\n" for number in range(4)]
        stores[0].write_text(project, "a.md", "".join(lines))

        def write(number: int) -> list[Applied]:
            mine = [f"changed {number}\n" if each == number else line for each, line in enumerate(lines)]
            return [stores[number % 2].write_text(project, "a.md", "".join(mine), base="".join(lines))]

        at_once([lambda number=number: write(number) for number in range(4)])  # type: ignore[misc]

        assert stores[0].text(project, "a.md") == "".join(f"changed {number}\n" for number in range(4))
        assert stores[0].project_version(project) == 5

    def test_files_of_one_project_that_change_at_once_are_all_counted(
        self, open_store: OpenStore, project: str
    ) -> None:
        stores = [open_store() for _ in range(2)]

        def write(number: int) -> list[Applied]:
            return [stores[number % 2].write_bytes(project, f"{number}/{each}", b"x") for each in range(4)]

        at_once([lambda number=number: write(number) for number in range(4)])  # type: ignore[misc]

        listed = stores[0].files(project, since=0)
        assert listed.version == 16
        assert sorted(each.project_version for each in listed.files) == list(range(1, 17))

    def test_a_reader_that_requests_changes_misses_nothing(self, open_store: OpenStore, project: str) -> None:
        writers, rounds = 3, 6
        stores = [open_store() for _ in range(writers)]
        reader, done, seen = open_store(), threading.Event(), dict[str, int]()

        def read() -> list[Applied]:
            version = 0
            while True:
                last = done.is_set()
                news = reader.files(project, since=version)
                seen.update({each.path: each.version for each in news.files})
                version = news.version
                if last and version == writers * rounds:
                    return []

        def write(number: int) -> list[Applied]:
            return [
                stores[number].write_text(project, f"{number}.md", f"round {each}") for each in range(rounds)
            ]

        with ThreadPoolExecutor(1) as threads:
            reading = threads.submit(read)
            at_once([lambda number=number: write(number) for number in range(writers)])  # type: ignore[misc]
            done.set()
            reading.result(timeout=PATIENCE_SECONDS)

        assert seen == {f"{number}.md": rounds for number in range(writers)}

    def test_compaction_in_the_middle_of_a_race_loses_nothing(
        self, open_store: OpenStore, project: str
    ) -> None:
        rounds = 8
        stores = [open_store() for _ in range(3)]
        stores[0].write_text(project, "notes.md", "")

        def write(number: int) -> list[Applied]:
            editor = Editor(stores[number], project)
            done = []
            for each in range(rounds):
                editor.insert(0, f"<{number}.{each}>")
                done.append(editor.send())
            return done

        def compact() -> list[Applied]:
            for _ in range(rounds):
                stores[2].compact(project, "notes.md")
                stores[2].text(project, "notes.md")
            return []

        at_once([lambda: write(0), lambda: write(1), compact])

        text = stores[2].text(project, "notes.md")
        assert all(f"<{number}.{each}>" in text for number in range(2) for each in range(rounds))
        assert stores[0].read(project, "notes.md").version == 2 * rounds + 1

    def test_two_large_files_written_at_once_leave_one_of_them_whole(
        self, open_store: OpenStore, project: str
    ) -> None:
        stores = [open_store() for _ in range(2)]
        contents = [bytes([number]) * 900_000 for number in (1, 2)]

        at_once(
            [
                lambda number=number: [stores[number].write_bytes(project, "big", contents[number])]  # type: ignore[misc]
                for number in range(2)
            ]
        )

        assert stores[0].content(project, "big") in contents
        assert stores[0].read(project, "big").version == 2


def at_once(tasks: Sequence[Callable[[], list[Applied]]]) -> list[Applied]:
    """Run all of them in threads that start together, and return what they did."""
    start = threading.Barrier(len(tasks))

    def run(task: Callable[[], list[Applied]]) -> list[Applied]:
        start.wait()
        return task()

    with ThreadPoolExecutor(len(tasks)) as threads:
        return [applied for done in threads.map(run, tasks) for applied in done]
