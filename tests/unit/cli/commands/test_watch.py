from __future__ import annotations

import pytest

from longwatch.cli.commands.watch import ending_text
from longwatch.cli.exit_codes import of_watch
from longwatch.cli.follow_run import WatchResult
from longwatch.cli.render.times import between_text
from longwatch.following import Reason
from longwatch.model.run import Status

CASES = [
    (WatchResult(Status.SUCCEEDED, Reason.ENDED), 0, "run wf-1 succeeded"),
    (WatchResult(Status.FAILED, Reason.ENDED, "ValueError: no"), 1, "run wf-1 failed: ValueError: no"),
    (WatchResult(Status.PARTIAL, Reason.ENDED), 1, "run wf-1 succeeded in part"),
    (WatchResult(Status.CANCELLED, Reason.ENDED), 1, "run wf-1 was cancelled"),
    (WatchResult(Status.UNKNOWN, Reason.ENDED), 1, "run wf-1 ended without reporting an outcome"),
    (WatchResult(Status.DIED, Reason.DIED, "Process 7 exited"), 5, "run wf-1 died: Process 7 exited"),
    (
        WatchResult(Status.RUNNING, Reason.SILENT, "no event for 9 s"),
        3,
        "stopped watching run wf-1: no event for 9 s",
    ),
    (
        WatchResult(Status.PENDING, Reason.SILENT, "no event for 9 s"),
        3,
        "stopped watching run wf-1: no event for 9 s",
    ),
    (
        WatchResult(Status.RUNNING, Reason.UNUSABLE, "no table"),
        3,
        "run wf-1 can no longer be followed: no table",
    ),
    (WatchResult(Status.RUNNING), 4, "run wf-1 is still running; watched for 30.0 s"),
    (WatchResult(Status.PENDING), 4, "run wf-1 has not started after 30.0 s"),
    (WatchResult(Status.SUCCEEDED), 0, "run wf-1 succeeded"),
    (WatchResult(Status.FAILED, message="no"), 1, "run wf-1 failed: no"),
    (
        WatchResult(Status.DIED, Reason.DIED, "Process 7 exited.", ended_between=(0, None)),
        5,
        f"run wf-1 died {between_text(0, None, now_ms=0)}: Process 7 exited.",
    ),
    (WatchResult(Status.FAILED, message="no rows\n  in prices"), 1, "run wf-1 failed: no rows in prices"),
    (
        WatchResult(Status.RUNNING, error="no answer"),
        3,
        "timeout, and the status of run wf-1 is not known: no answer",
    ),
]


@pytest.mark.parametrize(("outcome", "code", "words"), CASES)
def test_the_exit_code_and_the_message_state_how_it_ended(
    outcome: WatchResult, code: int, words: str
) -> None:
    assert of_watch(outcome) == code
    assert ending_text("wf-1", outcome, 30.0, now_ms=0) == words


def test_an_error_cannot_steer_the_terminal() -> None:
    outcome = WatchResult(Status.FAILED, Reason.ENDED, "\x1b[2Jgone")

    assert "\x1b" not in ending_text("wf-1", outcome, 1.0, now_ms=0)


def test_a_long_error_leaves_the_screen_to_the_calls() -> None:
    outcome = WatchResult(Status.FAILED, Reason.ENDED, "no rows in prices " * 20)

    shown = ending_text("wf-1", outcome, 1.0, now_ms=0, failed_in=" in fetch", room=100)

    assert shown.startswith("run wf-1 failed in fetch: no rows in prices no rows")
    assert (len(shown), shown[-1]) == (100, "…")


def test_the_error_of_a_run_with_a_long_id_is_shown() -> None:
    outcome = WatchResult(Status.FAILED, Reason.ENDED, "NoStock: all sold")

    shown = ending_text("arn:" + "x" * 200, outcome, 1.0, now_ms=0, room=100)

    assert shown.endswith(" failed: NoStock: all sold")
