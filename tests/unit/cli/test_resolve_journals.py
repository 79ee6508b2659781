from __future__ import annotations

from pathlib import Path

import pytest

from longwatch.cli.options import Invocation
from longwatch.cli.resolve import event_lines, open_for_reading, sqlite_path, table_address
from longwatch.errors import InvalidInput, JournalUnusable, RunNotFound
from longwatch.journal.codec import to_line
from longwatch.journal.memory import MemoryJournal
from longwatch.journal.run_lookup import find_run
from longwatch.settings import Settings
from longwatch.storage.urls import TableAddress
from longwatch.testing.clock import FakeClock
from tests.unit.cli.samples import START_MS, Story, failing, research, session


@pytest.fixture
def journal() -> MemoryJournal:
    journal = MemoryJournal(clock=FakeClock())
    for events in (research(), failing(), session()):
        journal.append(events)
    return journal


def test_a_run_is_found_by_its_id_and_by_a_prefix(journal: MemoryJournal) -> None:
    assert find_run(journal, "wf-1a2b3c4d").run_id == "wf-1a2b3c4d"
    assert find_run(journal, "wf-1a").run_id == "wf-1a2b3c4d"


def test_latest_is_the_run_that_began_last(journal: MemoryJournal) -> None:
    assert find_run(journal, "latest").kind == "session"
    assert find_run(journal, "-").kind == "session"


def test_a_run_that_is_called_latest_is_found_by_its_name(journal: MemoryJournal) -> None:
    journal.append(research("latest", at=START_MS - 10_000))

    assert find_run(journal, "latest").run_id == "latest"


def test_an_ambiguous_prefix_lists_the_matching_ids(journal: MemoryJournal) -> None:
    with pytest.raises(InvalidInput, match=r"'wf-1' is ambiguous: wf-1b00ffee, wf-1a2b3c4d\. Type more"):
        find_run(journal, "wf-1")


def test_an_unknown_run_is_refused_with_similar_ones(journal: MemoryJournal) -> None:
    with pytest.raises(RunNotFound, match=r"No run 'wf-1a2b3c4x'\. Did you mean wf-1a2b3c4d\?"):
        find_run(journal, "wf-1a2b3c4x")
    with pytest.raises(RunNotFound, match=r"^No run 'other'\. List them with `longwatch runs`\.$"):
        find_run(journal, "other")


def test_the_latest_of_no_runs_is_an_error() -> None:
    with pytest.raises(RunNotFound, match="No runs in"):
        find_run(MemoryJournal(), "latest")


def test_events_that_arrived_late_are_exported_in_their_order() -> None:
    story = Story()
    for number in range(2500):
        story.add("note", {"n": number}, after=1)
    journal = MemoryJournal(clock=FakeClock())
    journal.append(story.events[1000:])
    journal.append(story.events[:1000])

    lines = list(event_lines(journal, find_run(journal, "latest"), clock=FakeClock()))

    assert lines == [to_line(event) for event in story.events]


def test_reading_a_missing_file_creates_none(tmp_path: Path) -> None:
    invocation = Invocation(journal="sqlite:///missing.db")

    with (
        pytest.raises(JournalUnusable, match=r"No journal at .*missing\.db yet"),
        open_for_reading(invocation),
    ):
        pass

    assert not (tmp_path / "missing.db").exists()


def test_the_file_behind_a_url_is_found() -> None:
    assert sqlite_path("sqlite:///a%20b.db") == Path("a b.db")
    assert sqlite_path("sqlite:////var/j.db") == Path("/var/j.db")
    assert sqlite_path("memory://") is None


def test_the_url_of_a_table_is_completed_from_the_settings() -> None:
    settings = Settings(journal="dynamodb://?layout=session", table_name="events", region="eu-west-1")

    assert table_address(settings) == TableAddress(table="events", region="eu-west-1", layout="session")
