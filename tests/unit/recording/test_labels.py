"""Tags, user and session that a program states about its run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import longwatch
from longwatch.journal.memory import MemoryJournal
from longwatch.model.summary import RunSummary
from longwatch.recording.labels import label_fields
from longwatch.recording.recorder import Recorder
from tests.unit.recording.recorded import events_of


def recorded(recorder: Recorder, journal: MemoryJournal, run_id: str | None) -> RunSummary:
    recorder.flush()
    found = journal.find_run(run_id or "")
    assert found is not None
    return found


def test_a_run_states_its_labels_at_its_start_and_later(configured: Recorder, journal: MemoryJournal) -> None:
    with longwatch.run("x", tags=["nightly"], user="ann", session="s-1", region="eu") as run:
        assert longwatch.tag("retried", "nightly", session="s-2")

    found = recorded(configured, journal, run.run_id)
    assert found.tags == {"nightly", "retried"}
    assert (found.labels.user, found.labels.session) == ("ann", "s-2")
    assert events_of(journal, run.run_id)[0].payload["region"] == "eu"


def test_a_workflow_states_its_labels(configured: Recorder, journal: MemoryJournal) -> None:
    @longwatch.workflow(tags=("nightly",), user="ann")
    def work(number: int) -> str | None:
        return longwatch.current_run_id()

    found = recorded(configured, journal, work(1))

    assert found.tags == {"nightly"}
    assert (found.labels.user, found.labels.session) == ("ann", None)


def test_secrets_in_tags_are_redacted(configured: Recorder, journal: MemoryJournal) -> None:
    with longwatch.run("x", tags=["key AKIAIOSFODNN7EXAMPLE", "plain"]) as run:
        pass

    tags = recorded(configured, journal, run.run_id).tags
    assert "plain" in tags
    assert not any("AKIAIOSFODNN7EXAMPLE" in tag for tag in tags)


def test_a_tag_outside_a_run_is_not_recorded(configured: Recorder) -> None:
    assert not longwatch.tag("nightly")


def test_one_text_is_one_tag() -> None:
    assert label_fields("nightly") == {"tags": ["nightly"]}
    assert label_fields(["", "  "], user="") == {}


def test_labels_that_cannot_be_read_break_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> Iterator[str]:
        yield "a"
        raise OSError("away")

    assert label_fields(broken(), user="ann") == {}
