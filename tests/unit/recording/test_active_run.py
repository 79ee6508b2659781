"""A run while it runs."""

from __future__ import annotations

import asyncio
import os
import threading
from dataclasses import replace

import pytest

import longwatch
from longwatch.journal.memory import MemoryJournal
from longwatch.model.run import fold
from longwatch.recording.active_run import RUN_CLAIMED_VARIABLE, ActiveRun
from longwatch.recording.recorder import Recorder, configure
from longwatch.recording.scope import SCOPE
from longwatch.settings import MAX_PAYLOAD_BYTES, Settings
from longwatch.testing import FaultyJournal
from tests.patience import PATIENCE_SECONDS
from tests.unit.recording.recorded import events_of, types_of, verification_of


def test_a_run_begins_ends_and_states_its_count(journal: MemoryJournal, configured: Recorder) -> None:
    with longwatch.run("nightly import", kind="import", customer=7, password="x") as run:
        run.record("step", n=1)
        run.set_result({"rows": 3})
    configured.flush()

    first, step, last, closed = events_of(journal, run.run_id)
    assert first.payload["name"] == "nightly import"
    assert first.payload["kind"] == "import"
    assert first.payload["customer"] == 7
    assert first.payload["password"] == "[redacted]"
    assert first.payload["process"]["pid"] == os.getpid()  # type: ignore[index]
    assert step.payload == {"n": 1}
    assert (last.type, last.payload["status"], last.payload["result"]) == (
        "workflow_complete",
        "completed",
        {"rows": 3},
    )
    assert (closed.type, closed.payload) == ("producer_closed", {"count": 4})
    assert {event.trace_id for event in (first, step, last)} == {run.trace_id}
    assert SCOPE.get() is None


def test_the_execution_time_of_the_ending_is_the_duration_that_readers_compute(
    journal: MemoryJournal, configured: Recorder
) -> None:
    with longwatch.run() as run:
        run.record("step")
    configured.flush()

    folded = fold(events_of(journal, run.run_id))
    assert folded is not None
    assert events_of(journal, run.run_id)[-2].payload["execution_time_ms"] == folded.summary.duration_ms(0)


def test_a_run_can_fail_without_an_exception(journal: MemoryJournal, configured: Recorder) -> None:
    with longwatch.run() as run:
        run.fail("three of five servers are down")
    configured.flush()

    last = events_of(journal, run.run_id)[-2]
    assert last.type == "workflow_error"
    assert last.payload["error_message"] == "three of five servers are down"


def test_a_run_ends_once(journal: MemoryJournal, configured: Recorder) -> None:
    with longwatch.run() as run:
        run.end(None)
    run.end(None)
    configured.flush()

    assert types_of(journal, run.run_id) == ["workflow_start", "workflow_complete"]


def test_events_that_a_run_records_from_elsewhere_are_still_its_own(
    journal: MemoryJournal, configured: Recorder
) -> None:
    with longwatch.run() as outer, longwatch.run() as inner:
        outer.record("said of the outer")
        inner.record("said of the inner")
    configured.flush()

    assert "said of the outer" in types_of(journal, outer.run_id)
    assert "said of the inner" in types_of(journal, inner.run_id)
    assert events_of(journal, inner.run_id)[0].payload["parent_run_id"] == outer.run_id


def test_recording_before_the_block_is_entered_does_nothing(configured: Recorder) -> None:
    run = longwatch.run()

    run.record("too early")

    assert configured.stats().recorded == 0


def test_an_unusual_payload_does_not_break_the_block(journal: MemoryJournal, configured: Recorder) -> None:
    loop: list[object] = []
    loop.append(loop)

    with longwatch.run(thing=loop, number=float("nan")) as run:
        run.record("step", value=object, nested={"deep": loop})
    configured.flush()

    assert events_of(journal, run.run_id)[0].payload["thing"] == ["[list that contains itself]"]


def test_an_invalid_run_id_does_not_break_the_block(configured: Recorder) -> None:
    with longwatch.run(run_id="longwatch#reserved") as run:
        assert longwatch.record("step")
    configured.flush()

    assert run.run_id == "longwatch#reserved"
    assert configured.stats().refused == 3


