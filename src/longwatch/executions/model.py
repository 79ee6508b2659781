"""Executions as longwatch knows them: waves of jobs, jobs of servers, and how each stands.

One model for every outside system. A disaster-recovery drill has several waves of many servers; a build is
one wave with one job and one server. Everything here is a value: a poll makes a new one.

A status that no table has reads as `UNKNOWN`, whether a source reports it or a record holds it. `UNKNOWN` is
never an end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256

from longwatch.model.event import MAX_RUN_ID_BYTES, RESERVED_PREFIX
from longwatch.model.summary import Status

DEFAULT_DEADLINE_MS = 30 * 60 * 1000
OPERATOR_CLOSED, OPERATOR_STOPPED = (
    "operator:close",
    "operator:stop-watching",
)  # calls of an operator's evidence

MAX_KEY_BYTES = 4_096  # of a key as text: a plan of 1,024 bytes and an id of 2,048, with what is encoded

_DIGEST_DIGITS = 32


@dataclass(frozen=True, slots=True, order=True)
class ExecutionKey:
    """What identifies an execution: the same execution id in two plans names two executions.

    As text it is `plan/execution`. The first slash separates the two, so a slash and a percent sign in the
    plan id are percent-encoded (`%2F`, `%25`); the execution id stays as it is.
    """

    plan_id: str
    execution_id: str

    def __str__(self) -> str:
        return f"{self.plan_id.replace('%', '%25').replace('/', '%2F')}/{self.execution_id}"

    @classmethod
    def parse(cls, text: str) -> ExecutionKey | None:
        """The key that this text names; None for text without a slash."""
        plan, slash, execution_id = text.partition("/")
        if not slash or not execution_id:
            return None
        return cls(plan.replace("%2F", "/").replace("%2f", "/").replace("%25", "%"), execution_id)

    @property
    def run_id(self) -> str:
        """The run that holds the events: the key as text, shortened by a digest where it exceeds a run id."""
        text = str(self)
        encoded = text.encode(errors="surrogatepass")
        if len(encoded) <= MAX_RUN_ID_BYTES and not text.startswith(RESERVED_PREFIX):
            return text
        digest = sha256(encoded).hexdigest()[:_DIGEST_DIGITS]
        kept = encoded[: MAX_RUN_ID_BYTES - _DIGEST_DIGITS - 1].decode(errors="ignore")
        return f"{digest}~{kept}"


class Mode(StrEnum):
    """What an execution is for, which decides when a server is done."""

    DRILL = "DRILL"  # done once it is launched
    RECOVERY = "RECOVERY"  # done once its launch actions have ended too
    JOB = "JOB"  # any other system: done when it says so


class ItemState(StrEnum):
    """How one server, or one item of another system, stands."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    LAUNCHED = "launched"  # what it is there for has happened
    FAILED = "failed"
    TERMINATED = "terminated"  # it was launched and is gone again
    CANCELLED = "cancelled"
    ENDED = "ended"  # it has ended, and its source cannot say how
    UNKNOWN = "unknown"  # a status that the source's table does not have: never an end

    @classmethod
    def _missing_(cls, value: object) -> ItemState:
        return cls.UNKNOWN

    @property
    def is_final(self) -> bool:
        return self in _FINAL


_FINAL = frozenset(
    {
        ItemState.LAUNCHED,
        ItemState.FAILED,
        ItemState.TERMINATED,
        ItemState.CANCELLED,
        ItemState.ENDED,
    }
)


class JobState(StrEnum):
    """How a job stands. Finished says nothing about success."""

    PENDING = "pending"
    STARTED = "started"
    FINISHED = "finished"
    MISSING = "missing"  # the source no longer knows it
    UNKNOWN = "unknown"  # a status that the source's table does not have: it may still be running

    @classmethod
    def _missing_(cls, value: object) -> JobState:
        return cls.UNKNOWN


class JobKind(StrEnum):
    """What a job does with its servers, which decides what success is."""

    LAUNCH = "launch"
    TERMINATE = "terminate"  # done once the server is terminated
    SNAPSHOT = "create_converted_snapshot"  # done once the log says that the snapshot is converted

    @classmethod
    def _missing_(cls, value: object) -> JobKind:
        return cls.LAUNCH  # of a record; the source says in every answer what it is


class ActionState(StrEnum):
    """How a launch action stands."""

    IN_PROGRESS = "in_progress"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    UNKNOWN = "unknown"  # a status that the source's table does not have: never an end

    @classmethod
    def _missing_(cls, value: object) -> ActionState:
        return cls.UNKNOWN

    @property
    def is_final(self) -> bool:
        return self in (ActionState.SUCCEEDED, ActionState.FAILED)


@dataclass(frozen=True, slots=True)
class Step:
    """One launch action of a server."""

    name: str
    run_id: str
    state: ActionState
    reason: str | None = None
    since: int | None = None  # epoch ms at which this state was first seen
    word: str | None = None  # the source's own word, where the state is unknown


@dataclass(frozen=True, slots=True)
class WorkItem:
    """One server of a job, as it was last seen."""

    server_id: str
    state: ItemState = ItemState.PENDING
    instance_id: str | None = None
    actions: tuple[Step, ...] = ()
    word: str | None = None  # the source's own word for the state
    reason: str | None = None
    since: int | None = None  # epoch ms at which this state was first seen; None: never seen at the source


