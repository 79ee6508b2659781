"""How long the phases of past executions took, from their events in the journal.

Durations are as they were seen: from the look that saw a phase begin to the one that saw it end. Events may
come in any order and twice. Memory is bounded, by kind and by the number of kinds.
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

SAMPLES_OF_A_KIND = 200  # the newest; older ones tell of how it used to be
KINDS = 200
EXECUTIONS_READ = 1000  # of a journal, the newest
LIST_PAGE, READ_PAGE = 100, 500
LONGEST_SECONDS = 30 * 86_400.0  # what took longer was forgotten by its watcher, or has a wrong clock

_FINAL = frozenset(state.value for state in ItemState if state.is_final)
_BEGUN = frozenset({ItemState.IN_PROGRESS.value, ItemState.UNKNOWN.value})


@dataclass(frozen=True, slots=True)
class ExecutionKind:
    """Which executions can be compared with each other."""

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
    """How large an execution is, which decides how long it takes."""

    stages: int
    items: int


@dataclass(frozen=True, slots=True)
class Sample:
    """How long one past execution took."""

    kind: ExecutionKind
    status: Status
    seconds: Mapping[ExecutionPhase, float]  # of the phases that were seen, in their order
    whole: float  # seconds
    shape: ExecutionSize | None = None  # None: not known, so it is like no other

    @property
    def went_well(self) -> bool:
        """Whether it took as long as it takes: one that failed may have been cut short."""
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
        """Remember it. Of too many kinds, the one that was not added to for the longest time is forgotten."""
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
        """Every kind that samples are kept of."""
        return iter(self._samples)


class LazyHistory(DurationHistory):
    """What the newest `most` executions in the journal say, read when it is first asked for.

    By then a poller has its lease. Before, the finder would hand the execution out again and again, each time
    to a process that begins to read.
    """

    def __init__(self, journal: Journal, *, most: int = EXECUTIONS_READ) -> None:
        super().__init__()
        self._journal, self._most_read = journal, most
        self._known: DurationHistory | None = None

    def add(self, sample: Sample) -> None:
        if self._known is not None:  # else it is read with the others
            self._known.add(sample)

    def samples(self, kind: ExecutionKind, *, fewest: int = 1) -> tuple[Sample, ...]:
        return self._read().samples(kind, fewest=fewest)

    def kinds(self) -> Iterator[ExecutionKind]:
        return self._read().kinds()

    def _read(self) -> DurationHistory:
        if self._known is None:
            self._known = read_history(self._journal, most=self._most_read)
        return self._known


class Timeline:
    """The moments of one execution that matter, gathered from its events one by one."""

    def __init__(self) -> None:
        self._kind: ExecutionKind | None = None
        self._at: dict[str, int] = {}  # epoch ms: the earliest of each
        self._waves: set[str] = set()
        self._total_waves = 0
        self._items: set[tuple[str, str]] = set()
        self._status: Status | None = None
        self._status_order: tuple[bool, tuple[int, str, int, str]] | None = None

    def saw(self, event: Event) -> None:
        said = event.payload
        match event.type:
            case transitions.STARTED:
                source, mode = text_of(said, "source"), text_of(said, "mode")
                if source and mode:
                    self._kind = ExecutionKind(source, mode, text_of(said, "plan_id"))
                self._total_waves = int(number_of(said, "total_waves") or 0)
                self._earliest("start", event.occurred_at)
            case transitions.JOB:
                self._waves.add(text_of(said, "wave") or "")
            case transitions.SERVER:
                wave = text_of(said, "wave") or ""
                self._waves.add(wave)
                self._items.add((wave, text_of(said, "server_id") or ""))
                word = said.get("to")
                if word in _BEGUN:
                    self._earliest("begun", event.occurred_at)
                elif word in _FINAL:
                    self._earliest("finished", event.occurred_at)
            case transitions.ENDED:
                self._earliest("end", event.occurred_at)
                self._ended(event, corrected=False)
            case transitions.CORRECTED | transitions.CLOSED:
                self._ended(event, corrected=True)

    def sample(self) -> Sample | None:
        """How long it took; None if it is open or cancelled, or its times are unknown or make no sense."""
        start, end = self._at.get("start"), self._at.get("end")
        if self._kind is None or start is None or end is None:
            return None
        if self._status in (None, Status.CANCELLED, Status.DIED, Status.UNKNOWN):
            return None
        # Whoever skipped a phase, or was seen in it by no look, has no time in it.
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
        word = text_of(event.payload, "status") or ""
        status = STATUS_WORDS.get(word.casefold())
        order = (corrected, event.order)
        if status is not None and (self._status_order is None or order > self._status_order):
            self._status, self._status_order = status, order


def sample_from(events: Iterable[Event]) -> Sample | None:
    """How long the execution took that these events are of; None if that can not be told."""
    timeline = Timeline()
    for event in events:
        timeline.saw(event)
    return timeline.sample()


def recorded_sample(journal: Journal, run_id: str) -> Sample | None:
    """How long an execution took, from its events in the journal."""
    return sample_from(_events(journal, run_id))


def read_history(journal: Journal, *, most: int = EXECUTIONS_READ) -> DurationHistory:
    """What the newest executions in the journal say. One execution is in memory at a time."""
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
