"""Two pollers, an orchestrator and a source, in any order, with crashes and lost responses in between.

Whatever happens: no verdict that the source does not bear out, no change that was seen and not reported, one
end, and in the end every execution is closed or visibly open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from longwatch.errors import LongwatchError
from longwatch.executions.model import Execution, ItemState, Job, JobState, Mode, Stage, WorkItem
from longwatch.executions.poller import LEASE_MS, Claim, Poller, Result
from longwatch.executions.sources.base import SourceProblem, SourceResult
from longwatch.executions.stores.base import ExecutionStore
from longwatch.journal.base import Journal
from longwatch.model.event import Event
from longwatch.model.run import Status
from longwatch.testing import FakeClock
from tests.unit.executions.samples import execution
from tests.unit.executions.scripted_source import ScriptedSource, events_of

POLLERS = ("a", "b")
FINAL = {ItemState.DONE, ItemState.FAILED}
MOVES = {
    ItemState.PENDING: [ItemState.IN_PROGRESS, ItemState.FAILED],
    ItemState.IN_PROGRESS: [ItemState.DONE, ItemState.FAILED],
}


class Crashed(LongwatchError):
    """The process died here."""


class Fate:
    """Which call of a poller fails next, and whether it was carried out before that."""

    def __init__(self) -> None:
        self.next: str | None = None

    def meets(self, moment: str) -> None:
        if self.next == moment:
            self.next = None
            raise Crashed(moment)


class Fragile:
    """Put before a store or a journal, it lets calls fail when fate wants it."""

    fate: Fate

    def update(self, execution: Execution) -> Execution:
        self.fate.meets("before update")
        stored: Execution = super().update(execution)  # type: ignore[misc]
        self.fate.meets("after update")
        return stored

    def append(self, events: Sequence[Event]) -> None:
        self.fate.meets("before append")
        super().append(events)  # type: ignore[misc]
        self.fate.meets("after append")


class Pollers(RuleBasedStateMachine):
    """An execution of two waves with two servers each. Subclasses choose the store."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.fate = Fate()
        self.store, self.journal = self.open()
        self.source = ScriptedSource(self.clock)
        self.in_flight: dict[str, tuple[Claim, SourceResult]] = {}
        self.seen: set[tuple[str, str]] = set()  # states of servers that a response had and a poller settled
        self.cancelled = False
        self.truth = {
            f"j-{n}": Job(f"j-{n}", items=(WorkItem(f"s-{n}a"), WorkItem(f"s-{n}b"))) for n in (1, 2)
        }

    def open(self) -> tuple[ExecutionStore, Journal]:
        """A store and a journal that are `Fragile`, with this machine's fate."""
        raise NotImplementedError

    def write(self, record: Mapping[str, object]) -> None:
        """Put a record into the store as another program would."""
        raise NotImplementedError

    @initialize(mode=st.sampled_from([Mode.DRILL, Mode.RECOVERY]))
    def begin(self, mode: Mode) -> None:
        waves = (Stage("one", (Job("j-1"),)), Stage("two", (Job("j-2"),)))
        self.store.add(execution(*waves, mode=mode, started_at=self.clock.now_ms()))
        self.source.set_jobs(*self.truth.values())

    def poller(self, holder: str) -> Poller:
        return Poller(self.store, self.journal, {"drs": self.source}, clock=self.clock, holder=holder)

    @rule(seconds=st.sampled_from([1, 15, 45, 130]))
    def time_passes(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @rule(job_id=st.sampled_from(["j-1", "j-2"]), which=st.integers(0, 1), how=st.integers(0, 1))
    def a_server_progresses(self, job_id: str, which: int, how: int) -> None:
        job = self.truth[job_id]
        server = job.items[which]
        if server.state not in MOVES or job.state is JobState.FINISHED:
            return
        moved = replace(server, state=MOVES[server.state][how])
        servers = tuple(moved if each is server else each for each in job.items)
        over = all(each.state in FINAL for each in servers)
        state = JobState.FINISHED if over else JobState.STARTED
        self.truth[job_id] = replace(job, items=servers, state=state)
        self.source.set_jobs(*self.truth.values())

    @rule(holder=st.sampled_from(POLLERS), throttled=st.booleans())
    def a_poller_sends_a_request(self, holder: str, throttled: bool) -> None:
        poller = self.poller(holder)
        self.source.problem = SourceProblem("throttled", None, True) if throttled else None
        try:
            claim = poller.claim("x-1")
        except Crashed:
            return
        if isinstance(claim, Claim):
            self.in_flight[holder] = (claim, poller.poll_sources([claim])[claim.execution.key])

    @rule(holder=st.sampled_from(POLLERS))
    def a_poller_polls(self, holder: str) -> None:
        self.source.problem = None
        try:
            self.poller(holder).poll("x-1")
        except Crashed:
            return

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data())
    def a_response_is_settled(self, data: st.DataObject) -> None:
        holder = data.draw(st.sampled_from(sorted(self.in_flight)))
        claim, result = self.in_flight.pop(holder)
        try:
            polled = self.poller(holder).settle(claim, result)
        except Crashed:
            return
        is_written = polled.result in (Result.POLLED, Result.ENDED) and not self.cancelled
        if is_written and not isinstance(result, SourceProblem):
            self.seen |= {
                (server.item_id, server.state.value) for job in result.jobs.values() for server in job.items
            }

    @rule(moment=st.sampled_from(["before update", "after update", "before append", "after append"]))
    def something_is_about_to_fail(self, moment: str) -> None:
        self.fate.next = moment

    @precondition(lambda self: not self.cancelled)
    @rule()
    def the_orchestrator_cancels(self) -> None:
        record = self.record
        if record.is_open:
            now = self.clock.now_ms() // 1000
            self.write({**(record.stored or {}), "Status": "CANCELLED", "EndTime": now})
            self.cancelled = True

    @property
    def record(self) -> Execution:
        found = self.store.get("x-1")
        assert found is not None
        return found

    def reported_states(self) -> set[tuple[str, str]]:
        """Every state of every server in the journal."""
        return {
            (str(event.payload["server_id"]), str(event.payload["to"]))
            for event in events_of(self.journal, "p-1/x-1")
            if event.type == "server_transition"
        }

    @invariant()
    def a_verdict_is_what_the_source_bears_out(self) -> None:
        found = self.store.get("x-1")
        if found is None or found.verdict is None:
            return
        if self.cancelled:
            assert found.status is Status.CANCELLED
            return
        states = [server.state for job in self.truth.values() for server in job.items]
        assert set(states) <= FINAL
        good = states.count(ItemState.DONE)
        wanted = Status.SUCCEEDED if good == 4 else Status.PARTIAL if good else Status.FAILED
        assert found.status is wanted

    @invariant()
    def every_settled_change_is_reported_once(self) -> None:
        events = events_of(self.journal, "p-1/x-1")

        assert self.seen <= self.reported_states()
        assert len({event.event_id for event in events}) == len(events)

    @invariant()
    def the_record_has_nothing_that_the_journal_has_not(self) -> None:
        found = self.store.get("x-1")
        recorded = {(server.item_id, server.state.value) for _, server in found.items()} if found else set()

        assert recorded <= self.reported_states()

    def teardown(self) -> None:
        """With nothing failing any more, everything that has ended is closed, and the journal agrees."""
        found = self.store.get("x-1")
        if found is None:
            return
        self.fate.next = self.source.problem = None
        for holder in (*POLLERS, *POLLERS, *POLLERS):
            self.clock.advance(LEASE_MS / 1000 + 330)
            self.poller(holder).poll("x-1")
        run = self.journal.find_run("p-1/x-1")
        over = all(job.state is JobState.FINISHED for job in self.truth.values())
        assert self.record.closed == (over or self.cancelled)
        if self.record.closed and self.record.version > 0:
            assert run is not None
            assert run.status is self.record.status
        ends = [event for event in events_of(self.journal, "p-1/x-1") if event.type == "execution_ended"]
        assert len(ends) <= 1


# Searching for a smaller example takes minutes; what is found is short enough to read.
SETTINGS = settings(
    max_examples=60, stateful_step_count=40, deadline=None, phases=[Phase.reuse, Phase.generate]
)
