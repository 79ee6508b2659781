"""10, 50 and 100 executions at once, each watched to its end: right verdicts, and no call too many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from longwatch.executions.finder import survey
from longwatch.executions.model import Execution
from longwatch.executions.poller import PollReport, Result
from longwatch.executions.sources.drs import DrsSource
from longwatch.model.run import Status
from longwatch.testing import FakeClock
from longwatch.testing.drs import DrsSimulator
from longwatch.testing.drs.simulator import PAGE
from tests.load.backends import IN_A_FILE, IN_TABLES, Backend
from tests.load.crowds import KINDS, WAVES, Kind, crowd
from tests.load.sizes import CONCURRENT, FULL
from tests.load.timings import INDEX_QUERY, POLL, Timings, print_line
from tests.unit.executions.scripted_source import events_of, watching

POLLERS = 16  # at a time, each its own function on AWS


def crowds(*, in_tables: Sequence[int]) -> list[Any]:
    """Every size in a file, and these in tables, which take far longer on a local engine."""
    return [pytest.param(IN_A_FILE, count, id=f"sqlite-{count}") for count in CONCURRENT] + [
        pytest.param(IN_TABLES, count, id=f"dynamodb-local-{count}", marks=pytest.mark.needs_java)
        for count in in_tables
    ]


class Functions:
    """Finder and pollers as on AWS: a poll of its own for each execution, many of them at once."""

    def __init__(self, backend: Backend, source: DrsSource, clock: FakeClock) -> None:
        self.polls = Timings()
        self.results: list[PollReport] = []
        self._backend, self._clock = backend, clock
        self._handed: list[Execution] = []
        parts = watching(backend.store, backend.journal, source, clock)
        self._finder, self._poller = parts.finder(self._handed.append), parts.poller

    def run(self) -> None:
        """Poll whenever something is due, until nothing is open."""
        with ThreadPoolExecutor(POLLERS) as functions:
            while self._finder.tick().survey.open:
                self.results += functions.map(self._poll, self._handed)
                self._handed.clear()
                self._pass_time()

    def _poll(self, execution: Execution) -> PollReport:
        with self.polls.timed():
            return self._poller.poll(execution.execution_id, execution.plan_id)

    def _pass_time(self) -> None:
        now = self._clock.now_ms()
        left = survey(self._backend.store.open_executions(), now)
        assert not left.due, "what was just asked about is due again"
        if left.next_at is not None:
            self._clock.advance((left.next_at - now) / 1000)


@pytest.mark.parametrize(
    ("backend", "count"), crowds(in_tables=CONCURRENT if FULL else (10, 50)), indirect=["backend"]
)
def test_functions_poll_each_execution_as_often_as_its_phases_require(
    count: int, backend: Backend, drs: DrsSimulator, source: DrsSource, clock: FakeClock
) -> None:
    kinds = crowd(count, backend.store, drs, clock)
    functions = Functions(backend, source, clock)

    functions.run()

    polls = Counter(polled.execution.execution_id for polled in functions.results)
    assert polls == {name: kind.polls for name, kind in kinds.items()}
    assert {polled.result for polled in functions.results} == {Result.POLLED, Result.ENDED}
    assert drs.calls["DescribeJobs"] == polls.total()  # both waves of an execution in one call
    assert_logs(drs, kinds)
    assert_ends(backend, kinds)
    assert_writes(backend, kinds)
    report(f"{backend.name}, {count} executions, a function each", backend, functions.polls, count)


@pytest.mark.parametrize(
    ("backend", "count"), crowds(in_tables=CONCURRENT if FULL else (10,)), indirect=["backend"]
)
def test_one_process_polls_all_executions_in_one_call(
    count: int, backend: Backend, drs: DrsSimulator, source: DrsSource, clock: FakeClock
) -> None:
    kinds = crowd(count, backend.store, drs, clock)
    watcher = watching(backend.store, backend.journal, source, clock).watcher()
    rounds, polls, moments = Timings(), 0, set()

    while (left := survey(backend.store.open_executions(), clock.now_ms())).open:
        if left.due:
            with rounds.timed():
                polls += len(watcher.poll_due().polled)
            moments.add(clock.now_ms())
        else:
            assert left.next_at is not None
            clock.advance((left.next_at - clock.now_ms()) / 1000)

    assert polls == sum(kind.polls for kind in kinds.values())
    assert drs.calls["DescribeJobs"] <= len(moments) * -(-count * WAVES // PAGE)
    assert_logs(drs, kinds)
    assert_ends(backend, kinds)
    print_line(rounds.line(f"{backend.name}, {count} executions in one process: a round"))
    each = sum(rounds.seconds) / polls * 1000
    drs_calls = drs.calls["DescribeJobs"] / count
    print_line(f"  {each:.1f} ms for each poll, {drs_calls:.2f} calls of DescribeJobs for each execution")


def assert_ends(backend: Backend, kinds: dict[str, Kind]) -> None:
    """Each has the verdict of its kind, reported once, and every change of every server is in the journal."""
    for name, kind in kinds.items():
        found = backend.store.get(name)
        assert found is not None
        assert (found.status, found.closed) == (kind.ends, True), name
        events = events_of(backend.journal, found.run_id)
        types = Counter(event.type for event in events)
        assert (types["execution_started"], types["execution_ended"]) == (1, 1), name
        last: dict[object, object] = {}
        for event in events:
            if event.type == "server_transition":
                server = (event.payload["job_id"], event.payload["server_id"])
                assert event.payload.get("from") == last.get(server), name  # none is lost
                last[server] = event.payload["to"]
        assert len(last) == WAVES * 2, name
        failed = {Status.SUCCEEDED: 0, Status.PARTIAL: WAVES, Status.FAILED: WAVES * 2}[kind.ends]
        assert Counter(last.values())["failed"] == failed, name


def assert_logs(drs: DrsSimulator, kinds: dict[str, Kind]) -> None:
    """The log of a job is read once, and only if a server of it failed."""
    failing = sum(kind.ends is not Status.SUCCEEDED for kind in kinds.values())
    assert drs.calls["DescribeJobLogItems"] == WAVES * failing


def assert_writes(backend: Backend, kinds: dict[str, Kind]) -> None:
    """A poll reads the record once and writes it twice; an end takes one write more."""
    counts = backend.of_store.counts
    if not counts:
        return
    polls = sum(kind.polls for kind in kinds.values())
    assert counts["GetItem"] == polls
    assert counts["UpdateItem"] == 2 * polls + len(kinds)


def report(what: str, backend: Backend, polls: Timings, count: int) -> None:
    print_line(polls.line(f"{what}: a poll", POLL))
    if backend.of_store.calls:
        print_line(backend.of_store.timings("Query").line(f"{what}: a query of the index", INDEX_QUERY))
        print_line(backend.of_store.timings("UpdateItem").line(f"{what}: a write of a record"))
        for whose, meter in (("record", backend.of_store), ("journal", backend.of_journal)):
            each = ", ".join(f"{n / count:.1f} {call}" for call, n in sorted(meter.counts.items()))
            print_line(f"  for each execution, its {whose}: {each}")


def test_every_kind_of_ending_occurs() -> None:
    assert {kind.ends for kind in KINDS} == {Status.SUCCEEDED, Status.PARTIAL, Status.FAILED}
