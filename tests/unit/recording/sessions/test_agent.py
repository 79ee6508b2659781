"""The agent's side of a session: what its entrypoint and its task leave in the journal."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError, NoCredentialsError

from longwatch.errors import Unreachable
from longwatch.journal.base import Journal
from longwatch.model.event import Event
from longwatch.recording.sessions import (
    SessionRecorder,
    TaskState,
    agent_entrypoint,
    background_task,
    record_phase,
    start_background,
)
from longwatch.recording.sessions.agent import OpenRecorder, session_recorder
from longwatch.testing import FakeClock, FaultyJournal, MemoryJournal
from tests.patience import PATIENCE_SECONDS

STARTED = "AGENT_ENTRYPOINT_STARTED"
FAILED = "AGENT_ENTRYPOINT_FAILED"
TASK_STARTED = "AGENT_BACKGROUND_TASK_STARTED"
TASK_COMPLETED = "AGENT_BACKGROUND_TASK_COMPLETED"
TASK_FAILED = "AGENT_BACKGROUND_TASK_FAILED"


def into(journal: Journal) -> OpenRecorder:
    return lambda payload, context: SessionRecorder(journal, "s-1", execution="e-1", clock=FakeClock())


def types(journal: Journal) -> list[str]:
    return [event.type for event in arrived(journal)]


def arrived(journal: Journal) -> list[Event]:
    return list(journal.read("s-1").events)


@pytest.fixture
def journal() -> MemoryJournal:
    return MemoryJournal()


def wait_for_threads() -> None:
    for thread in threading.enumerate():
        if thread.name == "longwatch-background":
            thread.join(PATIENCE_SECONDS)


class TestAnEntrypoint:
    def test_writes_that_it_began(self, journal: MemoryJournal) -> None:
        @agent_entrypoint(open_recorder=into(journal))
        def handle(payload: dict[str, str]) -> str:
            return payload["question"]

        assert handle({"question": "why"}) == "why"
        assert types(journal) == [STARTED]

    def test_that_fails_writes_class_and_message_and_raises_on(self, journal: MemoryJournal) -> None:
        @agent_entrypoint(open_recorder=into(journal))
        def handle(payload: object) -> None:
            raise KeyError("question")

        with pytest.raises(KeyError):
            handle({})

        assert types(journal) == [STARTED, FAILED]
        assert arrived(journal)[-1].payload["error_message"] == "KeyError: 'question'"

    async def test_may_be_asynchronous(self, journal: MemoryJournal) -> None:
        @agent_entrypoint(open_recorder=into(journal))
        async def handle(payload: object) -> None:
            raise ValueError("no")

        with pytest.raises(ValueError, match="no"):
            await handle({})

        assert types(journal) == [STARTED, FAILED]

    def test_may_be_a_generator_that_fails_in_the_middle(self, journal: MemoryJournal) -> None:
        @agent_entrypoint(open_recorder=into(journal))
        def handle(payload: object) -> Iterator[int]:
            yield 1
            raise ValueError("no")

        responses = handle({})

        assert next(responses) == 1
        with pytest.raises(ValueError, match="no"):
            next(responses)
        assert types(journal) == [STARTED, FAILED]

    async def test_may_stream(self, journal: MemoryJournal) -> None:
        @agent_entrypoint(open_recorder=into(journal))
        async def handle(payload: object) -> AsyncIterator[int]:
            yield 1
            yield 2

        assert [item async for item in handle({})] == [1, 2]
        assert types(journal) == [STARTED]

    def test_that_does_the_work_itself_also_writes_its_end(self, journal: MemoryJournal) -> None:
        @agent_entrypoint(does_the_work=True, open_recorder=into(journal))
        def handle(payload: object) -> int:
            return 7

        assert handle({}) == 7
        assert types(journal) == [STARTED, TASK_STARTED, TASK_COMPLETED]

    def test_works_where_no_session_is_named(
        self, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("LONGWATCH_SESSION_ID", raising=False)

        @agent_entrypoint
        def handle(payload: object) -> int:
            return 7

        assert handle({"question": "why"}) == 7
        assert "has no session_id" in caplog.text

    def test_works_where_the_journal_can_not_be_opened(self, caplog: pytest.LogCaptureFixture) -> None:
        def broken(payload: object, context: object) -> SessionRecorder:
            raise OSError("no such place")

        @agent_entrypoint(open_recorder=broken)
        def handle(payload: object) -> int:
            return 7

        assert handle({}) == 7
        assert "cannot open the journal" in caplog.text


def no_journal(payload: object, context: object) -> SessionRecorder:
    raise OSError("no such place")


def no_session(payload: object, context: object) -> None:
    return None


class TestASessionThatCannotBeJournaled:
    @pytest.mark.parametrize("open_recorder", [no_journal, no_session])
    def test_still_runs_its_background_task(self, open_recorder: OpenRecorder) -> None:
        done: list[str] = []

        @agent_entrypoint(open_recorder=open_recorder)
        def handle(payload: object) -> str:
            start_background(done.append, "task")
            record_phase("indexing", TaskState.STARTED)
            return "accepted"

        assert handle({}) == "accepted"
        wait_for_threads()

        assert done == ["task"]

    @pytest.mark.parametrize("open_recorder", [no_journal, no_session])
    async def test_still_runs_its_task_in_the_event_loop(self, open_recorder: OpenRecorder) -> None:
        done = asyncio.Event()

        async def work() -> None:
            done.set()

        @agent_entrypoint(open_recorder=open_recorder)
        async def handle(payload: object) -> None:
            start_background(work)

        await handle({})

        await asyncio.wait_for(done.wait(), 5)

    def test_whose_entrypoint_fails_starts_nothing(self) -> None:
        begun: list[str] = []

        @agent_entrypoint(open_recorder=no_journal)
        def handle(payload: object) -> None:
            start_background(begun.append, "task")
            raise ValueError("too late")

        with pytest.raises(ValueError, match="too late"):
            handle({})
        wait_for_threads()

        assert not begun

    @pytest.mark.parametrize("session_id", ["s\ud800", "longwatch#reserved", "s" * 2_000])
    def test_because_no_journal_holds_its_id_runs_and_logs_that(
        self, session_id: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        @agent_entrypoint(
            does_the_work=True, open_recorder=lambda payload, _: SessionRecorder(MemoryJournal(), session_id)
        )
        def handle(payload: object) -> int:
            return 7

        assert handle({}) == 7
        assert "is not journaled" in caplog.text


class TestABackgroundTask:
    def test_begins_once_the_entrypoint_has_returned(self, journal: MemoryJournal) -> None:
        order: list[str] = []

        @agent_entrypoint(open_recorder=into(journal))
        def handle(payload: object) -> None:
            start_background(lambda: order.append("task"))
            order.append("entrypoint")

        handle({})
        wait_for_threads()

        assert order == ["entrypoint", "task"]
        assert types(journal) == [STARTED, TASK_STARTED, TASK_COMPLETED]

    def test_of_an_entrypoint_that_fails_never_begins(self, journal: MemoryJournal) -> None:
        begun: list[str] = []

        @agent_entrypoint(open_recorder=into(journal))
        def handle(payload: object) -> None:
            start_background(lambda: begun.append("task"))
            raise ValueError("too late")

        with pytest.raises(ValueError, match="too late"):
            handle({})
        wait_for_threads()

        assert not begun
        assert types(journal) == [STARTED, FAILED]

    @pytest.mark.parametrize(
        ("error", "message"),
        [
            (NoCredentialsError(), "NoCredentialsError: Unable to locate credentials"),
            (
                ClientError({"Error": {"Code": "AccessDenied", "Message": "not you"}}, "Converse"),
                "ClientError: AccessDenied: not you",
            ),
            (RuntimeError("out of luck"), "RuntimeError: out of luck"),
        ],
    )
    def test_that_fails_writes_why(self, journal: MemoryJournal, error: Exception, message: str) -> None:
        def work() -> None:
            raise error

        @agent_entrypoint(open_recorder=into(journal))
        def handle(payload: object) -> None:
            start_background(work)

        handle({})
        wait_for_threads()

        assert types(journal) == [STARTED, TASK_STARTED, TASK_FAILED]
        assert arrived(journal)[-1].payload["error_message"] == message

    async def test_may_be_asynchronous(self, journal: MemoryJournal) -> None:
        done = asyncio.Event()

        async def work() -> None:
            done.set()

        @agent_entrypoint(open_recorder=into(journal))
        async def handle(payload: object) -> None:
            start_background(work)

        await handle({})
        await asyncio.wait_for(done.wait(), 5)
        await until(lambda: TASK_COMPLETED in types(journal))

        assert types(journal) == [STARTED, TASK_STARTED, TASK_COMPLETED]

    async def test_that_the_agent_started_itself_is_cancelled_before_the_entrypoint_is_called_failed(
        self, journal: MemoryJournal
    ) -> None:
        tasks: list[asyncio.Task[None]] = []

        @background_task
        async def work() -> None:
            await asyncio.Event().wait()

        @agent_entrypoint(open_recorder=into(journal))
        async def handle(payload: object) -> None:
            tasks.append(asyncio.create_task(work()))
            await until(lambda: TASK_STARTED in types(journal))
            raise ValueError("changed my mind")

        with pytest.raises(ValueError, match="changed my mind"):
            await handle({})

        assert tasks[0].cancelled()
        assert types(journal) == [STARTED, TASK_STARTED, TASK_FAILED, FAILED]

    def test_in_a_thread_of_its_own_decides_by_its_own_end(self, journal: MemoryJournal) -> None:
        gate, threads = threading.Event(), list[threading.Thread]()

        @background_task
        def work() -> None:
            assert gate.wait(PATIENCE_SECONDS)

        @agent_entrypoint(open_recorder=into(journal))
        def handle(payload: object) -> None:
            threads.append(started_with_context(work))
            assert wait_until(lambda: TASK_STARTED in types(journal))
            raise ValueError("changed my mind")

        with pytest.raises(ValueError, match="changed my mind"):
            handle({})
        gate.set()
        threads[0].join(PATIENCE_SECONDS)

        assert types(journal) == [STARTED, TASK_STARTED, "TASK_entrypoint_FAILED", TASK_COMPLETED]

    def test_that_finished_is_never_called_failed_because_a_write_failed(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        memory = MemoryJournal()
        journal = FaultyJournal(memory)

        def work() -> None:
            journal.fail(error=Unreachable("gone"))

        @agent_entrypoint(open_recorder=into(journal))
        def handle(payload: object) -> None:
            start_background(work)

        handle({})
        wait_for_threads()

        assert types(memory) == [STARTED, TASK_STARTED]
        assert "cannot journal AGENT_BACKGROUND_TASK_COMPLETED" in caplog.text
        assert TASK_FAILED not in caplog.text

    def test_outside_a_session_is_untouched(self) -> None:
        @background_task
        def work(number: int) -> int:
            return number + 1

        assert work(1) == 2

    def test_outside_an_entrypoint_starts_at_once_and_is_logged(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        done: list[str] = []

        start_background(done.append, "task")
        wait_for_threads()

        assert done == ["task"]
        assert "outside @agent_entrypoint" in caplog.text

    def test_that_another_task_starts_is_journaled_too(self, journal: MemoryJournal) -> None:
        done: list[str] = []

        @agent_entrypoint(open_recorder=into(journal))
        def handle(payload: object) -> None:
            start_background(lambda: start_background(done.append, "second"))

        handle({})
        assert wait_until(lambda: types(journal).count(TASK_COMPLETED) == 2)

        assert done == ["second"]


def test_a_phase_is_journaled_in_its_session(journal: MemoryJournal) -> None:
    @agent_entrypoint(open_recorder=into(journal))
    def handle(payload: object) -> None:
        record_phase("indexing", TaskState.STARTED)
        record_phase("indexing", TaskState.FAILED, error="no disk")

    handle({})

    assert types(journal) == [STARTED, "TASK_indexing_STARTED", "TASK_indexing_FAILED"]
    assert not record_phase("indexing", TaskState.STARTED)


@pytest.mark.parametrize(
    ("phase", "state"),
    [
        ("", TaskState.STARTED),
        ("two words", TaskState.STARTED),
        ("x" * 51, TaskState.FAILED),
        ("größe", TaskState.COMPLETED),
        ("indexing", "DONE"),
    ],
)
def test_an_invalid_phase_is_logged_and_never_raises(
    journal: MemoryJournal, caplog: pytest.LogCaptureFixture, phase: Any, state: Any
) -> None:
    @agent_entrypoint(open_recorder=into(journal))
    def handle(payload: object) -> bool:
        return record_phase(phase, state)

    with caplog.at_level("WARNING", "longwatch"):
        assert handle({}) is False

    assert types(journal) == [STARTED]
    assert f"phase {phase!r} is not journaled" in caplog.text


def test_an_invalid_phase_is_logged_outside_a_session_too(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("WARNING", "longwatch"):
        assert record_phase("two words", TaskState.STARTED) is False

    assert "phase 'two words' is not journaled" in caplog.text


class TestWhichSession:
    @pytest.fixture(autouse=True)
    def _in_memory(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("SESSION_ID", "EXECUTION", "TABLE_NAME", "REGION"):
            monkeypatch.setenv(f"LONGWATCH_{name}", "")  # so that what is set here is undone
            monkeypatch.delenv(f"LONGWATCH_{name}")
        monkeypatch.setenv("LONGWATCH_JOURNAL", "memory://which-session")

    def test_is_named_by_the_payload(self) -> None:
        recorder = session_recorder({"session_id": "s-9", "execution": "e-9"})

        assert recorder is not None
        assert (recorder.session_id, recorder.execution) == ("s-9", "e-9")

    def test_is_named_by_the_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("LONGWATCH_SESSION_ID", "s-8")

        recorder = session_recorder("no map at all")

        assert recorder is not None
        assert (recorder.session_id, recorder.execution) == ("s-8", None)

    def test_reaches_the_environment_of_the_agent(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import os

        monkeypatch.setenv("LONGWATCH_TABLE_NAME", "the-agent-s-own")
        sent: dict[str, Any] = {
            "LONGWATCH_SESSION_ID": "s-7",
            "LONGWATCH_TABLE_NAME": "another",
            "LONGWATCH_REGION": "eu-west-1",
            "PATH": "/nowhere",
        }
        path = os.environ["PATH"]

        session_recorder({"session_id": "s-7", "environment": sent})

        assert os.environ["LONGWATCH_SESSION_ID"] == "s-7"
        assert os.environ["LONGWATCH_TABLE_NAME"] == "the-agent-s-own"
        assert os.environ["LONGWATCH_REGION"] == "eu-west-1"
        assert os.environ["PATH"] == path


async def until(condition: Callable[[], bool]) -> None:
    assert await asyncio.to_thread(wait_until, condition)


def wait_until(condition: Callable[[], bool]) -> bool:
    tick = threading.Event()
    return any(condition() or tick.wait(0.005) for _ in range(1_000))


def started_with_context(work: Callable[[], None]) -> threading.Thread:
    from contextvars import copy_context

    thread = threading.Thread(target=copy_context().run, args=(work,))
    thread.start()
    return thread
