"""Programs that are measured, each in a process of its own that stands still while others are measured."""

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

START_SECONDS = 300.0  # fifty thousand followers take a while to sit down
END_SECONDS = 20.0
SETTLE_SECONDS = 0.5  # after standing still, before anything is measured

Answers = Mapping[str, Callable[..., Any]]
Program = Callable[..., AbstractAsyncContextManager[Answers]]
"""Sets itself up, then answers questions by name until it is left."""


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
        self._can = self._connection.recv()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def has(self, question: str) -> bool:
        """Whether the program answers this."""
        return question in self._can

    def ask(self, question: str, *args: Any) -> Any:
        """The program's answer."""
        self._connection.send((question, args))
        return self._connection.recv()

    def cpu_seconds(self) -> float:
        """What the process has used since it began, all threads together."""
        return float(self.ask("cpu"))

    def cpu_percent(self, seconds: float) -> float:
        """Of one core, over so many seconds from now."""
        cpu, began = self.cpu_seconds(), time.perf_counter()
        time.sleep(seconds)
        return 100 * (self.cpu_seconds() - cpu) / (time.perf_counter() - began)

    def pause(self) -> None:
        """Stand still, so that others can be measured."""
        os.kill(self._pid, signal.SIGSTOP)

    @contextmanager
    def running(self) -> Iterator[Self]:
        """Awake for the block, and settled."""
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
            pass  # it has ended by itself, with a traceback on stderr
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
    """How many bytes Python holds for a program once it is ready, less what it held before."""
    with Subject(program, *args, trace_memory=True, **options) as subject:
        return float(subject.ask("memory"))


def _run(connection: Connection, program: Program, args: tuple[Any, ...], options: dict[str, Any]) -> None:
    if options.pop("trace_memory", False):
        tracemalloc.start()
    asyncio.run(_answer(connection, program(*args, **options)))


async def _answer(connection: Connection, program: AbstractAsyncContextManager[Answers]) -> None:
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    async with program as own:
        answers: Answers = {"cpu": time.process_time, "memory": _memory, **own}

        def hear() -> None:
            try:
                asked = connection.recv()
            except EOFError:
                asked = None
            if asked is None:
                loop.remove_reader(connection.fileno())
                over.set()
            else:
                question, args = asked
                connection.send(answers[question](*args))

        loop.add_reader(connection.fileno(), hear)
        connection.send(frozenset(answers))
        await over.wait()


def _memory() -> int:
    return tracemalloc.get_traced_memory()[0]
