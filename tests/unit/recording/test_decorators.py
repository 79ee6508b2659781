"""Decorated functions and methods behave as before, and are recorded."""

from __future__ import annotations

import asyncio
import functools
import inspect
import sys
import traceback
from contextvars import copy_context
from typing import Any

import pytest

import longwatch
from longwatch.journal.memory import MemoryJournal
from longwatch.recording.recorder import Recorder
from longwatch.recording.scope import SCOPE
from tests.unit.recording.recorded import Refusal, calls_of, events_of, types_of


def test_a_tool_is_recorded_before_and_after_with_its_duration(
    journal: MemoryJournal, configured: Recorder
) -> None:
    @longwatch.tool
    def search(query: str, limit: int = 10) -> list[str]:
        return [query] * 2

    with longwatch.run("research") as run:
        found = search("tides", limit=3)
    configured.flush()

    started, ended = (event for event in events_of(journal, run.run_id) if event.type == "tool_call")
    assert found == ["tides", "tides"]
    assert started.payload == {
        "operation": "search",
        "status": "started",
        "input": {"query": "tides", "limit": 3},
    }
    assert ended.payload["output"] == ["tides", "tides"]
    assert ended.payload["status"] == "completed"
    assert isinstance(ended.payload["duration_ms"], int | float)
    assert started.call_id == ended.call_id


def test_agents_and_the_tools_they_call_are_nested(journal: MemoryJournal, configured: Recorder) -> None:
    @longwatch.tool(name="look up", system="library")
    def look_up(word: str) -> str:
        return word.upper()

    @longwatch.agent(role="reads")
    def reader(word: str) -> str:
        return look_up(word)

    @longwatch.agent
    def writer() -> str:
        return reader("sea")

    with longwatch.run() as run:
        writer()
    configured.flush()

    assert calls_of(journal, run.run_id) == [
        ("writer", "agent_start", "started"),
        ("reader", "agent_start", "started"),
        ("reader", "look up", "started"),
        ("reader", "look up", "completed"),
        ("reader", "agent_end", "completed"),
        ("writer", "agent_end", "completed"),
    ]
    by_start = {
        event.payload.get("operation") or event.agent_name: event
        for event in events_of(journal, run.run_id)
        if event.payload.get("status") == "started"
    }
    assert by_start["writer"].parent_call_id is None
    assert by_start["reader"].parent_call_id == by_start["writer"].call_id
    assert by_start["look up"].parent_call_id == by_start["reader"].call_id
    assert by_start["look up"].payload["system"] == "library"
    assert by_start["reader"].payload["role"] == "reads"


def test_an_exception_comes_out_unchanged(journal: MemoryJournal, configured: Recorder) -> None:
    refusal = Refusal("not today")

    @longwatch.tool
    def refuse() -> None:
        raise refusal

    with longwatch.run() as run, pytest.raises(Refusal) as caught:
        refuse()
    configured.flush()

    assert caught.value is refusal
    assert refusal.__context__ is None
    assert refusal.__cause__ is None
    assert traceback.extract_tb(refusal.__traceback__)[-1].line == "raise refusal"
    assert events_of(journal, run.run_id)[2].payload["error_message"] == "Refusal: not today"
    assert events_of(journal, run.run_id)[2].payload["status"] == "failed"


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), SystemExit(3), asyncio.CancelledError()])
def test_an_exception_that_stops_the_program_passes_through_and_is_recorded(
    journal: MemoryJournal, configured: Recorder, stop: BaseException
) -> None:
    @longwatch.tool
    def work() -> None:
        raise stop

    run = longwatch.run()
    with pytest.raises(type(stop)) as caught, run:
        work()
    configured.flush()

    assert caught.value is stop
    assert calls_of(journal, run.run_id)[-1] == (None, "work", "failed")
    ending = events_of(journal, run.run_id)[-2]
    assert ending.type == "workflow_error"
    assert ending.payload["status"] == ("failed" if isinstance(stop, SystemExit) else "interrupted")
    assert ending.payload["error_code"] == type(stop).__name__


