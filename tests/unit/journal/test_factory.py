"""Addresses of journals, and what they open."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.errors import InvalidJournalUrl, LongwatchError
from longwatch.journal.factory import open_journal
from longwatch.journal.memory import MemoryJournal
from longwatch.journal.sqlite import SqliteJournal
from longwatch.model.event import Event
from longwatch.settings import Settings, sqlite_url
from longwatch.testing.clock import FakeClock

NOTE = Event(run_id="wf-1", event_id="e1", type="note", occurred_at=1000)


def opened_path(url: str) -> Path:
    """The file that an address opens, which exists afterwards."""
    with open_journal(url) as journal:
        assert isinstance(journal, SqliteJournal)
        path = Path(journal.path).absolute()
        journal.append([NOTE])
        assert path.is_file()
        return path


def test_three_slashes_and_a_path_are_relative(tmp_path: Path) -> None:
    assert opened_path("sqlite:///runs.db") == tmp_path / "runs.db"


def test_four_slashes_are_an_absolute_path(tmp_path: Path) -> None:
    assert opened_path(f"sqlite:///{tmp_path}/runs.db") == tmp_path / "runs.db"


def test_a_tilde_is_the_home_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()

    assert opened_path("sqlite:///~/runs.db") == tmp_path / "home" / "runs.db"


@pytest.mark.parametrize("name", ["what?.db", "100%25.db", "a#b.db", "with space.db", "Zoë.db", "a&b=c.db"])
def test_a_file_of_any_name_has_a_url(tmp_path: Path, name: str) -> None:
    assert opened_path(sqlite_url(tmp_path / name)) == tmp_path / name


def test_a_hash_is_part_of_the_name_of_a_file(tmp_path: Path) -> None:
    assert opened_path("sqlite:///a#b.db") == tmp_path / "a#b.db"


def test_a_scheme_is_read_in_any_case(tmp_path: Path) -> None:
    assert opened_path("SQLite:///Runs.db") == tmp_path / "Runs.db"


def test_without_a_url_the_settings_decide(tmp_path: Path) -> None:
    settings = Settings(journal=f"sqlite:///{tmp_path}/chosen.db")

    with open_journal(settings=settings) as journal:
        assert isinstance(journal, SqliteJournal)
        assert Path(journal.path) == tmp_path / "chosen.db"


def test_without_any_settings_it_is_a_file_in_the_data_directory(tmp_path: Path) -> None:
    with open_journal() as journal:
        assert isinstance(journal, SqliteJournal)
        assert Path(journal.path) == tmp_path / "data" / "longwatch.db"


def test_mistakes_in_the_settings_do_not_stop_a_caller_that_needs_none(tmp_path: Path) -> None:
    (tmp_path / "longwatch.toml").write_text("this is no TOML")

    assert isinstance(open_journal("memory://"), MemoryJournal)
    with pytest.raises(LongwatchError):
        open_journal()


def test_memory_under_one_name_is_one_journal() -> None:
    one = open_journal("memory://one-journal")
    one.append([NOTE])
    one.close()

    again = open_journal("memory://one-journal")

    assert again is one
    assert again.url == "memory://one-journal"
    assert len(again.read("wf-1").events) == 1
    assert open_journal("memory://another-journal") is not one


def test_memory_without_a_name_is_a_new_journal_each_time() -> None:
    assert open_journal("memory://") is not open_journal("memory://")


def test_the_clock_that_is_handed_over_decides_what_has_expired() -> None:
    clock = FakeClock(now_ms=10_000)
    journal = open_journal("memory://", clock=clock)
    journal.append([Event(run_id="wf-1", event_id="e1", type="note", occurred_at=1000, ttl=11)])

    clock.advance(1)

    assert journal.read("wf-1").events == []


@pytest.mark.parametrize(
    ("url", "advice"),
    [
        ("", "sqlite:///path/to/file.db"),
        ("postgres://host/db", "sqlite:///path/to/file.db"),
        ("runs.db", "use sqlite:///runs.db"),
        ("/var/runs.db", "use sqlite:////var/runs.db"),
        ("sqlite://", "Use sqlite:///longwatch.db"),
        ("sqlite:///", "Use sqlite:///longwatch.db"),
        ("sqlite:runs.db", "Use sqlite:///longwatch.db"),
        ("sqlite:/var/runs.db", "or sqlite:////path for an absolute one"),
        ("sqlite://runs.db", "Use sqlite:///runs.db"),
        ("sqlite:///:memory:", "Use memory://"),
        ("sqlite:///a%00b", "null byte"),
        ("sqlite:///~nobody-of-that-name/runs.db", "Use an absolute path"),
        ("sqlite:///runs.db?mode=ro", "Unknown option mode"),
        ("sqlite:///what?.db", "%3F"),
        ("memory://name/path", "Use memory://NAME"),
        ("memory:///name", "Use memory://NAME"),
        ("memory:name", "Use memory://NAME"),
        ("memory://?size=3", "Unknown option size"),
        ("memory://[", "Invalid journal URL"),
        ("dynamodb://table/path", "Use dynamodb://table"),
        (
            "dynamodb://table?colour=red",
            "Known options: region, layout, endpoint",
        ),
    ],
)
def test_an_unsupported_url_is_refused_with_advice(url: str, advice: str) -> None:
    with pytest.raises(InvalidJournalUrl) as refused:
        open_journal(url)

    assert advice in str(refused.value)
    assert repr(url) in str(refused.value)
    assert not list(Path.cwd().iterdir())


@given(st.text() | st.text(min_size=1).map(lambda rest: f"memory:{rest}"))
def test_whatever_a_url_holds_it_is_opened_or_refused(url: str) -> None:
    if url.lower().lstrip().startswith(("sqlite:", "dynamodb:")):
        return

    try:
        journal = open_journal(url)
    except InvalidJournalUrl:
        return
    assert isinstance(journal, MemoryJournal)
