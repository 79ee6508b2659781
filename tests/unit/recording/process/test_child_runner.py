"""When a signal is passed on, and when the grace period ends."""

from __future__ import annotations

import signal

import pytest

from longwatch.recording.process.child_runner import (
    FORWARDED_SIGNALS,
    TERMINAL_SIGNALS,
    StopAction,
    StopPolicy,
)


@pytest.mark.parametrize("number", FORWARDED_SIGNALS)
def test_a_signal_is_passed_on_and_the_grace_period_begins(number: int) -> None:
    stop_policy = StopPolicy(grace_seconds=10.0)

    action = stop_policy.on_signal(number, 100.0)

    assert action is StopAction.FORWARD
    assert stop_policy.reason == number
    assert stop_policy.seconds_left(104.0) == 6.0


@pytest.mark.parametrize("number", FORWARDED_SIGNALS)
def test_a_signal_of_the_terminal_is_not_sent_twice(number: int) -> None:
    stop_policy = StopPolicy(shares_group=True)

    action = stop_policy.on_signal(number, 0.0)

    assert action is (StopAction.NOTHING if number in TERMINAL_SIGNALS else StopAction.FORWARD)
    assert stop_policy.waits


def test_a_process_that_does_not_end_in_time_is_killed_once() -> None:
    stop_policy = StopPolicy(grace_seconds=10.0)
    stop_policy.on_signal(signal.SIGTERM, 0.0)

    actions = [stop_policy.on_time(9.9), stop_policy.on_time(10.0), stop_policy.on_time(11.0)]

    assert actions == [StopAction.NOTHING, StopAction.KILL, StopAction.NOTHING]
    assert stop_policy.seconds_left(11.0) is None
    assert not stop_policy.waits


@pytest.mark.parametrize("shares_group", [False, True])
def test_a_second_interrupt_kills_at_once(shares_group: bool) -> None:
    stop_policy = StopPolicy(shares_group=shares_group)
    stop_policy.on_signal(signal.SIGINT, 0.0)

    assert stop_policy.on_signal(signal.SIGINT, 0.1) is StopAction.KILL
    assert stop_policy.on_signal(signal.SIGINT, 0.2) is StopAction.NOTHING


def test_another_signal_is_passed_on_too_and_does_not_lengthen_the_wait() -> None:
    stop_policy = StopPolicy(grace_seconds=10.0)
    stop_policy.on_signal(signal.SIGINT, 0.0)

    action = stop_policy.on_signal(signal.SIGTERM, 4.0)

    assert action is StopAction.FORWARD
    assert stop_policy.reason == signal.SIGINT
    assert stop_policy.seconds_left(4.0) == 6.0


def test_without_a_signal_there_is_no_time_limit() -> None:
    stop_policy = StopPolicy()

    assert stop_policy.seconds_left(1e9) is None
    assert stop_policy.on_time(1e9) is StopAction.NOTHING
