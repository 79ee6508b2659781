"""Lists as topics: the runs of a journal, and the files of a project. A changed record is sent again."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any, Generic, TypeVar

from longwatch.clock import Clock
from longwatch.documents.files import FileList
from longwatch.documents.store import DocumentStore
from longwatch.documents.views import FileView
from longwatch.errors import InvalidCursor
from longwatch.following.observation import ObservedRun
from longwatch.journal.arrivals import Arrival
from longwatch.journal.base import Arrivals
from longwatch.journal.views import RunLine
from longwatch.model.event import RUN_DELETED
from longwatch.model.run import RunSummary, Status
from longwatch.model.run_query import INDEX_KINDS, WORK, RunQuery
from longwatch.server.cache.projection import Batch, Projection, ProjectionReader, RunInThread
from longwatch.server.context import ServerContext
from longwatch.server.live.messages import Frame, caught_up, files_message, message
from longwatch.server.live.subscription import FrameBroadcast, FrameBroadcasts, JoinPoint
from longwatch.storage.change_signal import ChangeSignal, LocalSignal, OnChange

SNAPSHOT_RUNS = 100
POLL_SECONDS = 2.0  # where no change signal reports arrivals
POLLED_RUNS = 50
READ_EVENTS = 500
CATCH_UP_EVENTS = 5_000  # past a cursor; a viewer that has missed more gets a snapshot
FILES_COALESCE_SECONDS = 0.1
FILES_POLL_SECONDS = 5.0  # without a reported change

K = TypeVar("K")
T = TypeVar("T")


class ListTopic(Generic[K, T]):
    """What changed since a cursor, or a snapshot, and then the batches of a projection.

    A subclass reads and renders; both are called in a thread.
    """

    def __init__(
        self, topic: str, projection: Projection[K, T], broadcasts: FrameBroadcasts, call: RunInThread
    ) -> None:
        self.topic = topic
        self.projection = projection
        self._broadcasts = broadcasts
        self._call = call

    def read_history(self, after: str, until: str) -> list[Frame]:
        """What a viewer lacks that holds the first cursor, up to the second one. Raises `InvalidCursor`."""
        raise NotImplementedError

    def render(self, batch: Batch[K, T]) -> list[Frame]:
        """The frames of a batch. Only the last one has its cursor, so that a viewer gets all or none."""
        raise NotImplementedError

    async def read(self, after: str) -> AsyncGenerator[Sequence[Frame] | JoinPoint, None]:
        broadcast = await open_broadcast(self.topic, self._broadcasts, self.projection, self._fill)
        end, cursor = broadcast.end, broadcast.cursor
        position = broadcast.position_of(after) if after else None
        if position is not None:
            frames = broadcast.all_from(position)
        else:
            frames = await self._call(self.read_history, after, cursor)
        yield [*frames, caught_up(self.topic, cursor)]
        yield JoinPoint(broadcast, end)

    async def _fill(self, reader: ProjectionReader[K, T], broadcast: FrameBroadcast) -> None:
        with closing(reader):
            while True:
                for frame in await self._call(self.render, await reader.next()):
                    broadcast.push(frame)


async def open_broadcast(
    key: str, broadcasts: FrameBroadcasts, projection: Projection[K, T], fill: Any, *, of: K | None = None
) -> FrameBroadcast:
    """The shared broadcast of a topic. The first viewer starts it, at the projection's cursor."""
    broadcast = broadcasts.get(key)
    if broadcast is not None:
        return broadcast
    reader = projection.subscribe(of)
    try:
        cursor = await reader.started()
    except BaseException:
        reader.close()
        raise
    broadcast = broadcasts.get(key)
    if broadcast is not None:  # another viewer started it meanwhile
        reader.close()
        return broadcast
    return broadcasts.start(key, cursor, partial(fill, reader))


