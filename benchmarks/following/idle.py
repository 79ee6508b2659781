"""What ten thousand followers of a SQLite file cost while nothing happens."""

from __future__ import annotations

import asyncio
import functools
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

from benchmarks.following.followers import Writer, following, run_name
from benchmarks.following.subject import Commands, Subject
from benchmarks.harness import Goal, Result, interleaved

from longwatch.journal.sqlite.queries import READ
from longwatch.storage.sqlite.file_signal import CHECK_SECONDS

FOLLOWERS = 10_000
POLL_SECONDS = 0.5


def measure(*, quick: bool) -> list[Result]:
    """The table of those who wait."""
    seconds, rounds = (2.0, 3) if quick else (5.0, 5)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        path = Path(folder) / "journal.db"
        stack.enter_context(Writer(path, FOLLOWERS))
        subjects = {
            "floor: an event loop that waits": Subject(nothing),
            f"LIMIT bare data_version every {CHECK_SECONDS * 1000:.0f} ms": Subject(check_version, path),
            f"longwatch, {FOLLOWERS:,} followers, inotify": Subject(following, path, FOLLOWERS),
            f"longwatch, {FOLLOWERS:,} followers, no inotify": Subject(
                following, path, FOLLOWERS, inotify=False
            ),
            f"a task and a SELECT every 500 ms for each of {FOLLOWERS:,}": Subject(polling, path, FOLLOWERS),
        }
        for subject in subjects.values():
            stack.enter_context(subject)
            subject.pause()
        cases: dict[str, Callable[[], float]] = {
            name: functools.partial(_percent, subject, seconds) for name, subject in subjects.items()
        }
        cost = interleaved(cases, rounds=rounds)
    floor, limit, inotify, checked, polled = cost.values()
    return [
        Result(
            f"Waiting on SQLite, {FOLLOWERS:,} followers",
            ("case", "CPU % of a core", "above the floor"),
            [(name, value, value - floor) for name, value in cost.items()],
            [
                Goal("% of a core above the floor, inotify", inotify - floor, 0.5),
                Goal(
                    "no inotify / bare data_version loop, above the floor",
                    (checked - floor) / (limit - floor),
                    2,
                ),
            ],
            [
                "a task and a SELECT for each: "
                f"{(polled - floor) / max(inotify - floor, 0.001):,.0f} × longwatch with inotify\n"
            ],
        )
    ]


def _percent(subject: Subject, seconds: float) -> float:
    with subject.running():
        return subject.cpu_percent(seconds)


@asynccontextmanager
async def nothing() -> AsyncIterator[Commands]:
    """The least that a process with an event loop costs."""
    yield {}


@asynccontextmanager
async def check_version(path: Path) -> AsyncIterator[Commands]:
    """Reads `data_version` as often as the hub does without inotify, without followers."""
    connection = sqlite3.connect(path, isolation_level=None)

    async def check() -> None:
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            connection.execute("PRAGMA data_version").fetchone()

    task = asyncio.create_task(check())
    yield {}
    task.cancel()


@asynccontextmanager
async def polling(path: Path, followers: int) -> AsyncIterator[Commands]:
    """The poll of the polling requirements, once for each run."""
    connection = sqlite3.connect(path, isolation_level=None)

    async def poll(number: int) -> None:
        run_id, position = run_name(number), 0
        await asyncio.sleep(POLL_SECONDS * number / followers)
        while True:
            rows = connection.execute(READ, (run_id, position, 0, run_id, 500)).fetchall()
            position = rows[-1][-1] if rows else position
            await asyncio.sleep(POLL_SECONDS)

    tasks = [asyncio.create_task(poll(number)) for number in range(followers)]
    yield {}
    for task in tasks:
        task.cancel()
