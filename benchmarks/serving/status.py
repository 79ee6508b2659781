"""The status of a turn, unchanged and whole, against a bare Starlette route with a constant answer."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import tempfile
import urllib.request
from collections.abc import Callable
from pathlib import Path

from benchmarks.harness import Goal, Result, interleaved
from benchmarks.serving.load import count_responses
from benchmarks.serving.processes import Running, longwatch, peer

CONNECTIONS = 32
STATUS = "/api/projects/bench/sessions/one/turns/{turn}/status"


def measure(*, quick: bool) -> list[Result]:
    """One table."""
    seconds, rounds = (1.0, 3) if quick else (2.0, 7)
    with (
        tempfile.TemporaryDirectory(dir=os.environ.get("LONGWATCH_BENCH_DIR")) as folder,
        longwatch(Path(folder) / "journal.db") as ours,
        peer("bare") as bare,
    ):
        path, tag = _turn(ours)
        requests = {
            "Starlette, constant 304": (bare, _request("/304", 'W/"running-3-0"')),
            "longwatch status, 304": (ours, _request(path, tag)),
            "Starlette, constant JSON": (bare, _request("/200")),
            "longwatch status, 200": (ours, _request(path)),
        }
        cases: dict[str, Callable[[], float]] = {
            name: functools.partial(_per_cpu_second, server, request, seconds)
            for name, (server, request) in requests.items()
        }
        found = interleaved(cases, rounds=rounds)
    bare_304, ours_304, bare_200, ours_200 = found.values()
    return [
        Result(
            f"Status of a turn, {CONNECTIONS} connections",
            ("server", "responses per CPU-second", "× Starlette"),
            [
                (name, value, value / (bare_304 if "304" in name else bare_200))
                for name, value in found.items()
            ],
            [
                Goal("304 / bare Starlette 304", ours_304 / bare_304, 0.6, at_most=False),
                Goal("200 / bare Starlette JSON", ours_200 / bare_200, 0.5, at_most=False),
            ],
        )
    ]


def _turn(server: Running) -> tuple[str, str]:
    """A turn with three blocks: the address of its status, and its tag."""
    _post(server, "/api/projects", {"id": "bench"})
    _post(server, "/api/projects/bench/sessions", {"id": "one"})
    turn = json.loads(_post(server, "/api/projects/bench/sessions/one/turns", {"prompt": "measure"}))["id"]
    blocks = [{"type": "text", "text": f"block {number}"} for number in range(3)]
    line = json.dumps({"type": "assistant", "message": {"content": blocks}})
    lines = f"/api/projects/bench/sessions/one/turns/{turn}/lines"
    _post(server, lines, line.encode(), "application/x-ndjson")
    path = STATUS.format(turn=turn)
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}") as answer:
        return path, answer.headers["ETag"]


def _post(server: Running, path: str, body: object, kind: str = "application/json") -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    url = f"http://127.0.0.1:{server.port}{path}"
    request = urllib.request.Request(url, data, {"Content-Type": kind}, method="POST")
    with urllib.request.urlopen(request) as answer:
        found: bytes = answer.read()
        return found


def _request(path: str, tag: str | None = None) -> bytes:
    has = f"If-None-Match: {tag}\r\n" if tag else ""
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{has}\r\n".encode()


def _per_cpu_second(server: Running, request: bytes, seconds: float) -> float:
    before = server.cpu_seconds()
    responses = asyncio.run(count_responses(server.port, request, connections=CONNECTIONS, seconds=seconds))
    return responses / max(0.01, server.cpu_seconds() - before)
