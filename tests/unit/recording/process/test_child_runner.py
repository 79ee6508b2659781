"""When a signal is passed on, and when patience ends."""

from __future__ import annotations

import signal

import pytest

from longwatch.recording.process.child_runner import FROM_TERMINAL, PASSED_ON, StopAction, StopPolicy


@pytest.mark.parametrize("number", PASSED_ON)
def test_a_signal_is_passed_on_and_patience_begins(number: int) -> None:
    stopping = StopPolicy(grace_seconds=10.0)

    action = stopping.on_signal(number, 100.0)

    assert action is StopAction.PASS_ON
    assert stopping.reason == number
    assert stopping.seconds_left(104.0) == 6.0


@pytest.mark.parametrize("number", PASSED_ON)
def test_what_the_terminal_sends_is_not_sent_twice(number: int) -> None:
    stopping = StopPolicy(shares_group=True)

    action = stopping.on_signal(number, 0.0)

    assert action is (StopAction.NOTHING if number in FROM_TERMINAL else StopAction.PASS_ON)
    assert stopping.waits


def test_a_process_that_does_not_end_in_time_is_killed_once() -> None:
    stopping = StopPolicy(grace_seconds=10.0)
    stopping.on_signal(signal.SIGTERM, 0.0)

    actions = [stopping.on_time(9.9), stopping.on_time(10.0), stopping.on_time(11.0)]

    assert actions == [StopAction.NOTHING, StopAction.KILL, StopAction.NOTHING]
    assert stopping.seconds_left(11.0) is None
    assert not stopping.waits


@pytest.mark.parametrize("shares_group", [False, True])
def test_a_second_interrupt_kills_at_once(shares_group: bool) -> None:
    stopping = StopPolicy(shares_group=shares_group)
    stopping.on_signal(signal.SIGINT, 0.0)

    assert stopping.on_signal(signal.SIGINT, 0.1) is StopAction.KILL
    assert stopping.on_signal(signal.SIGINT, 0.2) is StopAction.NOTHING


def test_another_signal_is_passed_on_too_and_does_not_lengthen_the_wait() -> None:
    stopping = StopPolicy(grace_seconds=10.0)
    stopping.on_signal(signal.SIGINT, 0.0)

    action = stopping.on_signal(signal.SIGTERM, 4.0)

    assert action is StopAction.PASS_ON
    assert stopping.reason == signal.SIGINT
    assert stopping.seconds_left(4.0) == 6.0


def test_without_a_signal_there_is_no_end_to_patience() -> None:
    stopping = StopPolicy()

    assert stopping.seconds_left(1e9) is None
    assert stopping.on_time(1e9) is StopAction.NOTHING
