"""Decorated generators of both kinds are recorded to their end, and behave as before."""

from __future__ import annotations

import gc
import inspect
from collections.abc import AsyncIterator, Generator, Iterator
from typing import Any

import pytest

import longwatch
from longwatch.journal.memory import MemoryJournal
from longwatch.recording.recorder import Recorder
from longwatch.recording.scope import SCOPE
from tests.unit.recording.recorded import Refusal, calls_of, events_of, types_of


def test_a_generator_is_timed_to_its_real_end(journal: MemoryJournal, configured: Recorder) -> None:
    @longwatch.tool
    def count(n: int) -> Generator[int, None, str]:
        yield from range(n)
        return "done"

    def consume() -> Iterator[object]:
        result = yield from count(3)
        longwatch.record("after", result=result)

    with longwatch.run() as run:
        seen = []
        for item in consume():
            longwatch.record("between")
            seen.append(item)
    configured.flush()

    assert seen == [0, 1, 2]
    assert inspect.isgeneratorfunction(count)
    assert types_of(journal, run.run_id) == [
        "workflow_start",
        "tool_call",
        "between",
        "between",
        "between",
        "tool_call",
        "after",
        "workflow_complete",
    ]
    events = {event.type: event for event in events_of(journal, run.run_id)}
    assert events["tool_call"].payload["output"] == "done"
    assert events["after"].payload["result"] == "done"
    assert events["between"].parent_call_id is None  # the code between the yields is not the tool's


def test_values_can_be_sent_and_thrown_into_a_generator(journal: MemoryJournal, configured: Recorder) -> None:
    thrown = Refusal("thrown in")
    inside: list[object] = []

    @longwatch.tool
    def echo() -> Any:
        got = yield "ready"
        try:
            yield got
        except Refusal as error:
            inside.append(error)
            yield "caught"

    with longwatch.run() as run:
        steps = echo()
        responses = [next(steps), steps.send("hello"), steps.throw(thrown)]
        with pytest.raises(StopIteration):
            next(steps)
    configured.flush()

    assert responses == ["ready", "hello", "caught"]
    assert inside == [thrown]
    assert calls_of(journal, run.run_id)[-1] == (None, "echo", "completed")


def test_an_exception_thrown_in_and_not_caught_comes_out_unchanged(
    journal: MemoryJournal, configured: Recorder
) -> None:
    thrown = Refusal("thrown in")

    @longwatch.tool
    def echo() -> Iterator[int]:
        yield 1

    with longwatch.run() as run:
        steps = echo()
        next(steps)
        with pytest.raises(Refusal) as caught:
            steps.throw(thrown)  # type: ignore[attr-defined]
    configured.flush()

    assert caught.value is thrown
    assert calls_of(journal, run.run_id)[-1] == (None, "echo", "failed")


def test_a_generator_closed_early_has_simply_ended(journal: MemoryJournal, configured: Recorder) -> None:
    @longwatch.tool
    def tidy() -> None: ...

    @longwatch.agent
    def count() -> Iterator[int]:
        try:
            yield 1
            yield 2
        finally:
            tidy()

    with longwatch.run() as run:
        for _ in count():
            break
        gc.collect()
    configured.flush()

    assert calls_of(journal, run.run_id) == [
        ("count", "agent_start", "started"),
        ("count", "tidy", "started"),
        ("count", "tidy", "completed"),
        ("count", "agent_end", "completed"),
    ]


async def test_async_generators_are_recorded_too(journal: MemoryJournal, configured: Recorder) -> None:
    @longwatch.tool
    async def inner() -> int:
        return 1

    @longwatch.agent
    async def stream(n: int) -> AsyncIterator[int]:
        for each in range(n):
            yield each + await inner()

    with longwatch.run() as run:
        seen = [item async for item in stream(2)]
    configured.flush()

    assert seen == [1, 2]
    assert inspect.isasyncgenfunction(stream)
    assert calls_of(journal, run.run_id) == [
        ("stream", "agent_start", "started"),
        ("stream", "inner", "started"),
        ("stream", "inner", "completed"),
        ("stream", "inner", "started"),
        ("stream", "inner", "completed"),
        ("stream", "agent_end", "completed"),
    ]


async def test_an_async_generator_takes_what_is_sent_and_thrown(
    journal: MemoryJournal, configured: Recorder
) -> None:
    @longwatch.tool
    async def echo() -> Any:
        got = yield "ready"
        try:
            yield got
        except Refusal:
            yield "caught"

    with longwatch.run() as run:
        steps = echo()
        responses = [await anext(steps), await steps.asend("hello"), await steps.athrow(Refusal())]
        await steps.aclose()
    configured.flush()

    assert responses == ["ready", "hello", "caught"]
    assert calls_of(journal, run.run_id)[-1] == (None, "echo", "completed")


async def test_an_async_generator_begun_outside_a_run_sees_the_run_it_is_stepped_in(
    configured: Recorder,
) -> None:
    @longwatch.tool
    async def scopes() -> AsyncIterator[bool]:
        while True:
            yield SCOPE.get() is not None

    steps = scopes()
    outside = await anext(steps)
    with longwatch.run():
        inside = await anext(steps)
    await steps.aclose()  # type: ignore[attr-defined]

    assert (outside, inside) == (False, True)
