"""A schedule and a backoff as one: what people are shown while a poll fails, recovers, stops and resumes."""

from __future__ import annotations

from longwatch.errors import Throttled
from longwatch.polling import JOURNAL_BACKOFF, JOURNAL_INTERVAL, REQUEST_BACKOFF, Backoff, Cadence, Ramp

ALWAYS_500_MS = Cadence(JOURNAL_INTERVAL, JOURNAL_BACKOFF)


def test_while_all_is_well_the_schedule_decides() -> None:
    cadence = ALWAYS_500_MS.succeeded(0)

    assert (cadence.next_delay, cadence.failures, cadence.stopped, cadence.reason) == (0.5, 0, False, None)


def test_while_it_fails_the_backoff_decides_and_one_success_ends_that() -> None:
    cadence, delays = ALWAYS_500_MS, []

    for succeeded in (True, False, False, False, True, False, True):
        cadence = cadence.succeeded(0) if succeeded else cadence.failed()
        delays.append(cadence.next_delay)

    assert delays == [0.5, 1, 2, 4, 0.5, 1, 0.5]


def test_a_failure_is_reported_with_its_count_and_the_last_error() -> None:
    once = ALWAYS_500_MS.failed(Throttled("too many requests"))
    twice = once.failed(TimeoutError())

    assert once.reason == "1 failure: Throttled: too many requests"
    assert twice.reason == "2 failures in a row: TimeoutError"
    assert twice.failed("no answer").reason == "3 failures in a row: no answer"
    assert twice.failed().reason == "3 failures in a row"
    assert twice.succeeded(0) == ALWAYS_500_MS


def test_it_gives_up_at_the_sixth_failure_and_reports_it() -> None:
    cadence = Cadence(Ramp(), REQUEST_BACKOFF)

    for _ in range(6):
        cadence = cadence.failed(OSError("refused"))

    assert cadence.stopped
    assert cadence.next_delay is None
    assert cadence.reason == "gave up after 6 failures in a row: OSError: refused"


def test_interest_revives_schedules_that_gave_up_or_had_no_news() -> None:
    gave_up = Cadence(Ramp(), Backoff(1, 1, 1, max_retries=0)).failed("no answer")
    quiet = Cadence(Ramp()).succeeded(0).succeeded(120, news=False)

    assert quiet.reason == "no news for 120 s"
    for cadence in (gave_up, quiet):
        assert cadence.stopped
        assert cadence.after_activity(500).next_delay == 1
        assert cadence.after_activity(500).reason is None


def test_interest_does_not_reset_failures() -> None:
    failing = ALWAYS_500_MS.failed().failed()

    assert failing.after_activity(1).next_delay == failing.next_delay == 2


def test_jitter_is_drawn_once_a_failure() -> None:
    cadence = Cadence(JOURNAL_INTERVAL, Backoff(10, 1, 10, jitter=0.5))

    assert cadence.failed(draw=lambda: 0.5).next_delay == 7.5


def test_a_success_among_successes_makes_no_new_value() -> None:
    assert ALWAYS_500_MS.succeeded(1) is ALWAYS_500_MS
