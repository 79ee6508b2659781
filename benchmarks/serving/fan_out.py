"""One run, seen by thousands: what a delivery costs, how late it is, and what those who stall cost others."""

from __future__ import annotations

import asyncio
import os
import resource
import tempfile
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import Goal, Result, percentile
from benchmarks.serving.load import Seen, watch
from benchmarks.serving.peers import EVENTS_PER_SECOND
from benchmarks.serving.processes import Running, longwatch, peer, running

RUN = "wf-bench"
STREAM = f"GET /api/stream?topic=run:{RUN} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
LIVE = b"event: caught_up"
START_SECONDS = 120.0
SETTLE_SECONDS = 2.0  # for the writer to begin, and everybody to share one line
STALLED = 20


@dataclass(frozen=True, slots=True)
class Measured:
    """One server under one number of viewers."""

    per_cpu_second: float  # deliveries
    share: float  # of those that were due
    p50_ms: float
    p99_ms: float
    kb_a_viewer: float
    lost: int  # connections


def measure(*, quick: bool) -> list[Result]:
    """A table for each number of viewers."""
    sizes = (1_000,) if quick else (1_000, 5_000)
    _allow_files(max(sizes) + 200)
    return [_table(viewers, rounds=1 if quick else 3, seconds=3.0 if quick else 5.0) for viewers in sizes]


def _table(viewers: int, *, rounds: int, seconds: float) -> Result:
    rows: dict[str, list[Measured]] = {
        "hand-written ASGI fan-out": [],
        "longwatch": [],
        "longwatch, some stalled": [],
    }
    for _ in range(rounds):
        with peer("fan_out") as server:
            rows["hand-written ASGI fan-out"].append(_measure(server, viewers, seconds))
        for name, stalled in (("longwatch", 0), ("longwatch, some stalled", STALLED)):
            with tempfile.TemporaryDirectory(dir=os.environ.get("LONGWATCH_BENCH_DIR")) as folder:
                journal = Path(folder) / "journal.db"
                with longwatch(journal) as server:
                    rows[name].append(_measure(server, viewers, seconds, journal=journal, stalled=stalled))
    best = {
        name: sorted(found, key=lambda each: each.per_cpu_second)[len(found) // 2]
        for name, found in rows.items()
    }
    raw, ours, disturbed = best.values()
    return Result(
        f"Fan-out of one run to {viewers:,} viewers, {EVENTS_PER_SECOND} events/s",
        (
            "server",
            "deliveries per CPU-second",
            "× hand-written",
            "% of due",
            "p50 ms",
            "p99 ms",
            "KB a viewer",
        ),
        [
            (
                name,
                found.per_cpu_second,
                found.per_cpu_second / raw.per_cpu_second,
                found.share * 100,
                found.p50_ms,
                found.p99_ms,
                found.kb_a_viewer,
            )
            for name, found in best.items()
        ],
        [
            Goal(
                "deliveries per CPU-second / hand-written",
                ours.per_cpu_second / raw.per_cpu_second,
                0.7,
                at_most=False,
            ),
            Goal("p99 in ms", ours.p99_ms, 250),
            Goal("share of what was due", ours.share, 0.99, at_most=False),
            Goal("connections lost", float(ours.lost), 0),
            Goal(f"p99 in ms beside {STALLED} that stall", disturbed.p99_ms, 250),
        ],
    )


def _measure(
    server: Running, viewers: int, seconds: float, *, journal: Path | None = None, stalled: int = 0
) -> Measured:
    return asyncio.run(_measured(server, viewers, seconds, journal, stalled))


async def _measured(
    server: Running, viewers: int, seconds: float, journal: Path | None, stalled: int
) -> Measured:
    seen, empty = Seen(), server.memory_bytes()
    watching = await watch(server.port, STREAM, LIVE, viewers, seen)
    async with asyncio.timeout(START_SECONDS):
        while seen.live < viewers:  # noqa: ASYNC110 - a poll is cheap here, and disturbs no protocol
            await asyncio.sleep(0.1)
    held = server.memory_bytes() - empty
    for viewer in watching[:stalled]:
        if viewer.transport is not None:
            viewer.transport.pause_reading()
    with nullcontext() if journal is None else _writer(journal, server):
        await asyncio.sleep(SETTLE_SECONDS)
        before, seen.is_counting = server.cpu_seconds(), True
        await asyncio.sleep(seconds)
        seen.is_counting = False
        used = server.cpu_seconds() - before
    lost = seen.lost
    for viewer in watching:
        if viewer.transport is not None:
            viewer.transport.abort()
    due = (viewers - stalled) * EVENTS_PER_SECOND * seconds
    return Measured(
        per_cpu_second=seen.deliveries / max(used, 0.01),
        share=seen.deliveries / due,
        p50_ms=percentile(seen.latencies, 0.5) * 1000,
        p99_ms=percentile(seen.latencies, 0.99) * 1000,
        kb_a_viewer=held / viewers / 1024,
        lost=lost,
    )


def _writer(journal: Path, server: Running) -> AbstractContextManager[Running]:
    return running(["-m", "benchmarks.serving.writer", str(journal), RUN], server.port)


def _allow_files(count: int) -> None:
    """Let this process and its servers have enough connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, hard), hard))
