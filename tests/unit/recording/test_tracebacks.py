"""The tracebacks of calls that raise."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import longwatch
from longwatch.journal.memory import MemoryJournal
from longwatch.model.event import Event
from longwatch.model.preview import event_preview
from longwatch.recording import calls
from longwatch.recording.active_run import ActiveRun
from longwatch.recording.call_tracker import CallTracker
from longwatch.recording.open_call import CallBlock
from longwatch.recording.recorder import Recorder
from longwatch.recording.secret_names import REDACTED
from longwatch.recording.tracebacks import MOST_CHARACTERS, error_traceback
from tests.unit.recording.recorded import Refusal, events_of

TOKEN = "sk-proj-" + "a1B2c3D4e5" * 4


def fetch(reason: str) -> None:
    raise Refusal(reason)


def descend(levels: int) -> None:
    if levels == 0:
        fetch("too deep")
    descend(levels - 1)


def caught(function: Any, *args: Any) -> BaseException:
    try:
        function(*args)
    except BaseException as error:  # noqa: BLE001 - any exception may leave the function
        return error
    raise AssertionError("nothing was raised")


def failed_calls(journal: MemoryJournal, run_id: str) -> list[Event]:
    """The ends of the calls that failed, innermost first."""
    types = ("tool_call", "agent_end", "node_stop", "model_call")
    found = [event for event in events_of(journal, run_id) if event.type in types]
    return [event for event in found if event.payload["status"] == "failed"]


def tracebacks(journal: MemoryJournal, run_id: str) -> list[object]:
    return [event.payload.get("traceback") for event in failed_calls(journal, run_id)]


def test_the_innermost_call_has_the_traceback_and_those_around_it_do_not(
    configured: Recorder, journal: MemoryJournal
) -> None:
    @longwatch.tool
    def search(query: str) -> None:
        fetch(query)

    @longwatch.agent
    def reader() -> None:
        search("no maps")

    with longwatch.run() as run, pytest.raises(Refusal):
        reader()
    configured.flush()

    inner, outer = failed_calls(journal, run.run_id)
    lines = str(inner.payload["traceback"]).splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert [line for line in lines if line.startswith("  File")] == [
        f'  File "{__file__}", line {search.__wrapped__.__code__.co_firstlineno + 2}, in '  # type: ignore[attr-defined]
        f"{search.__qualname__}",
        f'  File "{__file__}", line {fetch.__code__.co_firstlineno + 1}, in fetch',
    ]
    assert lines[2::2] == ["    fetch(query)", "    raise Refusal(reason)"]
    assert lines[-1] == "Refusal: no maps"
    assert "traceback" not in outer.payload
    assert event_preview(inner) == event_preview(outer) == "Refusal: no maps"


def test_a_new_exception_has_a_traceback_of_its_own_up_to_the_recorded_one(
    configured: Recorder, journal: MemoryJournal
) -> None:
    @longwatch.tool
    def search() -> None:
        fetch("no maps")

    @longwatch.agent
    def reader() -> None:
        try:
            search()
        except Refusal as refusal:
            raise LookupError("nothing to read") from refusal

    with longwatch.run() as run, pytest.raises(LookupError):
        reader()
    configured.flush()

    inner, outer = tracebacks(journal, run.run_id)
    assert str(inner).endswith("Refusal: no maps")
    assert str(outer).endswith("LookupError: nothing to read")
    assert "no maps" not in str(outer)


def test_a_cause_that_no_call_recorded_comes_first() -> None:
    def read() -> None:
        try:
            fetch("no maps")
        except Refusal as refusal:
            raise LookupError("nothing to read") from refusal

    first, between, second = str(error_traceback(caught(read))).split("\n\n")

    assert first.endswith("in fetch\n    raise Refusal(reason)\nRefusal: no maps")
    assert between == "The above exception was the direct cause of the following exception:"
    assert second.endswith("from refusal\nLookupError: nothing to read")


def test_the_first_exception_of_a_group_is_shown() -> None:
    def gather() -> None:
        raise ExceptionGroup("two tasks", [caught(fetch, "a"), caught(fetch, "b")])  # type: ignore[type-var]

    first, between, second = str(error_traceback(caught(gather))).split("\n\n")

    assert first.endswith("Refusal: a")
    assert between == "The above exception is the first of the following group:"
    assert second.endswith("ExceptionGroup: two tasks (2 sub-exceptions)")


async def test_coroutines_and_generators_of_both_kinds_have_tracebacks_without_the_recording(
    configured: Recorder, journal: MemoryJournal
) -> None:
    @longwatch.tool
    async def awaited() -> None:
        await asyncio.sleep(0)
        fetch("awaited")

    @longwatch.tool
    def generated() -> Iterator[int]:
        yield 1
        fetch("generated")

    @longwatch.tool
    async def streamed() -> AsyncIterator[int]:
        yield 1
        fetch("streamed")

    with longwatch.run() as run:
        with pytest.raises(Refusal):
            await awaited()
        with pytest.raises(Refusal):
            list(generated())
        with pytest.raises(Refusal):
            [each async for each in streamed()]
    configured.flush()

    found = [str(each).splitlines() for each in tracebacks(journal, run.run_id)]
    assert [lines[-1] for lines in found] == ["Refusal: awaited", "Refusal: generated", "Refusal: streamed"]
    assert [sum(line.startswith("  File") for line in lines) for lines in found] == [2, 2, 2]
    assert not any(calls.__file__.rpartition("/")[0] in line for lines in found for line in lines)


def test_blocks_and_callbacks_of_adapters_record_the_traceback(
    configured: Recorder, journal: MemoryJournal
) -> None:
    tracker = CallTracker("test")

    with longwatch.run() as run:
        with pytest.raises(Refusal), CallBlock("node", "plan"):
            fetch("in a block")
        tracker.begin(1, "tool", "search")
        tracker.end(1, error=caught(fetch, "in a callback"))
        with pytest.raises(Refusal), longwatch.model_call("m-1"):
            fetch("of a model")
        tracker.begin(2, "tool", "search")
        tracker.end(2, error="only a text")
    configured.flush()

    *found, of_text = tracebacks(journal, run.run_id)
    assert [str(each).splitlines()[-1] for each in found] == [
        "Refusal: in a block",
        "Refusal: in a callback",
        "Refusal: of a model",
    ]
    assert of_text is None


@pytest.mark.parametrize(("capture", "is_recorded"), [("off", False), ("summary", True), ("full", True)])
def test_the_capture_policy_decides(
    configured: Recorder, journal: MemoryJournal, capture: str, is_recorded: bool
) -> None:
    with longwatch.run(capture=capture) as run:
        with pytest.raises(Refusal):
            longwatch.tool(fetch)("no maps")
        with pytest.raises(Refusal), CallBlock("tool", "search"):
            fetch("no maps")
    configured.flush()

    assert [each is not None for each in tracebacks(journal, run.run_id)] == [is_recorded] * 2


def test_secrets_in_messages_and_in_source_lines_are_redacted(
    configured: Recorder, journal: MemoryJournal
) -> None:
    @longwatch.tool
    def sign_in() -> None:
        fetch("x" * 180 + f" {TOKEN} " + "y" * 50)  # the cut of the message would split the token

    @longwatch.tool
    def connect() -> None:
        print(1 / 0, "postgresql://ada:correct-horse@db.internal/orders")

    with longwatch.run() as run:
        with pytest.raises(Refusal):
            sign_in()
        with pytest.raises(ZeroDivisionError):
            connect()
    configured.flush()

    of_message, of_source = map(str, tracebacks(journal, run.run_id))
    assert "sk-proj" not in of_message
    assert "[shortened, " in of_message
    assert f"://{REDACTED}@db.internal" in of_source
    assert "correct-horse" not in of_source


def test_a_field_of_that_name_is_blanked_if_the_settings_say_so(
    configured: Recorder, journal: MemoryJournal, make_recorder: Any
) -> None:
    recorder = make_recorder(journal, redact_keys=("traceback",))

    with ActiveRun(recorder=recorder) as run, pytest.raises(Refusal):
        longwatch.tool(fetch)("no maps")
    recorder.flush()

    assert tracebacks(journal, run.run_id) == [REDACTED]


def test_of_a_long_traceback_the_innermost_frames_survive() -> None:
    lines = str(error_traceback(caught(descend, 300))).splitlines()

    assert lines[1] == "  … 283 outer frames left out"
    assert sum(line.startswith("  File") for line in lines) == 20
    assert lines[-3].endswith("in fetch")


def test_a_traceback_with_long_paths_and_messages_stays_within_its_characters() -> None:
    names: dict[str, Any] = {}
    source = "def f(n, error):\n    if n == 0: raise error\n    f(n - 1, error)\n"
    exec(compile(source, "/" + "long/" * 1_000 + "module.py", "exec"), names)
    cause = caught(names["f"], 400, ValueError("long " * 10_000))

    def wrap(error: BaseException) -> None:
        raise LookupError("more " * 10_000) from error

    text = str(error_traceback(caught(wrap, cause)))

    assert MOST_CHARACTERS / 2 < len(text) <= MOST_CHARACTERS
    assert "LookupError: more" in text


def test_libraries_are_shown_without_their_source() -> None:
    text = str(error_traceback(caught(asyncio.run, "no coroutine")))

    assert "asyncio" in text
    assert "    " not in text.split("in run")[-1]


@pytest.mark.parametrize("error", [asyncio.CancelledError(), KeyboardInterrupt(), SystemExit(1)])
def test_what_stops_a_program_has_no_traceback(error: BaseException) -> None:
    def stop() -> None:
        raise error

    assert error_traceback(caught(stop)) is None


def test_an_exception_that_was_never_raised_has_none() -> None:
    assert error_traceback(ValueError("not raised")) is None


def test_an_exception_without_a_text_does_not_stop_the_recording() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError

    def refuse() -> None:
        raise Mute

    assert str(error_traceback(caught(refuse))).endswith("\nMute")


def test_the_frames_are_not_kept_alive(configured: Recorder) -> None:
    class Large:
        pass

    held: list[weakref.ref[Large]] = []

    @longwatch.tool
    def work() -> None:
        large = Large()
        held.append(weakref.ref(large))
        fetch("no maps")

    gc.disable()
    try:
        with longwatch.run(), pytest.raises(Refusal) as refusal:
            work()
        refusal.value.__traceback__ = None
        del refusal

        assert held[0]() is None
    finally:
        gc.enable()
