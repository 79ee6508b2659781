"""Timings of a load test, printed beside the required limits. No test passes or fails by them."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

INDEX_QUERY = (100.0, 200.0)  # ms: required average and p99 of the index
POLL = (5_000.0, None)  # ms: the required average of a poll


class Timings:
    """How long something took, many times over. Threads may share it."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    @contextmanager
    def timed(self) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.seconds.append(time.perf_counter() - began)

    @property
    def average_ms(self) -> float:
        return sum(self.seconds) / len(self.seconds) * 1000

    @property
    def p99_ms(self) -> float:
        """The smallest that 99 of 100 do not exceed."""
        ranked = sorted(self.seconds)
        return ranked[max(0, -(-len(ranked) * 99 // 100) - 1)] * 1000

    def line(self, what: str, limits: tuple[float | None, float | None] = (None, None)) -> str:
        """One line of the report. A limit stands beside the number that it is for."""
        average, p99 = (f" (limit {limit:,.0f})" if limit else "" for limit in limits)
        return (
            f"{what:58} {len(self.seconds):6,} × average {self.average_ms:8.2f} ms{average}, "
            f"p99 {self.p99_ms:8.2f} ms{p99}"
        )


def print_line(line: str) -> None:
    """Print a line of the report: `pytest -s` shows it."""
    print(f"\n  {line}", end="", flush=True)


@dataclass(frozen=True, slots=True)
class Call:
    """One call of an AWS client that got a response."""

    operation: str
    seconds: float
    examined: int  # items that a query read, whether or not they were returned


class Meter:
    """Sees every call of the boto3 clients that it is attached to, and the queries that go past them."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._began = threading.local()

    def attach(self, client: Any) -> Any:
        service = client.meta.service_model.service_name
        client.meta.events.register(f"before-call.{service}", self._before)
        client.meta.events.register(f"after-call.{service}", self._after)
        return client

    @property
    def counts(self) -> Counter[str]:
        return Counter(call.operation for call in self.calls)

    def timings(self, operation: str) -> Timings:
        timings = Timings()
        timings.seconds = [call.seconds for call in self.calls if call.operation == operation]
        return timings

    def queried(
        self, query: Callable[[dict[str, Any]], Mapping[str, Any]], request: dict[str, Any]
    ) -> Mapping[str, Any]:
        """Make this query, which may need boto3 or not."""
        began = self._began.query_at = time.perf_counter()
        response = query(request)
        if self._began.query_at is not None:  # else boto3 was needed, which has been seen
            self.calls.append(Call("Query", time.perf_counter() - began, response.get("ScannedCount", 0)))
        return response

    def _before(self, **_: Any) -> None:
        self._began.at = time.perf_counter()

    def _after(self, model: Any, parsed: Any, **_: Any) -> None:
        seconds = time.perf_counter() - self._began.at
        if model.name == "Query":
            self._began.query_at = None
        self.calls.append(Call(model.name, seconds, parsed.get("ScannedCount", 0)))
