"""From a write in one process to a callback in another, beside a poll every 500 ms, DBOS and a bare pipe."""

from __future__ import annotations

import functools
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.following import dbos_peer
from benchmarks.following.followers import Writer, run_name
from benchmarks.following.receivers import (
    MOMENT,
    at_a_pipe,
    by_following,
    by_polling,
    make_pipe,
    with_the_service,
)
from benchmarks.following.subject import Subject
from benchmarks.harness import Goal, Result, percentile

GAP_SECONDS = (0.03, 0.1)  # between two writes, at random, so that no poll falls into step
PATIENCE_SECONDS = 10.0


@dataclass(slots=True)
class Case:
    """A receiver, a writer, and the measured delays."""

    subject: Subject
    write: Callable[[], float]  # returns how long the writing took, in seconds
    waits: list[float] = field(default_factory=list)  # seconds from the beginning of a write to the callback
    writes: list[float] = field(default_factory=list)  # seconds that each of those writes took
    idle: list[float] = field(default_factory=list)  # % of a core

    @property
    def p50(self) -> float:
        return percentile(self.waits, 0.5) * 1000

    @property
    def after_p50(self) -> float:
        """From the end of the write: before, there is nothing to be seen."""
        waits = zip(self.waits, self.writes, strict=True)
        return percentile([wait - write for wait, write in waits], 0.5) * 1000

    @property
    def row(self) -> tuple[float, ...]:
        p99, written = (percentile(self.waits, 0.99) * 1000, percentile(self.writes, 0.5) * 1000)
        return self.p50, p99, written, self.after_p50, statistics.median(self.idle)


def measure(*, quick: bool) -> list[Result]:
    """The table of receivers."""
    events, rounds, idle_seconds = (40, 2, 1.0) if quick else (100, 5, 3.0)
    with (
        tempfile.TemporaryDirectory(dir=os.environ.get("LONGWATCH_BENCH_DIR")) as folder,
        ExitStack() as stack,
    ):
        cases = make_cases(Path(folder), stack)
        for _ in range(rounds):
            for case in cases.values():
                measure_round(case, events, idle_seconds)
    pipe, after, service, no_inotify, _, poll, dbos, _ = cases.values()
    return [
        Result(
            "From a write in one process to a callback in another, SQLite",
            ("case", "p50 ms", "p99 ms", "the write alone p50 ms", "after the write p50 ms", "idle CPU %"),
            [(name, *case.row) for name, case in cases.items()],
            [
                Goal("500 ms poll / longwatch, p50", poll.p50 / service.p50, 100, at_most=False),
                Goal("DBOS as it comes / longwatch, p50", dbos.p50 / service.p50, 100, at_most=False),
                Goal("longwatch / bare pipe, p50", service.p50 / pipe.p50, 6),
                Goal("longwatch after the write / bare pipe, p50", service.after_p50 / pipe.p50, 6),
                Goal(
                    "500 ms poll / longwatch without inotify, p50",
                    poll.p50 / no_inotify.p50,
                    20,
                    at_most=False,
                ),
            ],
            [
                f"the same write and a pipe behind it: {after.p50 / pipe.p50:.1f} × a bare pipe; "
                f"longwatch takes {service.p50 / after.p50:.2f} × that\n"
            ],
        )
    ]


def make_cases(folder: Path, stack: ExitStack) -> dict[str, Case]:
    """Each case with its own file, so that a write wakes no other. All are stopped until their turn."""
    pipe, second = make_pipe(folder / "pipe"), make_pipe(folder / "second-pipe")
    stack.callback(os.close, pipe)
    stack.callback(os.close, second)
    writer, run_id = stack.enter_context(Writer(folder / "second-pipe.db", 1)), run_name(0)

    def on_sqlite(name: str, program: Callable[..., object], **options: object) -> Case:
        path = folder / f"{name}.db"
        writer = stack.enter_context(Writer(path, 1))
        subject = stack.enter_context(Subject(program, path, run_id, **options))  # type: ignore[arg-type]
        return Case(subject, functools.partial(_append, writer))

    cases = {
        "LIMIT pipe wake-up, no database": Case(
            stack.enter_context(Subject(at_a_pipe, folder / "pipe")), functools.partial(_send, pipe)
        ),
        "LIMIT the same write, then a pipe": Case(
            stack.enter_context(Subject(at_a_pipe, folder / "second-pipe")),
            functools.partial(_append_and_send, writer, second),
        ),
        "longwatch PollingService.on_event": on_sqlite("service", with_the_service),
        "longwatch PollingService.on_event, no inotify": on_sqlite(
            "no-inotify", with_the_service, inotify=False
        ),
        "longwatch Hub.follow": on_sqlite("follow", by_following),
        "SELECT every 500 ms (as required)": on_sqlite("poll", by_polling),
    }
    for name, seconds in (
        ("DBOS read_stream, every 1 s (as it comes)", dbos_peer.DEFAULT_POLL_SECONDS),
        ("DBOS read_stream, every 1 ms (its shortest)", dbos_peer.SHORTEST_POLL_SECONDS),
    ):
        path = folder / f"dbos-{seconds}.db"
        application = stack.enter_context(Subject(dbos_peer.writer, path))
        reader = stack.enter_context(Subject(dbos_peer.reader, path, seconds))
        cases[name] = Case(reader, functools.partial(_tell, application))
    for case in cases.values():
        case.subject.pause()
    return cases


def measure_round(case: Case, events: int, idle_seconds: float) -> None:
    """What waiting costs, then some writes."""
    with case.subject.running() as subject:
        subject.call("waits")
        case.idle.append(subject.cpu_percent(idle_seconds))
        for _ in range(events):
            time.sleep(random.uniform(*GAP_SECONDS))
            case.writes.append(case.write())
        deadline = time.monotonic() + PATIENCE_SECONDS
        while subject.call("received") < events:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{subject.call('received')} of {events} events were received")
            time.sleep(0.05)
        case.waits += subject.call("waits")


def _append(writer: Writer) -> float:
    began = time.monotonic()
    writer.journal.append([writer.event(0, payload={"sent": began})])
    return time.monotonic() - began


def _send(pipe: int) -> float:
    os.write(pipe, MOMENT.pack(time.monotonic()))
    return 0.0


def _append_and_send(writer: Writer, pipe: int) -> float:
    began = time.monotonic()
    writer.journal.append([writer.event(0, payload={"sent": began})])
    took = time.monotonic() - began
    os.write(pipe, MOMENT.pack(began))
    return took


def _tell(application: Subject) -> float:
    return float(application.call("write"))
