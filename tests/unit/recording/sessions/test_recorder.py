"""Writing the journal of one session."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest
from botocore.exceptions import ClientError, NoCredentialsError

from longwatch.errors import EventConflict, InvalidEvent, JournalUnavailable, Throttled
from longwatch.journal.codec import encode_payload
from longwatch.model.event import Event
from longwatch.recording.sessions import SessionRecorder, SessionStatus
from longwatch.recording.sessions.recorder import QUICK_RETRIES, failure_text
from longwatch.settings import Settings
from longwatch.settings_catalog import MAX_PAYLOAD_BYTES
from longwatch.testing import FakeClock, FaultyJournal, MemoryJournal

EXECUTION = "arn:aws:states:eu-west-1:000000000000:execution:session:one"


def only_event(journal: MemoryJournal) -> Event:
    (event,) = journal.read("s-1").events
    return event


def test_a_status_is_stored_at_once_with_its_execution() -> None:
    journal, clock = MemoryJournal(), FakeClock()

    SessionRecorder(journal, "s-1", execution=EXECUTION, clock=clock).record(SessionStatus.SESSION_INITIATED)

    event = only_event(journal)
    assert (event.type, event.occurred_at) == ("SESSION_INITIATED", clock.now_ms())
    assert dict(event.payload) == {"execution": EXECUTION}


def test_a_failure_carries_class_and_message() -> None:
    journal = MemoryJournal()

    SessionRecorder(journal, "s-1").record("AGENT_BACKGROUND_TASK_FAILED", error=ValueError("no answer"))

    assert only_event(journal).payload["error_message"] == "ValueError: no answer"


def test_a_failure_without_an_error_states_that_there_is_no_message() -> None:
    journal = MemoryJournal()

    SessionRecorder(journal, "s-1").record("AGENT_BACKGROUND_TASK_FAILED")

    assert only_event(journal).payload["error_message"] == "no message"


def test_a_message_that_the_caller_passes_as_a_field_is_stored() -> None:
    journal = MemoryJournal()

    SessionRecorder(journal, "s-1").try_record("AGENT_BACKGROUND_TASK_FAILED", error_message="disk full")

    assert only_event(journal).payload["error_message"] == "disk full"


def test_an_unknown_status_is_refused_before_anything_is_written() -> None:
    journal = MemoryJournal()

    with pytest.raises(InvalidEvent, match="Invalid session status 'DONE'"):
        SessionRecorder(journal, "s-1").record("DONE")

    assert not journal.read("s-1").events


def test_a_session_needs_an_id() -> None:
    with pytest.raises(InvalidEvent, match="session_id"):
        SessionRecorder(MemoryJournal(), "")


def test_a_temporary_error_is_retried() -> None:
    clock, memory = FakeClock(), MemoryJournal()
    journal = FaultyJournal(memory)
    journal.fail(2, Throttled("slow down"))

    SessionRecorder(journal, "s-1", clock=clock).record("SESSION_INITIATED")

    assert len(memory.read("s-1").events) == 1
    assert clock.slept == list(QUICK_RETRIES[:2])


def test_a_permanent_error_is_raised() -> None:
    journal = FaultyJournal(MemoryJournal())
    journal.fail(10, Throttled("slow down"))

    with pytest.raises(JournalUnavailable):
        SessionRecorder(journal, "s-1", clock=FakeClock()).record("SESSION_INITIATED")


def test_reporting_never_raises_and_logs_what_could_not_be_stored(caplog: pytest.LogCaptureFixture) -> None:
    journal = FaultyJournal(MemoryJournal())
    journal.fail(1, EventConflict(["x"]))

    with caplog.at_level(logging.ERROR, "longwatch"):
        is_stored = SessionRecorder(journal, "s-1").try_record("AGENT_BACKGROUND_TASK_COMPLETED")

    assert not is_stored
    assert '"type":"AGENT_BACKGROUND_TASK_COMPLETED"' in caplog.text


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (RuntimeError("out of luck"), "RuntimeError: out of luck"),
        (KeyError(), "KeyError"),
        (NoCredentialsError(), "NoCredentialsError: Unable to locate credentials"),
        (
            ClientError({"Error": {"Code": "AccessDenied", "Message": "not you"}}, "InvokeAgentRuntime"),
            "ClientError: AccessDenied: not you",
        ),
        (
            ClientError({"Error": {"Code": "Throttled", "Message": ""}}, "Query"),
            "ClientError: Throttled: no message",
        ),
        (ValueError("token ghp_" + "a" * 36), "ValueError: token [redacted]"),
    ],
)
def test_an_error_is_described_by_class_and_message(error: Exception, text: str) -> None:
    assert failure_text(error) == text


SECRET = "ghp_" + "a" * 36


def test_an_error_passed_as_text_is_redacted_like_an_exception() -> None:
    journal = MemoryJournal()

    SessionRecorder(journal, "s-1").record("AGENT_BACKGROUND_TASK_FAILED", error=f"no access with {SECRET}")

    assert only_event(journal).payload["error_message"] == "no access with [redacted]"


def test_payload_fields_are_redacted_by_name_and_by_shape() -> None:
    journal = MemoryJournal()
    fields: dict[str, Any] = {
        "password": "hunter2",
        "note": f"used {SECRET}",
        "request": {"headers": {"authorization": "Basic x"}, "tried": [SECRET]},
        "ours": "x",
    }

    SessionRecorder(
        journal, "s-1", execution=EXECUTION, settings=Settings(journal="", redact_keys=("ours",))
    ).record("TASK_calling_COMPLETED", **fields)

    assert dict(only_event(journal).payload) == {
        "password": "[redacted]",
        "note": "used [redacted]",
        "request": {"headers": {"authorization": "[redacted]"}, "tried": ["[redacted]"]},
        "ours": "[redacted]",
        "execution": EXECUTION,
    }


def test_a_status_that_is_only_logged_is_redacted_too(caplog: pytest.LogCaptureFixture) -> None:
    journal = FaultyJournal(MemoryJournal())
    journal.fail(1, EventConflict(["x"]))

    SessionRecorder(journal, "s-1").try_record("AGENT_BACKGROUND_TASK_FAILED", error=SECRET)

    assert "[redacted]" in caplog.text
    assert SECRET not in caplog.text


@pytest.mark.parametrize("characters", [4_096, 400_000, 5_000_000])
@pytest.mark.parametrize("letter", ["x", "ü", "\\", "\ud800"])
def test_an_error_of_any_length_is_stored_within_the_limit(characters: int, letter: str) -> None:
    journal = MemoryJournal()

    SessionRecorder(journal, "s-1", execution=EXECUTION).record(
        "AGENT_BACKGROUND_TASK_FAILED", error=RuntimeError(letter * characters)
    )

    event = only_event(journal)
    assert event.payload["execution"] == EXECUTION
    assert str(event.payload["error_message"]).startswith("RuntimeError: ")
    assert len(encode_payload(event.payload).encode()) <= MAX_PAYLOAD_BYTES


def test_a_payload_that_no_journal_holds_becomes_one_that_it_does() -> None:
    journal = MemoryJournal()

    SessionRecorder(journal, "s-1").record(
        "TASK_summing_COMPLETED", total=float("nan"), lock=threading.Lock()
    )

    assert only_event(journal).payload["total"] == "nan"
