"""The model of an execution: stages of jobs, jobs of items, and the state of each.

One model for every external system. A disaster-recovery drill has several stages of many items (DRS and the
wire call them waves and servers); a build is one stage with one job and one item. Everything here is a value:
a poll makes a new one.

A status that no table has is `UNKNOWN`, whether a source reports it or a record holds it. `UNKNOWN` is never
an end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256

from longwatch.model.event import MAX_RUN_ID_BYTES, RESERVED_PREFIX
from longwatch.model.summary import Status

DEFAULT_DEADLINE_MS = 30 * 60 * 1000
# The calls that the evidence of an operator's decision names.
OPERATOR_CLOSED = "operator:close"
OPERATOR_STOPPED = "operator:stop-watching"
MAX_KEY_BYTES = 4_096  # of a key as text: a plan id of 1,024 bytes and an id of 2,048, percent-encoded

_DIGEST_DIGITS = 32


@dataclass(frozen=True, slots=True, order=True)
class ExecutionKey:
    """Identifies an execution: the same execution id in two plans names two executions.

    As text it is `plan/execution`. The first slash separates the two, so a slash and a percent sign in the
    plan id are percent-encoded (`%2F`, `%25`); the execution id stays as it is.
    """

    plan_id: str
    execution_id: str

    def __str__(self) -> str:
        return f"{self.plan_id.replace('%', '%25').replace('/', '%2F')}/{self.execution_id}"

    @classmethod
    def parse(cls, text: str) -> ExecutionKey | None:
        """Parse `plan/execution`; None for text without a slash."""
        plan, slash, execution_id = text.partition("/")
        if not slash or not execution_id:
            return None
        return cls(plan.replace("%2F", "/").replace("%2f", "/").replace("%25", "%"), execution_id)

    @property
    def run_id(self) -> str:
        """The run with its events: the key as text; where that is too long, a digest and its start."""
        text = str(self)
        encoded = text.encode(errors="surrogatepass")
        if len(encoded) <= MAX_RUN_ID_BYTES and not text.startswith(RESERVED_PREFIX):
            return text
        digest = sha256(encoded).hexdigest()[:_DIGEST_DIGITS]
        start = encoded[: MAX_RUN_ID_BYTES - _DIGEST_DIGITS - 1].decode(errors="ignore")
        return f"{digest}~{start}"


@dataclass(frozen=True, slots=True)
class Terms:
    """What messages call the parts of an execution."""

    stage: str
    item: str
    step: str
    done: str  # of an item

    def state_text(self, state: str) -> str:
        """A state of an item; one that is done is `launched` in records and responses (wire)."""
        return self.done if state == ItemState.DONE else state


class Mode(StrEnum):
    """The type of an execution, which decides when an item is done."""

    DRILL = "DRILL"  # once it is launched
    RECOVERY = "RECOVERY"  # once its steps have ended as well
    JOB = "JOB"  # any other system: when its source reports success

    @property
    def terms(self) -> Terms:
        """The words of DRS for its drills and recoveries, neutral ones for every other system."""
        return _JOB_TERMS if self is Mode.JOB else _DRS_TERMS


_DRS_TERMS = Terms("wave", "server", "launch action", "launched")
_JOB_TERMS = Terms("stage", "item", "step", "done")


class ItemState(StrEnum):
    """The state of one item."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    DONE = "launched"  # it reached its goal; wire: launched
    FAILED = "failed"
    TERMINATED = "terminated"  # it was launched and no longer exists
    CANCELLED = "cancelled"
    ENDED = "ended"  # its source does not report how
    UNKNOWN = "unknown"  # a status that the source's table does not have: never an end

    @classmethod
    def _missing_(cls, value: object) -> ItemState:
        return cls.UNKNOWN

    @property
    def is_final(self) -> bool:
        return self in _FINAL


_FINAL = frozenset(
    {
        ItemState.DONE,
        ItemState.FAILED,
        ItemState.TERMINATED,
        ItemState.CANCELLED,
        ItemState.ENDED,
    }
)