def parse_cursor(cursor: str, kinds: str, of: str) -> tuple[str, int]:
    """The kind and the number of a cursor such as `a120`; both are empty if there is none."""
    kind, digits = cursor[:1], cursor[1:]
    if not cursor:
        return "", 0
    if kind in kinds and digits.isascii() and digits.isdigit() and len(digits) <= 18:
        return kind, int(digits)
    raise InvalidCursor(f"Invalid cursor {cursor[:40]!r} of {of}. Leave it out to start from the beginning.")


def position_of(cursor: str, of: str) -> int | None:
    """`a120`: every write up to number 120 was seen. `t1700…`: the time of a poll, which has no number."""
    kind, number = parse_cursor(cursor, "at", of)
    return number if kind == "a" else None


class RunChanges:
    """The runs that were written to, or None for one that was deleted.

    Journals that number arrivals report them; others are polled.
    """

    name = "the list of runs"

    def __init__(self, context: ServerContext) -> None:
        self._journal = context.journal
        self._runs = context.runs
        self._observer = context.observer
        self._clock = context.clock
        self._generation = 0  # of the journal
        self._polled: dict[str, RunSummary] = {}

    def subscribe(self, on_change: OnChange) -> ChangeSignal:
        if isinstance(self._journal, Arrivals):
            return self._journal.subscribe(on_change)
        return LocalSignal().subscribe(on_change)

    def start(self) -> Batch[str, ObservedRun | None]:
        if isinstance(self._journal, Arrivals):
            self._generation = self._journal.generation
            return Batch({}, f"a{self._journal.last_arrival()}", None)
        self._polled = self._poll({})
        return Batch({}, f"t{self._clock.now_ms()}", POLL_SECONDS)

    def read(self, after: str) -> Batch[str, ObservedRun | None]:
        if isinstance(self._journal, Arrivals):
            return self._read(self._journal, position_of(after, self.name) or 0)
        before, self._polled = self._polled, self._poll(self._polled)
        changed = [run for run_id, run in self._polled.items() if before.get(run_id) != run]
        return Batch(self._observe(changed), f"t{self._clock.now_ms()}", POLL_SECONDS)

    def _read(self, journal: Arrivals, position: int) -> Batch[str, ObservedRun | None]:
        found = journal.arrivals(position, limit=READ_EVENTS)
        if journal.generation != self._generation:  # replaced: continue at its end
            generation, position = journal.generation, journal.last_arrival()
            batch = Batch(self._observe(self.newest()), f"a{position}")
            self._generation = generation
            return batch
        if not found:
            return Batch({}, f"a{position}", None)
        return Batch(self._observe_arrived(found), f"a{found[-1][0]}")

    def newest(self) -> Sequence[RunSummary]:
        return self._runs.find_runs(WORK, limit=SNAPSHOT_RUNS).runs

    def changed_since(self, after: str, until: str) -> Mapping[str, ObservedRun | None]:
        """The runs that were written to since a cursor; if that is unknown, the newest ones."""
        position, end = position_of(after, self.name), position_of(until, self.name)
        arrived: list[Arrival] = []
        if isinstance(self._journal, Arrivals) and position is not None and position <= (end or 0):
            for _ in range(CATCH_UP_EVENTS // READ_EVENTS):
                found = self._journal.arrivals(position, limit=READ_EVENTS)
                arrived += found
                if len(found) < READ_EVENTS:
                    return self._observe_arrived(arrived)
                position = found[-1][0]
        return self._observe(self.newest())

    def _poll(self, before: Mapping[str, RunSummary]) -> dict[str, RunSummary]:
        """The newest runs, the running ones, and those that were running at the poll before."""
        running = RunQuery(except_kinds=INDEX_KINDS, status=Status.RUNNING)
        found = {
            run.run_id: run
            for query in (WORK, running)
            for run in self._runs.find_runs(query, limit=POLLED_RUNS).runs
        }
        left = [
            run_id for run_id, run in before.items() if run.status is Status.RUNNING and run_id not in found
        ]
        return {run.run_id: run for run in self._find(left[:POLLED_RUNS])} | found

    def _find(self, run_ids: Iterable[str]) -> list[RunSummary]:
        found = [self._journal.find_run(run_id) for run_id in run_ids]
        return [run for run in found if run is not None and run.kind not in INDEX_KINDS]

    def _observe_arrived(self, arrived: Sequence[Arrival]) -> dict[str, ObservedRun | None]:
        touched = {event.run_id: None for _, event in arrived}
        deleted = {event.run_id: None for _, event in arrived if event.type == RUN_DELETED}
        return self._observe(self._find(touched)) | deleted

    def _observe(self, runs: Sequence[RunSummary]) -> dict[str, ObservedRun | None]:
        return {each.run.run_id: each for each in self._observer.observed(runs)}


class RunListTopic(ListTopic[str, ObservedRun | None]):
    """The list of runs. One for the whole server."""

    def __init__(self, context: ServerContext, broadcasts: FrameBroadcasts) -> None:
        self._changes = RunChanges(context)
        self._clock: Clock = context.clock
        self._prices = context.prices
        super().__init__("runs", Projection(self._changes, context.call), broadcasts, context.call)

    def read_history(self, after: str, until: str) -> list[Frame]:
        return self._render(self._changes.changed_since(after, until))

    def render(self, batch: Batch[str, ObservedRun | None]) -> list[Frame]:
        return with_cursor(self._render(batch.records), batch.cursor)

    def _render(self, runs: Mapping[str, ObservedRun | None]) -> list[Frame]:
        now, prices = self._clock.now_ms(), self._prices.current()
        return [
            message("run_deleted", self.topic, run_id=run_id)
            if each is None
            else message(
                "run",
                self.topic,
                run=RunLine.of(each.run, now_ms=now, observed=each.conditions, prices=prices),
            )
            for run_id, each in runs.items()
        ]


def with_cursor(frames: list[Frame], cursor: str) -> list[Frame]:
    """Give the last frame the cursor of its batch."""
    if frames:
        frames[-1].cursor = cursor
    return frames


class FileChanges:
    """The files of one project that were written or deleted."""

    def __init__(self, project: str, documents: DocumentStore) -> None:
        self.name = f"files of {project}"
        self._project = project
        self._documents = documents

    def subscribe(self, on_change: OnChange) -> ChangeSignal:
        return self._documents.subscribe(on_change)

    def start(self) -> Batch[str, FileList]:
        return Batch({}, f"v{self._documents.project_version(self._project)}", FILES_POLL_SECONDS)

    def read(self, after: str) -> Batch[str, FileList]:
        since = parse_cursor(after, "v", self.name)[1]
        if self._documents.project_version(self._project) == since:
            return Batch({}, after, FILES_POLL_SECONDS)
        found = self._documents.files(self._project, since=since)
        return Batch({self._project: found}, f"v{found.version}")


class FilesTopic(ListTopic[str, FileList]):
    """The files of one project, with the project's version."""

    def __init__(self, topic: str, project: str, context: ServerContext, broadcasts: FrameBroadcasts) -> None:
        self._project = project
        self._documents = context.documents
        changes = FileChanges(project, context.documents)
        projection = Projection(changes, context.call, coalesce_seconds=FILES_COALESCE_SECONDS)
        super().__init__(topic, projection, broadcasts, context.call)

    def read_history(self, after: str, until: str) -> list[Frame]:
        version = parse_cursor(until, "v", "a project's files")[1]
        since = parse_cursor(after, "v", "a project's files")[1] if after else None
        if since is not None and since > version:
            since = None  # of another store, or of one that was restored from a backup
        found = self._documents.files(self._project, since=since)
        changes = _changes(found, version)  # newer ones come through the broadcast
        return (
            [] if since is not None and not changes else [files_message(self.topic, version, changes, None)]
        )

    def render(self, batch: Batch[str, FileList]) -> list[Frame]:
        found = batch.records[self._project]
        changes = _changes(found, found.version)
        return [files_message(self.topic, found.version, changes, batch.cursor)]


def _changes(found: FileList, until: int) -> list[FileView]:
    return [FileView.of(entry) for entry in found.files if entry.project_version <= until]