@dataclass(frozen=True, slots=True)
class Job:
    """One job of a wave, as it was last seen."""

    job_id: str
    state: JobState = JobState.PENDING
    servers: tuple[WorkItem, ...] = ()
    region: str | None = None
    account: str | None = None
    finished_at: int | None = None  # epoch ms at which it was first seen finished
    # Answers since then, as far as they matter. That there was one more is not a change of the job.
    finished_polls: int = field(default=0, kw_only=True, compare=False)
    # How long polls have seen it finished, each gap between two polls counted up to a limit: one wrong date
    # adds little. None: not counted yet.
    finished_for_ms: int | None = field(default=None, kw_only=True, compare=False)
    kind: JobKind = field(default=JobKind.LAUNCH, kw_only=True)
    created_at: int | None = field(default=None, kw_only=True)  # epoch ms, by the source
    cancelled: bool = False
    word: str | None = None
    since: int | None = None  # epoch ms at which this state was first seen; None: never seen at the source


@dataclass(frozen=True, slots=True)
class Stage:
    """One wave of an execution. Its jobs may not exist yet."""

    name: str
    jobs: tuple[Job, ...] = ()
    expected_servers: tuple[str, ...] = ()  # ids that the plan names, whether or not a job lists them yet

    def servers(self) -> Iterator[WorkItem]:
        """Every server of the wave: those of its jobs, then those that only the plan knows."""
        listed = self.attempts()
        yield from (server for _, server in listed.values())
        yield from (WorkItem(each) for each in self.expected_servers if each not in listed)

    def attempts(self) -> dict[str, tuple[Job, WorkItem]]:
        """For each listed server the job that decides about it, and the server as that job lists it.

        The latest job that launches a server decides. A job that terminates it, or converts its snapshot,
        decides only where no job launches it.
        """
        found: dict[str, tuple[Job, WorkItem]] = {}
        for job in _by_creation(self.jobs):
            for server in job.servers:
                earlier = found.get(server.server_id)
                if earlier is None or job.kind is JobKind.LAUNCH or earlier[0].kind is not JobKind.LAUNCH:
                    found[server.server_id] = (job, server)
        return found


def _by_creation(jobs: tuple[Job, ...]) -> list[Job]:
    """The jobs from the earliest to the latest: by their source's times, or else as the record lists them."""
    if any(job.created_at is None for job in jobs):
        return list(jobs)
    return sorted(jobs, key=lambda job: job.created_at or 0)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a verdict rests on: which call, when, and the fields that decided."""

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
    corrects: Status | None = None  # what an earlier verdict had said; None: this is the first
    assumed: tuple[str, ...] = ()  # facts that the source has not reported: it is rechecked

    @property
    def is_by_operator(self) -> bool:
        """Whether an operator gave it, rather than a rule."""
        return any(each.call in (OPERATOR_CLOSED, OPERATOR_STOPPED) for each in self.evidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """One execution and everything that is known of it."""

    execution_id: str
    plan_id: str
    source: str = "drs"  # which declaration asks about it
    mode: Mode = Mode.DRILL
    started_at: int  # epoch ms
    waves: tuple[Stage, ...] = ()
    total_waves: int | None = None  # None: nobody has said; "all stored waves are done" is then no end
    deadline_ms: int | None = DEFAULT_DEADLINE_MS  # after the start; past it the source is asked and followed
    verdict: Verdict | None = None
    closed: bool = False  # its verdict is told, or it is another writer's: there is nothing left to do
    other_status: str | None = None  # set by another writer, verbatim; None: a status of ours
    last_polled_at: int | None = None  # by the clock of the poller, as are `next_poll_at` and `lease_until`
    last_answer_at: int | None = None  # when the source last answered, by its own clock
    last_change_at: int | None = None  # when a poll last brought something new, by the clock of the source
    failures: int = 0  # polls in a row without an answer
    last_error: str | None = None
    next_poll_at: int | None = None  # not before: set by backing off, else the cadence decides
    recheck_at: int | None = None  # of a closed one: when to check its verdict again; None: it is certain
    lease_holder: str | None = None
    lease_until: int | None = None
    version: int = 0  # grows with every write; a write names the one it was made from
    name: str | None = None
    own_run_id: str | None = None  # where it is not the key: of `watch`, and from before keys named runs
    stored: Mapping[str, object] | None = field(default=None, compare=False, repr=False)  # as it was read

    @property
    def key(self) -> ExecutionKey:
        return ExecutionKey(self.plan_id, self.execution_id)

    @property
    def run_id(self) -> str:
        """The run that holds its events."""
        return self.own_run_id or self.key.run_id

    @property
    def label(self) -> str:
        """What people read and type: `plan/execution`, or the id where that alone names the run."""
        return self.execution_id if self.own_run_id == self.execution_id else str(self.key)

    @property
    def is_open(self) -> bool:
        """Whether nobody has said yet how it ended."""
        return self.verdict is None and not self.closed

    @property
    def observed_at(self) -> int:
        """The time up to which it is known how it stands, by the clock of its source."""
        return self.started_at if self.last_answer_at is None else self.last_answer_at

    @property
    def status(self) -> Status:
        return self.verdict.status if self.verdict else Status.RUNNING

    def servers(self) -> Iterator[tuple[Stage, WorkItem]]:
        """Every server with its wave."""
        for wave in self.waves:
            for server in wave.servers():
                yield wave, server

    def job_ids(self) -> tuple[str, ...]:
        return tuple(job.job_id for wave in self.waves for job in wave.jobs)

    def unknown_words(self) -> dict[str, list[str]]:
        """Each status that no table has, with the jobs, servers and launch actions that report it."""
        found: dict[str, list[str]] = {}
        for job in (job for wave in self.waves for job in wave.jobs):
            for item, name in _items(job):
                if item.state.value == "unknown":
                    found.setdefault(item.word or "unknown", []).append(name)
        return found


def _items(job: Job) -> Iterator[tuple[Job | WorkItem | Step, str]]:
    yield job, f"job {job.job_id}"
    for server in job.servers:
        yield server, server.server_id
        yield from ((each, f"action {each.name} of {server.server_id}") for each in server.actions)