class JobState(StrEnum):
    """The state of a job. `FINISHED` does not imply success."""

    PENDING = "pending"
    STARTED = "started"
    FINISHED = "finished"
    MISSING = "missing"  # the source no longer has it
    UNKNOWN = "unknown"  # a status that the source's table does not have: it may still be running

    @classmethod
    def _missing_(cls, value: object) -> JobState:
        return cls.UNKNOWN


class JobKind(StrEnum):
    """What a job does with its items, which decides what success is."""

    LAUNCH = "launch"
    TERMINATE = "terminate"  # succeeds once the item is terminated
    SNAPSHOT = "create_converted_snapshot"  # succeeds once the log reports a converted snapshot

    @classmethod
    def _missing_(cls, value: object) -> JobKind:
        return cls.LAUNCH  # of a record; every response of the source has the type


class StepState(StrEnum):
    """The state of a step."""

    IN_PROGRESS = "in_progress"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    UNKNOWN = "unknown"  # a status that the source's table does not have: never an end

    @classmethod
    def _missing_(cls, value: object) -> StepState:
        return cls.UNKNOWN

    @property
    def is_final(self) -> bool:
        return self in (StepState.SUCCEEDED, StepState.FAILED)


@dataclass(frozen=True, slots=True)
class Step:
    """What is done to an item afterwards. DRS calls it a launch action."""

    name: str
    run_id: str
    state: StepState
    reason: str | None = None
    since: int | None = None  # epoch ms of the first poll with this state
    source_status: str | None = None  # the status as the source reports it, where the state is unknown


@dataclass(frozen=True, slots=True)
class WorkItem:
    """One unit inside a job, as of the last response. DRS calls it a server."""

    item_id: str
    state: ItemState = ItemState.PENDING
    instance_id: str | None = None
    steps: tuple[Step, ...] = ()
    source_status: str | None = None  # the status as the source reports it
    reason: str | None = None
    since: int | None = None  # epoch ms of the first poll with this state; None: no response has listed it