@pytest.mark.parametrize("traceparent", [f"00-{'ab' * 16}-{'cd' * 8}-01", f"00-{'AB' * 16}-{'CD' * 8}-00"])
def test_a_run_takes_its_trace_from_the_environment(
    configured: Recorder, monkeypatch: pytest.MonkeyPatch, traceparent: str
) -> None:
    monkeypatch.setenv("TRACEPARENT", traceparent)

    assert longwatch.run().trace_id == "ab" * 16


@pytest.mark.parametrize(
    "traceparent", ["", "00", f"00-{'0' * 32}-{'cd' * 8}-01", f"00-{'xy' * 16}-{'cd' * 8}-01"]
)
def test_an_invalid_trace_is_left_out(
    configured: Recorder, monkeypatch: pytest.MonkeyPatch, traceparent: str
) -> None:
    monkeypatch.setenv("TRACEPARENT", traceparent)

    assert len(longwatch.run().trace_id) == 32
    assert longwatch.run().trace_id != longwatch.run().trace_id


def test_the_first_run_takes_the_given_id_and_later_ones_are_its_children(
    journal: MemoryJournal, configured: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGWATCH_RUN_ID", "wf-given")

    with longwatch.run() as first:
        pass
    with longwatch.run() as second:
        pass
    configured.flush()

    assert first.run_id == "wf-given"
    assert second.run_id != "wf-given"
    assert "parent_run_id" not in events_of(journal, first.run_id)[0].payload
    assert events_of(journal, second.run_id)[0].payload["parent_run_id"] == "wf-given"


def test_only_one_of_many_threads_takes_the_given_id(
    configured: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGWATCH_RUN_ID", "wf-given")
    together, made = threading.Barrier(8), list[str]()

    def make() -> None:
        together.wait()
        made.append(longwatch.run().run_id)

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert made.count("wf-given") == 1
    assert os.environ[RUN_CLAIMED_VARIABLE] == "wf-given"


def test_a_process_started_by_the_run_does_not_take_its_id_again(
    configured: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGWATCH_RUN_ID", "wf-given")
    monkeypatch.setenv(RUN_CLAIMED_VARIABLE, "wf-given")  # as the child inherits it

    assert longwatch.run().run_id != "wf-given"


def test_in_lambda_a_run_is_stored_before_it_returns(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "worker")
    journal = MemoryJournal()
    configure(journal, settings=settings)

    @longwatch.workflow
    def handler() -> str:
        return "done"

    handler()

    (summary,) = journal.find_runs().runs
    assert summary.status == "succeeded"
    assert str(verification_of(journal, summary.run_id).answer) == "complete"


def test_in_lambda_an_outage_leaves_the_run_in_the_outbox(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "worker")
    faulty = FaultyJournal()
    faulty.fail()
    recorder = configure(faulty, settings=settings)

    with longwatch.run():
        pass

    assert recorder.stats().in_outbox == 3


def test_a_signal_ends_every_open_run_and_no_ended_one(journal: MemoryJournal, configured: Recorder) -> None:
    with longwatch.run() as done:
        pass
    with longwatch.run() as outer, longwatch.run() as inner:
        for interrupt in list(configured.interrupts):
            interrupt("SIGTERM")
    configured.flush()

    for run in (outer, inner):
        last = [event for event in events_of(journal, run.run_id) if event.type == "workflow_error"]
        assert [event.payload["status"] for event in last] == ["interrupted"]
        assert types_of(journal, run.run_id) == ["workflow_start", "workflow_error"]
    assert types_of(journal, done.run_id) == ["workflow_start", "workflow_complete"]
    assert not configured.interrupts


async def test_runs_in_tasks_beside_each_other_keep_apart(
    journal: MemoryJournal, configured: Recorder
) -> None:
    @longwatch.tool
    async def step(n: int) -> None:
        await asyncio.sleep(0)

    async def one(name: str, n: int) -> ActiveRun:
        async with longwatch.run(name) as run:
            await asyncio.gather(*(step(n) for _ in range(3)))
        return run

    runs = await asyncio.gather(*(one(f"run {n}", n) for n in range(5)))
    configured.flush()

    for n, run in enumerate(runs):
        inputs = [e.payload["input"] for e in events_of(journal, run.run_id) if "input" in e.payload]
        assert inputs == [{"n": n}] * 3


def test_recorders_of_their_own_record_beside_the_process(settings: Settings, configured: Recorder) -> None:
    journal = MemoryJournal()
    own = Recorder(journal, settings=replace(settings, capture="off"))

    with ActiveRun("own", recorder=own) as run:
        longwatch.record("step")
    own.close()

    assert types_of(journal, run.run_id) == ["workflow_start", "step", "workflow_complete"]
    assert configured.stats().recorded == 0


LARGE_PAYLOADS: dict[str, dict[str, object]] = {
    "one text": {"text": "x" * 900_000},
    "many short lists": {"rows": [[n, n + 1, n + 2, f"row {n}"] for n in range(40_000)]},
    "many fields": {f"field_{n}": "v" * 200 for n in range(5_000)},
    "many tiny fields": {f"field_{n}": n for n in range(60_000)},
    "fields of our names": {
        "process": "p" * 400_000,
        "parent_run_id": "x" * 400_000,
        "rows": ["y"] * 200_000,
    },
}


@pytest.mark.parametrize("payload", LARGE_PAYLOADS.values(), ids=LARGE_PAYLOADS)
@pytest.mark.parametrize("max_payload_bytes", [1024, MAX_PAYLOAD_BYTES])
def test_a_start_too_large_to_store_still_names_its_run_process_and_attempt(
    journal: MemoryJournal, settings: Settings, payload: dict[str, object], max_payload_bytes: int
) -> None:
    recorder = configure(journal, settings=replace(settings, max_payload_bytes=max_payload_bytes))

    with ActiveRun("import", run_id="wf-9", kind="job", payload=payload, recorder=recorder) as run:
        run.set_result(payload)
    assert recorder.flush(PATIENCE_SECONDS)  # shortening so much takes seconds on a busy machine

    first, last, _ = events_of(journal, "wf-9")
    named = recorder.membership.process.fields
    assert "truncated" in first.payload
    assert (first.payload["process"], first.payload["attempt"]) == (named, run.attempt)
    assert (first.payload["kind"], first.payload["name"]) == ("job", "import")
    assert "truncated" in last.payload
    assert (last.payload["status"], last.payload["attempt"]) == ("completed", run.attempt)


def test_a_large_error_keeps_its_code_and_status(journal: MemoryJournal, configured: Recorder) -> None:
    with pytest.raises(ValueError, match="xxx"), longwatch.run(run_id="wf-9"):
        raise ValueError("x" * 5_000_000)
    assert configured.flush(PATIENCE_SECONDS)

    last = events_of(journal, "wf-9")[-2]
    assert (last.payload["status"], last.payload["error_code"]) == ("failed", "ValueError")


def test_keys_to_redact_leave_the_identity_of_the_process_alone(
    journal: MemoryJournal, settings: Settings
) -> None:
    keys = ("id", "host", "pid", "process", "attempt")
    recorder = configure(journal, settings=replace(settings, redact_keys=keys))

    with longwatch.run(run_id="wf-9", customer={"id": 7}) as run:
        pass
    recorder.flush()

    first = events_of(journal, "wf-9")[0]
    assert first.payload["process"] == recorder.membership.process.fields
    assert first.payload["attempt"] == run.attempt
    assert first.payload["customer"] == {"id": "[redacted]"}


def test_keys_to_redact_leave_the_fields_that_decide_alone(
    journal: MemoryJournal, settings: Settings
) -> None:
    keys = ("Status", "kind", "name", "error_code", "parent_run_id", "written_for")
    recorder = configure(journal, settings=replace(settings, redact_keys=keys))

    with longwatch.run("import", kind="job", run_id="wf-9", customer={"name": "Ada"}) as run:
        longwatch.record("step", status="confidential", name="Ada")
        longwatch.record("tool_call", operation="fetch", status="failed", kind="confidential")
        run.end(KeyboardInterrupt())
    recorder.flush()

    first, step, call, last, _ = events_of(journal, "wf-9")
    assert (first.payload["kind"], first.payload["name"]) == ("job", "import")
    assert first.payload["customer"] == {"name": "[redacted]"}
    assert step.payload == {"status": "[redacted]", "name": "[redacted]"}
    assert call.payload == {"operation": "fetch", "status": "failed", "kind": "[redacted]"}
    assert (last.payload["status"], last.payload["error_code"]) == ("interrupted", "KeyboardInterrupt")
