"""`longwatch watch RUN`: follow a run, or work in another system, until it ends."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from longwatch.cli.commands.show import remark_left_out, run_lines
from longwatch.cli.exit_codes import ExitCode, of_watch
from longwatch.cli.follow_run import View, WatchResult, follow_run
from longwatch.cli.options import Invocation, common_options, complete_runs, output_option, pass_invocation
from longwatch.cli.render.event_line import LONGEST_TEXT
from longwatch.cli.render.run_views import LineView, PictureView, print_json_lines, screen, text_printer
from longwatch.cli.render.terminal import Terminal, remark
from longwatch.cli.render.text import clean, fit
from longwatch.cli.render.times import between_text, duration_text, span_ms
from longwatch.cli.resolve import check_journal, sqlite_path
from longwatch.cli.signals import report_interrupt
from longwatch.clock import Clock
from longwatch.errors import LongwatchError, RunNotFound
from longwatch.following import Reason
from longwatch.journal.base import Journal
from longwatch.journal.factory import open_journal
from longwatch.journal.run_lookup import NEWEST, find_exact_run, find_run
from longwatch.model.call_selection import OutlineOptions
from longwatch.model.failures import FAILED_STATUSES, failure_of
from longwatch.model.preview import one_line
from longwatch.model.prices import Prices
from longwatch.model.run import Status
from longwatch.model.run_query import WORK
from longwatch.storage.price_file import PriceList

FIRST_RUN_SECONDS = 0.5  # between polls for the first run of a journal
ENDING_ROWS = 2  # of a terminal: the error is also above, where the calls lead to it
SHORTEST_ERROR = 40  # characters; behind an ID as long as an ARN, the error has rows of its own
BELOW_ROWS = 3 + ENDING_ROWS  # a remark of two rows, why the watch ended, and the prompt


@click.command()
@click.argument("run", metavar="[RUN]", required=False, shell_complete=complete_runs)
@click.option("--wait", is_flag=True, help="Wait for the run to start. RUN is its full ID.")
@click.option(
    "--timeout", metavar="TIME", help="Stop after TIME, such as 30s: poll once more and report the status."
)
@click.option("--silent-after", metavar="TIME", help="Stop when no event arrives for TIME, such as 10m.")
@click.option(
    "--sources", "lists_sources", is_flag=True, help="List the sources that can be watched besides runs."
)
@click.option("--every", metavar="TIME", help="Poll interval for another system, such as 5s.")
@click.option("--region", help="AWS region to poll. [default: the ARN's, or from the AWS credentials]")
@click.option("--status-path", metavar="PATH", help="Path to the status in a JSON response: job.state")
@click.option(
    "--outcome-path",
    "outcome_paths",
    multiple=True,
    metavar="PATH",
    help="Path to the outcome, used once the status means ended. [default: conclusion, result, "
    "outcome, exit_code … beside the status]",
)
@click.option(
    "--accept-status-code",
    is_flag=True,
    help="Treat a 2xx response without a status as success. [default: treat it as an error]",
)
@click.option("--header", "headers", multiple=True, metavar="LINE", help="Request header. Never stored.")
@click.option("--succeeded", multiple=True, metavar="WORD", help="Status that means success.")
@click.option("--failed", multiple=True, metavar="WORD", help="Status that means failure.")
@click.option(
    "--executions",
    "executions_url",
    metavar="URL",
    help="Execution store URL: sqlite:///file.db or dynamodb://TABLE. [default: beside the journal]",
)
@output_option()
@common_options
@pass_invocation
def command(
    invocation: Invocation,
    run: str | None,
    wait: bool,
    lists_sources: bool,
    timeout: str | None,
    silent_after: str | None,
    every: str | None,
    region: str | None,
    status_path: str | None,
    outcome_paths: tuple[str, ...],
    accept_status_code: bool,
    headers: tuple[str, ...],
    succeeded: tuple[str, ...],
    failed: tuple[str, ...],
    executions_url: str | None,
    output: str,
) -> int:
    """Follow a run until it ends, or all open runs.

    Without RUN, a terminal shows every open run on a line; Enter opens one, Backspace goes back, q quits.

    RUN is a run ID, the beginning of one, or `latest`. On a terminal, watch draws the agents, the tools and
    the state of the watch; elsewhere it prints a line for each event. The reason for the end goes to
    standard error.

    RUN may also name work in another system, such as aws:codebuild:ID, https://… or pid:123. It is polled
    until it ends, and recorded as a run and as an execution.

    Exit codes: 0 the run succeeded; 1 it failed, was cancelled or succeeded in part; 3 the watch gave up or
    lost contact; 4 still running at the timeout; 5 the run died: its processes exited and none reported an
    outcome.
    """
    clock = invocation.clock
    if lists_sources:
        from longwatch.cli.external_target import show_sources

        show_sources(invocation, output)
        return ExitCode.SUCCEEDED
    if output == "json":
        raise click.UsageError("-o json needs --sources. For events, use -o jsonl.")
    if run is None:
        from longwatch.cli.watch_runs import watch_runs

        return watch_runs(invocation)
    timeout_seconds = span_ms(timeout) / 1000 if timeout else None
    silent_seconds = span_ms(silent_after) / 1000 if silent_after else None
    if ":" in run:
        from longwatch.cli.external_target import SHORTEST_SECONDS, ExternalWatchOptions, watch_target
        from longwatch.cli.watch_external import WatchLimits

        began = clock.monotonic()
        options = ExternalWatchOptions(
            limits=WatchLimits(timeout_seconds=timeout_seconds, silent_after_seconds=silent_seconds),
            wait=wait,
            output=output,
            region=region,
            url=executions_url,
            status_path=status_path,
            outcome_paths=outcome_paths,
            accept_status_code=accept_status_code,
            headers=headers,
            statuses={"succeeded": succeeded, "failed": failed},
            every_seconds=max(SHORTEST_SECONDS, span_ms(every) / 1000) if every else None,
        )
        try:
            watched = watch_target(invocation, run, options)
        except KeyboardInterrupt:
            return report_interrupt(f"watching stopped, {clean(run)} continues")
        if watched is not None:
            return _report_end(*watched, clock, began)
    return _watch_run(invocation, run, output, timeout_seconds, silent_seconds, wait=wait)


def _watch_run(
    invocation: Invocation,
    run: str,
    output: str,
    timeout_seconds: float | None,
    silent_seconds: float | None,
    *,
    wait: bool,
) -> int:
    clock, settings = invocation.clock, invocation.settings()
    began = clock.monotonic()
    if not wait or sqlite_path(settings.journal) is None:  # --wait creates a missing file
        check_journal(settings, clock=clock)
    with open_journal(settings=settings, clock=clock) as journal:
        try:
            run_id = _run_id(journal, run, wait, clock, timeout_seconds)
        except KeyboardInterrupt:
            return report_interrupt("watching stopped before a run started")
        if run_id is None:
            remark(f"longwatch: no run has started after {duration_text((timeout_seconds or 0) * 1000)}")
            return ExitCode.STILL_RUNNING
        if timeout_seconds is not None:
            timeout_seconds = max(0.0, timeout_seconds - (clock.monotonic() - began))
        try:
            with _open_view(run_id, output, clock, PriceList(settings).current()) as view:
                followed = follow_run(
                    journal,
                    run_id,
                    view,
                    clock=clock,
                    timeout_seconds=timeout_seconds,
                    silent_after_seconds=silent_seconds,
                )
                outcome = asyncio.run(followed)
        except KeyboardInterrupt:
            return report_interrupt(f"watching stopped, {_without_watch(journal, run_id)}")
        failed_in = _failed_in(journal, run_id) if outcome.status in FAILED_STATUSES else ""
    return _report_end(run_id, outcome, clock, began, failed_in)


def _report_end(
    run_id: str, outcome: WatchResult, clock: Clock, began: float, failed_in: str = ""
) -> ExitCode:
    watched = clock.monotonic() - began
    columns = Terminal.of_stdout().columns
    text = ending_text(
        run_id,
        outcome,
        watched,
        now_ms=clock.now_ms(),
        failed_in=failed_in,
        room=None if columns is None else columns * ENDING_ROWS - len(_SPEAKER),
    )
    remark(f"{_SPEAKER}{text}")
    return of_watch(outcome)


def _without_watch(journal: Journal, run_id: str) -> str:
    """The state of a run whose watch was stopped, and how to resume."""
    run, name = journal.find_run(run_id), clean(run_id)
    if run is None:
        return f"run {name} has not started"
    if run.ending is not None:
        return f"run {name} {_ENDED.get(run.status.value, 'ended')}"
    return f"run {name} continues; resume with: longwatch watch {name}"


def _failed_in(journal: Journal, run_id: str) -> str:
    """` in fetch_prices of reader`: the call that failed with the error of the run."""
    try:
        run = journal.find_run(run_id)
    except LongwatchError:  # the outcome is known without it
        return ""
    failure = failure_of(run) if run is not None else None
    call = failure.call if failure is not None else None
    if call is None:
        return ""
    agent = f" of {call.agent_name}" if call.agent_name not in (None, call.name) else ""
    return clean(f" in {call.name}{agent}")


def ending_text(
    run_id: str,
    outcome: WatchResult,
    watched_seconds: float,
    *,
    now_ms: int,
    failed_in: str = "",
    room: int | None = None,
) -> str:
    """Why the watch ended. An error is cut to fit the `room`; behind a long ID it has as much."""
    message = clean(outcome.message or "")
    watched = duration_text(watched_seconds * 1000)
    name = clean(run_id)
    if outcome.error is not None:
        return f"timeout, and the status of run {name} is not known: {clean(outcome.error)}"
    if outcome.is_deleted:
        return message
    if outcome.reason is Reason.SILENT:
        return f"stopped watching run {name}: {message}"
    if outcome.reason is Reason.UNUSABLE:
        return f"run {name} can no longer be followed: {message}"
    if outcome.status is Status.PENDING:
        return f"run {name} has not started after {watched}"
    if outcome.status is Status.RUNNING and outcome.reason is None:
        return f"run {name} is still running; watched for {watched}"
    ended = f"{_ENDED.get(outcome.status.value, 'ended')}{failed_in}"
    if outcome.ended_between is not None:
        ended = f"{ended} {between_text(*outcome.ended_between, now_ms=now_ms)}"
    text = f"run {name} {ended}"
    problem = clean(one_line(outcome.message or "", LONGEST_TEXT))
    if room is not None:
        left = room - len(text) - 2
        problem = fit(problem, left if left >= SHORTEST_ERROR else room)
    return f"{text}: {problem}" if problem else text


_SPEAKER = "longwatch: "
_ENDED = {
    "succeeded": "succeeded",
    "failed": "failed",
    "partial": "succeeded in part",
    "cancelled": "was cancelled",
    "died": "died",
    "unknown": "ended without reporting an outcome",
}


def _run_id(
    journal: Journal, wanted: str, wait: bool, clock: Clock, timeout_seconds: float | None
) -> str | None:
    """The id of the run, once it exists; None if the timeout passes first."""
    if not wait:
        try:
            return find_run(journal, wanted).run_id
        except RunNotFound as error:
            hint = " For other systems, see longwatch watch --sources." if ":" in wanted else ""
            raise RunNotFound(f"{error} Use --wait to wait for it to start.{hint}") from None
    if wanted not in NEWEST:
        run = find_exact_run(journal, wanted)
        if run is None:
            remark(f"longwatch: waiting for run {clean(wanted)} to start")
        return run.run_id if run else wanted
    deadline = None if timeout_seconds is None else clock.monotonic() + timeout_seconds
    reported = False
    while True:
        runs = journal.find_runs(WORK, limit=1).runs
        if runs:
            return runs[0].run_id
        if deadline is not None and clock.monotonic() >= deadline:
            return None
        if not reported:
            remark("longwatch: waiting for the first run to start")
        reported = True
        clock.sleep(FIRST_RUN_SECONDS)


@contextmanager
def _open_view(run_id: str, output: str, clock: Clock, prices: Prices) -> Iterator[View]:
    """A screen on a terminal, replaced by the whole run at the end; lines elsewhere."""
    terminal = Terminal.of_stdout()
    if output == "jsonl":
        yield LineView(print_json_lines)
        return
    if not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        yield LineView(text_printer(terminal, now_ms=clock.now_ms()))
        return
    with screen(terminal) as opened:
        view = PictureView(opened, run_id, clock, prices)
        try:
            yield view
        except BaseException:
            opened.keep()
            raise
    view.fold()
    if view.run is not None:
        attempts = len(view.run.summary.attempts)
        shown = view.run.at_attempt(attempts)
        latest = [event for event, _ in view.latest]
        terminal = Terminal.of_stdout()  # it may have been resized
        lines, found = run_lines(
            shown,
            latest,
            now_ms=clock.now_ms(),
            width=terminal.columns,
            rows=terminal.rows,
            below=BELOW_ROWS,
            attempt=(attempts, attempts),
            prices=prices,
        )
        terminal.show(lines)
        remark_left_out(found, OutlineOptions(), terminal, command=f"longwatch show {clean(run_id)}")