@dataclass(frozen=True, slots=True)
class Job:
    """One job of a stage, as of the last response."""

    job_id: str
    state: JobState = JobState.PENDING
    items: tuple[WorkItem, ...] = ()
    region: str | None = None
    account: str | None = None
    finished_at: int | None = None  # epoch ms of the first poll that found it finished
    # Responses since then, up to the number that the grace period needs. One more is not a change of the job.
    finished_polls: int = field(default=0, kw_only=True, compare=False)
    # How long polls have found it finished. Each gap between two polls counts up to a limit, so one wrong
    # date adds little. None: not counted yet.
    finished_for_ms: int | None = field(default=None, kw_only=True, compare=False)
    kind: JobKind = field(default=JobKind.LAUNCH, kw_only=True)
    created_at: int | None = field(default=None, kw_only=True)  # epoch ms, by the source
    cancelled: bool = False
    source_status: str | None = None  # the status as the source reports it
    since: int | None = None  # epoch ms of the first poll with this state; None: no response has listed it


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of an execution. Its jobs may not exist yet. DRS and the wire call it a wave."""

    name: str
    jobs: tuple[Job, ...] = ()
    expected_items: tuple[str, ...] = ()  # ids that the plan names, whether or not a job lists them yet

    def items(self) -> Iterator[WorkItem]:
        """Every item of the stage: those of its jobs, then those that only the plan names."""
        listed = self.attempts()
        yield from (item for _, item in listed.values())
        yield from (WorkItem(each) for each in self.expected_items if each not in listed)

    def attempts(self) -> dict[str, tuple[Job, WorkItem]]:
        """For each listed item the job that decides about it, and the item as that job lists it.

        The latest job that launches an item decides. A job that terminates it, or converts its snapshot,
        decides only where no job launches it.
        """
        found: dict[str, tuple[Job, WorkItem]] = {}
        for job in _by_creation(self.jobs):
            for item in job.items:
                earlier = found.get(item.item_id)
                if earlier is None or job.kind is JobKind.LAUNCH or earlier[0].kind is not JobKind.LAUNCH:
                    found[item.item_id] = (job, item)
        return found


def _by_creation(jobs: tuple[Job, ...]) -> list[Job]:
    """Sort jobs by the creation times of their source; without those, keep the order of the record."""
    if any(job.created_at is None for job in jobs):
        return list(jobs)
    return sorted(jobs, key=lambda job: job.created_at or 0)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a verdict is based on: which call, when, and the fields that decided."""

    call: str  # as "drs:DescribeJobs"
    at: int  # epoch ms
    fields: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Verdict:
    """How an execution ended."""

    status: Status  # succeeded, partial, failed or cancelled; never running
    at: int  # epoch ms
    evidence: tuple[Evidence, ...]
    message: str | None = None
    late: bool = False  # past its deadline
    warnings: tuple[str, ...] = ()
    corrects: Status | None = None  # the status of the verdict that it replaces; None: it is the first
    assumed: tuple[str, ...] = ()  # facts that the source has not reported: the verdict is rechecked

    @property
    def is_by_operator(self) -> bool:
        """Whether an operator stated it."""
        return any(each.call in (OPERATOR_CLOSED, OPERATOR_STOPPED) for each in self.evidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """One execution, as its record has it."""

    execution_id: str
    plan_id: str
    source: str = "drs"  # the name of the source that is polled
    mode: Mode = Mode.DRILL
    started_at: int  # epoch ms
    stages: tuple[Stage, ...] = ()
    total_stages: int | None = None  # None: unknown, so the end of all stored stages is not the end
    deadline_ms: int | None = DEFAULT_DEADLINE_MS  # after the start; past it polling continues
    verdict: Verdict | None = None
    closed: bool = False  # its verdict is in the journal, or another program keeps it: pollers are done
    other_status: str | None = None  # set by another writer, verbatim; None: a status of longwatch
    last_polled_at: int | None = None  # by the clock of the poller, as are `next_poll_at` and `lease_until`
    last_answer_at: int | None = None  # of the last response, by the clock of the source
    last_change_at: int | None = None  # of the last response with a change, by the clock of the source
    failures: int = 0  # polls in a row without a response
    last_error: str | None = None
    next_poll_at: int | None = None  # the earliest next poll; None: the cadence decides
    recheck_at: int | None = None  # when to check the verdict of a closed one again; None: it is certain
    lease_holder: str | None = None
    lease_until: int | None = None
    version: int = 0  # grows with every write; a write names the version that it was made from
    name: str | None = None
    own_run_id: str | None = None  # a run id other than the key's: of `watch`, and of old records
    stored: Mapping[str, object] | None = field(default=None, compare=False, repr=False)  # the record as read

    @property
    def key(self) -> ExecutionKey:
        return ExecutionKey(self.plan_id, self.execution_id)

    @property
    def run_id(self) -> str:
        """The run that holds its events."""
        return self.own_run_id or self.key.run_id

    @property
    def label(self) -> str:
        """The name for people: `plan/execution`, or the id where that alone names the run."""
        return self.execution_id if self.own_run_id == self.execution_id else str(self.key)

    @property
    def is_open(self) -> bool:
        """Whether it has no verdict yet."""
        return self.verdict is None and not self.closed

    @property
    def observed_at(self) -> int:
        """The time of the last response, by the clock of the source; before the first one, the start."""
        return self.started_at if self.last_answer_at is None else self.last_answer_at

    @property
    def status(self) -> Status:
        return self.verdict.status if self.verdict else Status.RUNNING

    def jobs(self) -> Iterator[Job]:
        """The jobs of all stages."""
        return (job for stage in self.stages for job in stage.jobs)

    def items(self) -> Iterator[tuple[Stage, WorkItem]]:
        """Every item with its stage."""
        return ((stage, item) for stage in self.stages for item in stage.items())

    def job_ids(self) -> tuple[str, ...]:
        return tuple(job.job_id for job in self.jobs())

    def unknown_statuses(self) -> dict[str, list[str]]:
        """Each status that no table has, with the jobs, items and steps that report it."""
        found: dict[str, list[str]] = {}
        for job in self.jobs():
            for part, name in _parts(job, self.mode.terms.step):
                if part.state.value == "unknown":
                    found.setdefault(part.source_status or "unknown", []).append(name)
        return found


def _parts(job: Job, step_term: str) -> Iterator[tuple[Job | WorkItem | Step, str]]:
    yield job, f"job {job.job_id}"
    for item in job.items:
        yield item, item.item_id
        yield from ((each, f"{step_term} {each.name} of {item.item_id}") for each in item.steps)
