"""What a captured object raises stays with the capture; what a signal raises reaches the program."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

import longwatch
from longwatch.journal.memory import MemoryJournal
from longwatch.recording.capture import FULL, capture_value, error_text
from longwatch.recording.recorder import Recorder
from longwatch.recording.secret_names import SecretNames
from tests.unit.recording.recorded import calls_of

RAISED = [KeyboardInterrupt(), SystemExit(3), GeneratorExit(), asyncio.CancelledError()]


def raising(error: BaseException) -> Callable[..., Any]:
    def method(self: object, *_: object) -> Any:
        raise error

    return method


def objects(error: BaseException) -> Iterator[object]:
    yield type("Shown", (), {"__repr__": raising(error)})()
    yield type("Listed", (Mapping,), dict.fromkeys(("__iter__", "__len__", "__getitem__"), raising(error)))()
    yield type("Dumped", (), {"model_dump": raising(error)})()
    yield type("Owned", (), {"__dataclass_fields__": property(raising(error))})()
    yield type("Posing", (), {"__class__": property(raising(error))})()
    yield {type("Key", (), {"__str__": raising(error)})(): 1}
    yield type("Failure", (Exception,), {"__str__": raising(error)})()


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_no_object_can_raise_through_its_capture(error: BaseException) -> None:
    for each in objects(error):
        capture_value([each], FULL, SecretNames())


def test_an_object_that_calls_exit_does_not_end_the_program() -> None:
    exiting = type("Exiting", (), {"__repr__": lambda self: sys.exit(3)})()

    copy, _ = capture_value(exiting, FULL, SecretNames())

    assert copy == "<Exiting that cannot be shown: SystemExit>"


@pytest.mark.parametrize("error", RAISED[:2], ids=lambda error: type(error).__name__)
def test_a_tool_that_returns_or_raises_such_an_object_behaves_as_without_longwatch(
    configured: Recorder, journal: MemoryJournal, error: BaseException
) -> None:
    strange = type("Strange", (Exception,), {"__repr__": raising(error), "__str__": raising(error)})()

    @longwatch.tool
    def work(value: object, *, fails: bool = False) -> object:
        if fails:
            raise strange
        return value

    with longwatch.run(run_id="wf-1"):
        result = work(strange)
        with pytest.raises(type(strange)):
            work(strange, fails=True)
    longwatch.flush()

    assert result is strange
    assert calls_of(journal, "wf-1") == [
        (None, "work", "started"),
        (None, "work", "completed"),
        (None, "work", "started"),
        (None, "work", "failed"),
    ]


class Signalled:
    """An object during whose capture a signal arrives."""

    def __init__(self, number: signal.Signals) -> None:
        self._number = number

    def __repr__(self) -> str:
        signal.raise_signal(self._number)
        return "captured"


def test_ctrl_c_during_a_capture_reaches_the_program() -> None:
    with pytest.raises(KeyboardInterrupt):
        capture_value([Signalled(signal.SIGINT)], FULL, SecretNames())


def _exit(number: int, frame: object) -> None:
    sys.exit(7)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("handler", [_exit, lambda *_: sys.exit(7), _interrupt])
def test_an_exception_of_a_handler_during_a_capture_reaches_the_program(
    handler: Callable[[int, object], None],
) -> None:
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with pytest.raises((SystemExit, KeyboardInterrupt)):
            capture_value([Signalled(signal.SIGUSR1)], FULL, SecretNames())
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_an_error_whose_text_exits_is_reported_by_its_class() -> None:
    error = type("Odd", (Exception,), {"__str__": lambda self: sys.exit(3)})()

    assert error_text(error) == "Odd"
