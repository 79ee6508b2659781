"""Programs under measurement, each in its own process, which is stopped while others are measured."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self

START_SECONDS = 300.0  # fifty thousand followers take a while to subscribe
END_SECONDS = 20.0
SETTLE_SECONDS = 0.5  # after resuming, before anything is measured

Commands = Mapping[str, Callable[..., Any]]
Program = Callable[..., AbstractAsyncContextManager[Commands]]
"""Sets itself up, then serves commands by name until it is closed."""


class Subject:
    """A program in a process of its own."""

    def __init__(self, program: Program, *args: Any, **options: Any) -> None:
        spawning = multiprocessing.get_context("spawn")  # nothing of this process's state comes along
        self._connection, other = spawning.Pipe()
        self._process = spawning.Process(target=_run, args=(other, program, args, options), daemon=True)
        self._process.start()
        other.close()
        if not self._connection.poll(START_SECONDS):
            self.close()
            raise RuntimeError(f"{program} did not become ready within {START_SECONDS:.0f} s")
        self._commands = self._connection.recv()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def has(self, command: str) -> bool:
        """Whether the program has this command."""
        return command in self._commands

    def call(self, command: str, *args: Any) -> Any:
        """Run a command in the program and return its result."""
        self._connection.send((command, args))
        return self._connection.recv()

    def cpu_seconds(self) -> float:
        """CPU time of the process since its start, all threads together."""
        return float(self.call("cpu"))

    def cpu_percent(self, seconds: float) -> float:
        """Percent of one core, over this many seconds from now."""
        cpu, began = self.cpu_seconds(), time.perf_counter()
        time.sleep(seconds)
        return 100 * (self.cpu_seconds() - cpu) / (time.perf_counter() - began)

    def pause(self) -> None:
        """Stop the process while others are measured."""
        os.kill(self._pid, signal.SIGSTOP)

    @contextmanager
    def running(self) -> Iterator[Self]:
        """Resume the process for the block, once it has settled."""
        os.kill(self._pid, signal.SIGCONT)
        time.sleep(SETTLE_SECONDS)
        try:
            yield self
        finally:
            self.pause()

    def close(self) -> None:
        """End the process."""
        os.kill(self._pid, signal.SIGCONT)
        try:
            self._connection.send(None)
        except OSError:
            pass  # it has already exited, with a traceback on stderr
        self._process.join(END_SECONDS)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._connection.close()

    @property
    def _pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid


def traced(program: Program, *args: Any, **options: Any) -> float:
    """The bytes that Python allocates for a program until it is ready."""
    with Subject(program, *args, trace_memory=True, **options) as subject:
        return float(subject.call("memory"))


def _run(connection: Connection, program: Program, args: tuple[Any, ...], options: dict[str, Any]) -> None:
    if options.pop("trace_memory", False):
        tracemalloc.start()
    asyncio.run(_serve(connection, program(*args, **options)))


async def _serve(connection: Connection, program: AbstractAsyncContextManager[Commands]) -> None:
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    async with program as own:
        commands: Commands = {"cpu": time.process_time, "memory": _memory, **own}

        def on_request() -> None:
            try:
                request = connection.recv()
            except EOFError:
                request = None
            if request is None:
                loop.remove_reader(connection.fileno())
                over.set()
            else:
                command, args = request
                connection.send(commands[command](*args))

        loop.add_reader(connection.fileno(), on_request)
        connection.send(frozenset(commands))
        await over.wait()


def _memory() -> int:
    return tracemalloc.get_traced_memory()[0]
