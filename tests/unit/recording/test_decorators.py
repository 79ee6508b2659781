"""Decorated functions behave as before, and are recorded."""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
import logging
import subprocess
import sys
import traceback
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextvars import copy_context
from pathlib import Path
from typing import Any

import pytest

import longwatch
from longwatch.journal.memory import MemoryJournal
from longwatch.recording import recorder as recorder_module
from longwatch.recording.recorder import Recorder, configure
from longwatch.recording.scope import SCOPE
from longwatch.settings import Settings
from tests.unit.recording.recorded import calls_of, events_of, types_of, verification_of


class Refusal(Exception):
    """What the observed code raises."""


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
def test_what_stops_the_program_passes_through_and_is_told(
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


async def test_a_cancelled_coroutine_is_told_as_failed(journal: MemoryJournal, configured: Recorder) -> None:
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
        answers = [next(steps), steps.send("hello"), steps.throw(thrown)]
        with pytest.raises(StopIteration):
            next(steps)
    configured.flush()

    assert answers == ["ready", "hello", "caught"]
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
        answers = [await anext(steps), await steps.asend("hello"), await steps.athrow(Refusal())]
        await steps.aclose()
    configured.flush()

    assert answers == ["ready", "hello", "caught"]
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
        said = getattr(Library(), name)("sea")
    configured.flush()

    assert said.endswith("sea")
    assert calls_of(journal, run.run_id) == [(None, name, "started"), (None, name, "completed")]
    assert events_of(journal, run.run_id)[1].payload["input"] == {"word": "sea"}


@pytest.mark.parametrize("thing", [property(lambda self: 1), Library, 3])
def test_what_is_no_function_is_refused_where_it_is_decorated(thing: Any) -> None:
    with pytest.raises(TypeError, match="only functions can be recorded"):
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


def test_a_wrong_capture_policy_is_refused_where_it_is_written() -> None:
    with pytest.raises(ValueError, match="capture must be off, summary or full, not 'some'"):
        longwatch.tool(capture="some")(print)


@pytest.mark.parametrize(("capture", "kept"), [("off", None), ("summary", "x" * 1000), ("full", "x" * 3000)])
def test_a_policy_says_how_much_of_arguments_and_results_is_kept(
    journal: MemoryJournal, configured: Recorder, capture: str, kept: str | None
) -> None:
    @longwatch.tool(capture=capture)
    def repeat(text: str) -> str:
        return text

    with longwatch.run() as run:
        repeat("x" * 3000)
    configured.flush()

    _, started, ended, *_ = events_of(journal, run.run_id)
    if kept is None:
        assert "input" not in started.payload
        assert "output" not in ended.payload
    else:
        (text,) = started.payload["input"].values()  # type: ignore[attr-defined]
        assert text.startswith(kept)
        assert (len(text) > len(kept)) == (capture == "summary")
        assert ended.payload["output"] == text


def test_a_failure_is_told_although_capture_is_off(journal: MemoryJournal, configured: Recorder) -> None:
    @longwatch.tool(capture="off")
    def refuse() -> None:
        raise Refusal("no")

    with longwatch.run() as run, pytest.raises(Refusal):
        refuse()
    configured.flush()

    assert events_of(journal, run.run_id)[2].payload["error_message"] == "Refusal: no"


def test_later_changes_do_not_reach_what_was_recorded(journal: MemoryJournal, configured: Recorder) -> None:
    @longwatch.tool
    def keep(basket: list[str], notes: dict[str, Any]) -> dict[str, Any]:
        basket.append("apple")
        notes["inner"]["n"] = 2
        return notes

    basket, notes = ["pear"], {"inner": {"n": 1}}
    with longwatch.run() as run:
        result = keep(basket, notes)
        result["inner"]["n"] = 3
        basket.clear()
    configured.flush()

    _, started, ended, *_ = events_of(journal, run.run_id)
    assert started.payload["input"] == {"basket": ["pear"], "notes": {"inner": {"n": 1}}}
    assert ended.payload["output"] == {"inner": {"n": 2}}


def test_an_argument_that_cannot_be_shown_does_not_break_the_call(
    journal: MemoryJournal, configured: Recorder
) -> None:
    class Sullen:
        def __repr__(self) -> str:
            raise RuntimeError("no")

        __str__ = __repr__

    @longwatch.tool
    def use(thing: Sullen) -> Sullen:
        return thing

    sullen = Sullen()
    with longwatch.run() as run:
        assert use(sullen) is sullen
    configured.flush()

    shown = "<Sullen that cannot be shown: RuntimeError>"
    assert events_of(journal, run.run_id)[1].payload["input"] == {"thing": shown}


def test_a_wrong_call_fails_as_it_would_undecorated(configured: Recorder) -> None:
    @longwatch.tool
    def one(a: int) -> int:
        return a

    with longwatch.run(), pytest.raises(TypeError, match="missing 1 required positional argument"):
        one()  # type: ignore[call-arg]


def test_a_parameter_called_cls_is_kept_where_it_is_no_class(
    journal: MemoryJournal, configured: Recorder
) -> None:
    @longwatch.tool
    def filter_by(kind: str, cls: str) -> None: ...

    with longwatch.run() as run:
        filter_by("a", cls="b")
    configured.flush()

    assert events_of(journal, run.run_id)[1].payload["input"] == {"kind": "a", "cls": "b"}


OUTSIDE = """
import sys, threading
import longwatch

@longwatch.tool
def tool(x): return x

@longwatch.agent
async def agent(): ...

before, modules = threading.active_count(), set(sys.modules)
assert tool(1) == 1
import asyncio; asyncio.run(agent())
from longwatch.recording import recorder
assert recorder._process_recorder is None
assert threading.active_count() == before
assert not {"sqlite3", "boto3"} & set(sys.modules), "a database was loaded"
"""


def test_outside_a_run_nothing_is_loaded_created_or_written(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", OUTSIDE], check=True, cwd=tmp_path)

    assert list(tmp_path.iterdir()) == []


def test_record_outside_a_run_warns_and_returns_false(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "longwatch"):
        said = longwatch.record("lost", n=1)

    assert said is False
    assert "record('lost') was called outside any run" in caplog.text
    assert recorder_module._process_recorder is None


def test_record_inside_a_run_belongs_to_the_call_around_it(
    journal: MemoryJournal, configured: Recorder
) -> None:
    @longwatch.agent
    def planner() -> bool:
        return longwatch.record("decision", type="go", self="me")

    with longwatch.run() as run:
        assert planner()
    configured.flush()

    start, decision = events_of(journal, run.run_id)[1:3]
    assert decision.agent_name == "planner"
    assert decision.parent_call_id == start.call_id
    assert decision.payload == {"type": "go", "self": "me"}


def test_a_workflow_is_a_run_and_writes_its_end(journal: MemoryJournal, configured: Recorder) -> None:
    @longwatch.workflow(name="nightly", kind="import")
    def nightly(day: str) -> dict[str, int]:
        return {"rows": 3}

    nightly("monday")
    configured.flush()

    (summary,) = journal.find_runs().runs
    first, last = events_of(journal, summary.run_id)[0], events_of(journal, summary.run_id)[-2]
    assert (summary.name, summary.kind, summary.status) == ("nightly", "import", "succeeded")
    assert first.payload["input"] == {"day": "monday"}
    assert last.type == "workflow_complete"
    assert last.payload["result"] == {"rows": 3}
    assert str(verification_of(journal, summary.run_id).answer) == "complete"


def test_a_failed_workflow_says_why(journal: MemoryJournal, configured: Recorder) -> None:
    @longwatch.workflow
    def failing() -> None:
        raise Refusal("no rows")

    with pytest.raises(Refusal):
        failing()
    configured.flush()

    (summary,) = journal.find_runs().runs
    assert (summary.status, summary.error) == ("failed", "Refusal: no rows")


async def test_workflows_may_be_coroutines_and_generators(
    journal: MemoryJournal, configured: Recorder
) -> None:
    @longwatch.workflow
    async def waits() -> int:
        return 1

    @longwatch.workflow
    def yields() -> Iterator[int]:
        yield 1

    @longwatch.workflow
    async def streams() -> AsyncIterator[int]:
        yield 1

    await waits()
    list(yields())
    _ = [item async for item in streams()]
    configured.flush()

    assert {run.name: run.status.value for run in journal.find_runs().runs} == {
        "waits": "succeeded",
        "yields": "succeeded",
        "streams": "succeeded",
    }


def test_a_workflow_inside_a_workflow_is_a_child_run(journal: MemoryJournal, configured: Recorder) -> None:
    @longwatch.tool
    def step() -> None: ...

    @longwatch.workflow
    def inner() -> None:
        step()

    @longwatch.workflow
    def outer() -> None:
        step()
        inner()
        step()

    outer()
    configured.flush()

    runs = {run.name: run for run in journal.find_runs().runs}
    assert runs["inner"].parent_run_id == runs["outer"].run_id
    assert len(calls_of(journal, runs["outer"].run_id)) == 4
    assert len(calls_of(journal, runs["inner"].run_id)) == 2
    (trace_of_outer,) = {event.trace_id for event in events_of(journal, runs["outer"].run_id)} - {None}
    (trace_of_inner,) = {event.trace_id for event in events_of(journal, runs["inner"].run_id)} - {None}
    assert trace_of_inner == trace_of_outer


@pytest.mark.parametrize("decorate", [longwatch.workflow, longwatch.agent, longwatch.tool])
def test_with_recording_off_everything_is_untouched(
    journal: MemoryJournal, settings: Settings, decorate: Callable[..., Any]
) -> None:
    from dataclasses import replace

    configure(journal, settings=replace(settings, enabled=False))

    @decorate
    def work(n: int) -> int:
        assert SCOPE.get() is None
        return n + 1

    with longwatch.run() as run:
        assert work(1) == 2
        run.record("nothing")
        assert longwatch.record("nothing") is False

    assert journal.find_runs().runs == []


def test_mistakes_in_the_settings_do_not_break_the_observed_code(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("LONGWATCH_CAPTURE", "everything")
    monkeypatch.setenv("LONGWATCH_RUN_ID", "wf-1")

    @longwatch.tool
    def tool(n: int) -> int:
        return n

    @longwatch.workflow
    def workflow(n: int) -> int:
        return tool(n)

    with longwatch.run():
        assert tool(1) == 1
    assert workflow(2) == 2
    assert longwatch.record("lost") is False


def test_a_process_of_longwatch_run_records_into_its_run(
    journal: MemoryJournal, configured: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGWATCH_RUN_ID", "wf-given")
    monkeypatch.setenv("TRACEPARENT", f"00-{'ab' * 16}-{'cd' * 8}-01")

    @longwatch.tool
    def tool() -> None: ...

    tool()
    assert longwatch.record("said")
    configured.flush()

    events = events_of(journal, "wf-given")
    assert [event.type for event in events] == ["tool_call", "tool_call", "said"]
    assert {event.trace_id for event in events} == {"ab" * 16}


def test_a_process_of_longwatch_run_follows_a_new_configuration(
    journal: MemoryJournal, configured: Recorder, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGWATCH_RUN_ID", "wf-given")
    longwatch.record("before")
    later = MemoryJournal()

    configure(later, settings=settings)
    longwatch.record("after")
    longwatch.flush()

    assert types_of(journal, "wf-given") == ["before"]
    assert types_of(later, "wf-given") == ["after"]
