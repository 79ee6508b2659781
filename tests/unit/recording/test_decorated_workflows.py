"""Decorated workflows are runs, unless recording is off or belongs to the process around."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

import longwatch
from longwatch.journal.memory import MemoryJournal
from longwatch.recording.recorder import Recorder, configure
from longwatch.recording.scope import SCOPE
from longwatch.settings import Settings
from tests.unit.recording.recorded import Refusal, calls_of, events_of, types_of, verification_of


def test_a_workflow_is_a_run_and_writes_its_end(journal: MemoryJournal, configured: Recorder) -> None:
    @longwatch.workflow(name="nightly", kind="import")
    def nightly(day: str) -> dict[str, int]:
        return {"rows": 3}

    nightly("monday")
    configured.flush()

    (summary,) = journal.find_runs().runs
    first, last = events_of(journal, summary.run_id)[0], events_of(journal, summary.run_id)[-2]
    assert (summary.name, summary.kind, summary.status) == ("nightly", "import", "succeeded")
    assert first.payload["input"] == {"day": "monday"}
    assert last.type == "workflow_complete"
    assert last.payload["result"] == {"rows": 3}
    assert str(verification_of(journal, summary.run_id).answer) == "complete"


def test_a_failed_workflow_has_its_reason(journal: MemoryJournal, configured: Recorder) -> None:
    @longwatch.workflow
    def failing() -> None:
        raise Refusal("no rows")

    with pytest.raises(Refusal):
        failing()
    configured.flush()

    (summary,) = journal.find_runs().runs
    assert (summary.status, summary.error) == ("failed", "Refusal: no rows")


async def test_workflows_may_be_coroutines_and_generators(
    journal: MemoryJournal, configured: Recorder
) -> None:
    @longwatch.workflow
    async def waits() -> int:
        return 1

    @longwatch.workflow
    def yields() -> Iterator[int]:
        yield 1

    @longwatch.workflow
    async def streams() -> AsyncIterator[int]:
        yield 1

    await waits()
    list(yields())
    _ = [item async for item in streams()]
    configured.flush()

    assert {run.name: run.status.value for run in journal.find_runs().runs} == {
        "waits": "succeeded",
        "yields": "succeeded",
        "streams": "succeeded",
    }


def test_a_workflow_inside_a_workflow_is_a_child_run(journal: MemoryJournal, configured: Recorder) -> None:
    @longwatch.tool
    def step() -> None: ...

    @longwatch.workflow
    def inner() -> None:
        step()

    @longwatch.workflow
    def outer() -> None:
        step()
        inner()
        step()

    outer()
    configured.flush()

    runs = {run.name: run for run in journal.find_runs().runs}
    assert runs["inner"].parent_run_id == runs["outer"].run_id
    assert len(calls_of(journal, runs["outer"].run_id)) == 4
    assert len(calls_of(journal, runs["inner"].run_id)) == 2
    (trace_of_outer,) = {event.trace_id for event in events_of(journal, runs["outer"].run_id)} - {None}
    (trace_of_inner,) = {event.trace_id for event in events_of(journal, runs["inner"].run_id)} - {None}
    assert trace_of_inner == trace_of_outer


@pytest.mark.parametrize("decorate", [longwatch.workflow, longwatch.agent, longwatch.tool])
def test_with_recording_off_everything_is_untouched(
    journal: MemoryJournal, settings: Settings, decorate: Callable[..., Any]
) -> None:
    from dataclasses import replace

    configure(journal, settings=replace(settings, enabled=False))

    @decorate
    def work(n: int) -> int:
        assert SCOPE.get() is None
        return n + 1

    with longwatch.run() as run:
        assert work(1) == 2
        run.record("nothing")
        assert longwatch.record("nothing") is False

    assert journal.find_runs().runs == []


def test_mistakes_in_the_settings_do_not_break_the_observed_code(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("LONGWATCH_CAPTURE", "everything")
    monkeypatch.setenv("LONGWATCH_RUN_ID", "wf-1")

    @longwatch.tool
    def tool(n: int) -> int:
        return n

    @longwatch.workflow
    def workflow(n: int) -> int:
        return tool(n)

    with longwatch.run():
        assert tool(1) == 1
    assert workflow(2) == 2
    assert longwatch.record("lost") is False


def test_a_process_of_longwatch_run_records_into_its_run(
    journal: MemoryJournal, configured: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGWATCH_RUN_ID", "wf-given")
    monkeypatch.setenv("TRACEPARENT", f"00-{'ab' * 16}-{'cd' * 8}-01")

    @longwatch.tool
    def tool() -> None: ...

    tool()
    assert longwatch.record("said")
    configured.flush()

    events = events_of(journal, "wf-given")
    assert [event.type for event in events] == ["process_joined", "tool_call", "tool_call", "said"]
    assert {event.trace_id for event in events} == {"ab" * 16}


def test_a_process_of_longwatch_run_follows_a_new_configuration(
    journal: MemoryJournal, configured: Recorder, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGWATCH_RUN_ID", "wf-given")
    longwatch.record("before")
    later = MemoryJournal()

    configure(later, settings=settings)
    longwatch.record("after")
    longwatch.flush()

    assert types_of(journal, "wf-given") == ["before"]
    assert types_of(later, "wf-given") == ["after"]