def test_leaving_with_exit_code_0_is_success(journal: MemoryJournal, configured: Recorder) -> None:
    run = longwatch.run()
    with pytest.raises(SystemExit), run:
        sys.exit(0)
    configured.flush()

    assert types_of(journal, run.run_id) == ["workflow_start", "workflow_complete"]


async def test_coroutines_are_recorded_to_their_end(journal: MemoryJournal, configured: Recorder) -> None:
    @longwatch.tool
    async def fetch(n: int) -> int:
        await asyncio.sleep(0)
        return n

    @longwatch.agent
    async def gather() -> list[int]:
        return list(await asyncio.gather(fetch(1), fetch(2)))

    async with longwatch.run() as run:
        result = await gather()
    configured.flush()

    assert result == [1, 2]
    assert inspect.iscoroutinefunction(fetch)
    calls = calls_of(journal, run.run_id)
    assert calls.count(("gather", "fetch", "started")) == 2
    assert calls.count(("gather", "fetch", "completed")) == 2
    assert calls[-1] == ("gather", "agent_end", "completed")


async def test_a_cancelled_coroutine_is_recorded_as_failed(
    journal: MemoryJournal, configured: Recorder
) -> None:
    begun = asyncio.Event()

    @longwatch.tool
    async def wait() -> None:
        begun.set()
        await asyncio.Event().wait()

    async with longwatch.run() as run:
        task = asyncio.create_task(wait())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    configured.flush()

    assert calls_of(journal, run.run_id)[-1] == (None, "wait", "failed")


def test_a_coroutine_closed_outside_its_context_raises_nothing(configured: Recorder) -> None:
    @longwatch.tool
    async def wait() -> None:
        await asyncio.sleep(0)

    async def in_a_run() -> None:
        with longwatch.run():
            await wait()

    left = in_a_run()
    copy_context().run(left.send, None)

    with longwatch.run() as other:
        left.close()  # as a loop does that ends with tasks under way
        scope = SCOPE.get()

    assert scope is not None
    assert scope.run_id == other.run_id


class Library:
    """Methods of every kind, with the decorators in either order."""

    @longwatch.tool
    def plain(self, word: str) -> str:
        return f"{type(self).__name__} {word}"

    @longwatch.tool
    @classmethod
    def of_class(cls, word: str) -> str:
        return f"{cls.__name__} {word}"

    @classmethod
    @longwatch.tool
    def of_class_inside(cls, word: str) -> str:
        return f"{cls.__name__} {word}"

    @longwatch.tool
    @staticmethod
    def static(word: str) -> str:
        return word

    @staticmethod
    @longwatch.tool
    def static_inside(word: str) -> str:
        return word


@pytest.mark.parametrize("name", ["plain", "of_class", "of_class_inside", "static", "static_inside"])
def test_methods_are_recorded_whatever_the_order_of_decorators(
    journal: MemoryJournal, configured: Recorder, name: str
) -> None:
    with longwatch.run() as run:
        result = getattr(Library(), name)("sea")
    configured.flush()

    assert result.endswith("sea")
    assert calls_of(journal, run.run_id) == [(None, name, "started"), (None, name, "completed")]
    assert events_of(journal, run.run_id)[1].payload["input"] == {"word": "sea"}


@pytest.mark.parametrize("thing", [property(lambda self: 1), Library, 3])
def test_anything_but_a_function_is_refused_where_it_is_decorated(thing: Any) -> None:
    with pytest.raises(TypeError, match="Only functions can be recorded"):
        longwatch.tool(thing)


def test_a_callable_object_and_a_partial_are_recorded(journal: MemoryJournal, configured: Recorder) -> None:
    class Adder:
        def __call__(self, one: int, other: int) -> int:
            return one + other

    add = longwatch.tool(Adder())
    add_two = longwatch.tool(name="add two")(functools.partial(Adder(), 2))

    with longwatch.run() as run:
        sums = add(1, 2), add_two(3)
    configured.flush()

    assert sums == (3, 5)
    assert [call[1] for call in calls_of(journal, run.run_id)] == ["Adder"] * 2 + ["add two"] * 2
