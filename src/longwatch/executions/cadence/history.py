"""Durations of the phases of past executions, from their events in the journal.

A duration is measured from the poll that saw a phase begin to the poll that saw it end. Events may come in
any order and twice. Memory is bounded, by kind and by the number of kinds.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from longwatch.executions import transitions
from longwatch.executions.due import ExecutionPhase
from longwatch.executions.model import Execution, ItemState
from longwatch.journal.base import Journal
from longwatch.model.event import START, Event, number_of, text_of
from longwatch.model.run_query import RunQuery
from longwatch.model.summary import STATUS_WORDS, Status

SAMPLES_OF_A_KIND = 200  # the newest
KINDS = 200
EXECUTIONS_READ = 1000  # of a journal, the newest
LIST_PAGE, READ_PAGE = 100, 500
LONGEST_SECONDS = 30 * 86_400.0  # a longer one was abandoned by its watcher, or has a wrong clock

_FINAL = frozenset(state.value for state in ItemState if state.is_final)
_BEGUN = frozenset({ItemState.IN_PROGRESS.value, ItemState.UNKNOWN.value})


@dataclass(frozen=True, slots=True)
class ExecutionKind:
    """Executions that can be compared with each other."""

    source: str
    mode: str
    plan_id: str | None = None  # None: of any plan

    @classmethod
    def of(cls, execution: Execution) -> ExecutionKind:
        return cls(execution.source, execution.mode.value, execution.plan_id)

    @property
    def of_any_plan(self) -> ExecutionKind:
        return replace(self, plan_id=None)


@dataclass(frozen=True, slots=True)
class ExecutionSize:
    """The size of an execution, which decides how long it takes."""

    stages: int
    items: int


@dataclass(frozen=True, slots=True)
class Sample:
    """How long one past execution took."""

    kind: ExecutionKind
    status: Status
    seconds: Mapping[ExecutionPhase, float]  # of the phases that were seen, in their order
    whole: float  # seconds
    shape: ExecutionSize | None = None  # None: unknown, so it is comparable with none

    @property
    def has_succeeded(self) -> bool:
        """Whether its duration is usable: one that failed may have ended early."""
        return self.status in (Status.SUCCEEDED, Status.PARTIAL)

    def before(self, phase: ExecutionPhase) -> float:
        """Seconds from the start to the beginning of this phase."""
        earlier = list(ExecutionPhase)[: list(ExecutionPhase).index(phase)]
        return sum(self.seconds.get(each, 0.0) for each in earlier)


class DurationHistory:
    """The newest samples of each kind. Add them from the oldest to the newest."""

    def __init__(self, *, samples_of_a_kind: int = SAMPLES_OF_A_KIND, kinds: int = KINDS) -> None:
        self._most, self._kinds = samples_of_a_kind, kinds
        self._samples: OrderedDict[ExecutionKind, deque[Sample]] = OrderedDict()

    def add(self, sample: Sample) -> None:
        """Add a sample. Of too many kinds, the one without a new sample for the longest time is dropped."""
        for kind in (sample.kind, sample.kind.of_any_plan):
            self._samples.setdefault(kind, deque(maxlen=self._most)).append(sample)
            self._samples.move_to_end(kind)
        while len(self._samples) > self._kinds:
            self._samples.popitem(last=False)

    def samples(self, kind: ExecutionKind, *, fewest: int = 1) -> tuple[Sample, ...]:
        """The samples of this kind or, if there are fewer than that, of its source and mode with any plan."""
        own = self._samples.get(kind, ())
        return tuple(own if len(own) >= fewest else self._samples.get(kind.of_any_plan, own))

    def kinds(self) -> Iterator[ExecutionKind]:
        """Every kind with samples."""
        return iter(self._samples)


class LazyHistory(DurationHistory):
    """The newest `most` executions of the journal, read when they are first needed.

    By then a poller holds its lease. Otherwise the finder would dispatch the execution again and again while
    the poller reads.
    """

    def __init__(self, journal: Journal, *, most: int = EXECUTIONS_READ) -> None:
        super().__init__()
        self._journal, self._most_read = journal, most
        self._history: DurationHistory | None = None

    def add(self, sample: Sample) -> None:
        if self._history is not None:  # else it is read with the others
            self._history.add(sample)

    def samples(self, kind: ExecutionKind, *, fewest: int = 1) -> tuple[Sample, ...]:
        return self._read().samples(kind, fewest=fewest)

    def kinds(self) -> Iterator[ExecutionKind]:
        return self._read().kinds()

    def _read(self) -> DurationHistory:
        if self._history is None:
            self._history = read_history(self._journal, most=self._most_read)
        return self._history


class Timeline:
    """The start, phases and end of one execution, collected from its events."""

    def __init__(self) -> None:
        self._kind: ExecutionKind | None = None
        self._at: dict[str, int] = {}  # epoch ms: the earliest of each
        self._waves: set[str] = set()
        self._total_waves = 0
        self._items: set[tuple[str, str]] = set()
        self._status: Status | None = None
        self._status_order: tuple[bool, tuple[int, str, int, str]] | None = None

    def add(self, event: Event) -> None:
        payload = event.payload
        match event.type:
            case transitions.STARTED:
                source, mode = text_of(payload, "source"), text_of(payload, "mode")
                if source and mode:
                    self._kind = ExecutionKind(source, mode, text_of(payload, "plan_id"))
                self._total_waves = int(number_of(payload, "total_waves") or 0)
                self._earliest("start", event.occurred_at)
            case transitions.JOB:
                self._waves.add(text_of(payload, "wave") or "")
            case transitions.SERVER:
                wave = text_of(payload, "wave") or ""
                self._waves.add(wave)
                self._items.add((wave, text_of(payload, "server_id") or ""))
                state = payload.get("to")
                if state in _BEGUN:
                    self._earliest("begun", event.occurred_at)
                elif state in _FINAL:
                    self._earliest("finished", event.occurred_at)
            case transitions.ENDED:
                self._earliest("end", event.occurred_at)
                self._ended(event, corrected=False)
            case transitions.CORRECTED | transitions.CLOSED:
                self._ended(event, corrected=True)

    def sample(self) -> Sample | None:
        """Its durations; None if it is open or cancelled, or its times are unknown or invalid."""
        start, end = self._at.get("start"), self._at.get("end")
        if self._kind is None or start is None or end is None:
            return None
        if self._status in (None, Status.CANCELLED, Status.DIED, Status.UNKNOWN):
            return None
        # A phase that was skipped, or that no poll saw, has no duration.
        finished = min(self._at.get("finished", end), end)
        begun = min(self._at.get("begun", finished), finished)
        lengths = {
            ExecutionPhase.PENDING: (begun - start) / 1000,
            ExecutionPhase.STARTED: (finished - begun) / 1000,
            ExecutionPhase.IN_PROGRESS: (end - finished) / 1000,
        }
        whole = (end - start) / 1000
        if not 0 < whole <= LONGEST_SECONDS or min(lengths.values()) < 0:
            return None
        assert self._status is not None
        seen = {phase: seconds for phase, seconds in lengths.items() if seconds > 0}
        shape = ExecutionSize(max(self._total_waves, len(self._waves)), len(self._items))
        return Sample(self._kind, self._status, seen, whole, shape)

    def _earliest(self, moment: str, at: int) -> None:
        self._at[moment] = min(self._at.get(moment, at), at)

    def _ended(self, event: Event, *, corrected: bool) -> None:
        state = text_of(event.payload, "status") or ""
        status = STATUS_WORDS.get(state.casefold())
        order = (corrected, event.order)
        if status is not None and (self._status_order is None or order > self._status_order):
            self._status, self._status_order = status, order


def sample_from(events: Iterable[Event]) -> Sample | None:
    """The durations of the execution with these events; None if they are unknown."""
    timeline = Timeline()
    for event in events:
        timeline.add(event)
    return timeline.sample()


def recorded_sample(journal: Journal, run_id: str) -> Sample | None:
    """The durations of an execution in the journal."""
    return sample_from(_events(journal, run_id))


def read_history(journal: Journal, *, most: int = EXECUTIONS_READ) -> DurationHistory:
    """Read the newest executions of the journal, one at a time."""
    history = DurationHistory()
    for sample in reversed(list(_newest_samples(journal, most))):
        history.add(sample)
    return history


def _newest_samples(journal: Journal, most: int) -> Iterator[Sample]:
    cursor, left = None, most
    while left > 0:
        page = journal.find_runs(RunQuery(kind="execution"), after=cursor, limit=min(LIST_PAGE, left))
        left -= len(page.runs)
        for run in page.runs:
            sample = recorded_sample(journal, run.run_id) if run.ending is not None else None
            if sample is not None:
                yield sample
        cursor = page.cursor
        if cursor is None:
            return


def _events(journal: Journal, run_id: str) -> Iterator[Event]:
    cursor = START
    while True:
        page = journal.read(run_id, after=cursor, limit=READ_PAGE)
        yield from page.events
        cursor = page.cursor
        if not page.more:
            return
