"""SIGTERM reports the sessions at work, then does what it did before."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from longwatch.journal.memory import MemoryJournal
from longwatch.recording import lifecycle
from longwatch.recording.sessions import SessionRecorder
from longwatch.recording.sessions.agent import TERMINATED, AgentSession, chain_sigterm, running_sessions

FAILED = "AGENT_BACKGROUND_TASK_FAILED"


@pytest.fixture(autouse=True)
def _signals_as_before() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, before)
    running_sessions.clear()


@pytest.fixture
def journal() -> MemoryJournal:
    return MemoryJournal()


@pytest.fixture
def session(journal: MemoryJournal) -> AgentSession:
    return AgentSession(SessionRecorder(journal, "s-1"))


def failures(journal: MemoryJournal) -> list[object]:
    return [event.payload["error_message"] for event in journal.read("s-1").events if event.type == FAILED]


def test_a_task_under_way_failed_and_the_handler_of_before_is_called(
    journal: MemoryJournal, session: AgentSession
) -> None:
    called: list[list[object]] = []
    signal.signal(signal.SIGTERM, lambda *_: called.append(failures(journal)))
    chain_sigterm()
    session.on_task_start(None)

    signal.raise_signal(signal.SIGTERM)

    assert called == [[TERMINATED]]  # it was stored before


def test_a_server_that_sets_and_restores_handlers_keeps_the_chain(session: AgentSession) -> None:
    called: list[str] = []
    signal.signal(signal.SIGTERM, lambda *_: called.append("program"))
    chain_sigterm()
    restored = signal.signal(signal.SIGTERM, lambda *_: called.append("server"))
    chain_sigterm()
    chain_sigterm()

    signal.raise_signal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, restored)
    signal.raise_signal(signal.SIGTERM)

    assert called == ["server", "program"]


def test_work_that_has_ended_is_not_reported(journal: MemoryJournal, session: AgentSession) -> None:
    signal.signal(signal.SIGTERM, lambda *_: None)
    chain_sigterm()
    session.on_task_start(None)
    session.on_task_end(None, None)

    signal.raise_signal(signal.SIGTERM)

    assert failures(journal) == []


def test_a_task_that_is_cancelled_on_the_way_out_is_reported_once(
    journal: MemoryJournal, session: AgentSession
) -> None:
    session.on_task_start(None)

    session.terminate(TERMINATED)
    session.terminate(TERMINATED)
    session.on_task_end(None, RuntimeError("cancelled"))

    assert failures(journal) == [TERMINATED]


def test_a_task_that_completes_after_all_is_recorded_as_completed(
    journal: MemoryJournal, session: AgentSession
) -> None:
    session.on_task_start(None)

    session.terminate(TERMINATED)
    session.on_task_end(None, None)

    run = journal.find_run("s-1")
    assert run is not None
    assert run.status == "succeeded"


def test_the_default_action_becomes_one_that_stores_events_first() -> None:
    chain_sigterm()

    handler = signal.getsignal(signal.SIGTERM)
    assert getattr(handler, "_previous", None) is lifecycle._on_sigterm


def test_a_program_that_ignores_sigterm_is_left_alone() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)

    chain_sigterm()

    assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
