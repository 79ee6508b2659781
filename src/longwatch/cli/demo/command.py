"""`longwatch demo`: plays its parts in threads and shows the journal as any other reader would."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import click

from longwatch.cli.commands.show import run_lines
from longwatch.cli.demo.display import Show, open_display
from longwatch.cli.demo.drill import Drill, ended_lines
from longwatch.cli.demo.killed import KilledJob
from longwatch.cli.demo.model import PRICES, ScriptedModel
from longwatch.cli.demo.page import ServedPage, page_is_possible
from longwatch.cli.demo.part import DemoPart
from longwatch.cli.demo.session import Session
from longwatch.cli.demo.workflow import Pace, Team
from longwatch.cli.exit_codes import of_success
from longwatch.cli.options import Invocation, common_options, pass_invocation
from longwatch.cli.render.terminal import Terminal, remark, write_text
from longwatch.cli.resolve import sqlite_path
from longwatch.cli.signals import stopped_by_signals
from longwatch.clock import Clock
from longwatch.errors import LongwatchError, MissingExtra
from longwatch.journal.base import Journal
from longwatch.journal.factory import open_journal
from longwatch.model.event import START, Cursor
from longwatch.model.prices import Prices
from longwatch.model.run import Run, Status, fold
from longwatch.recording.recorder import Recorder, configure
from longwatch.settings import Settings, data_directory, sqlite_url

PROGRAM = "longwatch"
SCRIPTED_PACE = 0.1
POLL_SECONDS = 0.1
GIVE_UP_SECONDS = 120.0


@click.command()
@click.option("--once", is_flag=True, help="Play quickly, print lines and exit; for scripts.")
@click.option("--pace", type=click.FloatRange(0.01, 10), help="Speed: 1 is the normal pace, less is faster.")
@click.option("--no-page", is_flag=True, help="Play in the terminal only.")
@common_options
@pass_invocation
def command(invocation: Invocation, once: bool, pace: float | None, no_page: bool) -> int:
    """Play a workflow of several agents, record it, and show it on a page.

    A team of agents writes a market brief: three of them work in parallel, a tool fails and is retried, two
    models on a scripted local server are called, the writer waits for approval, and one event arrives late.
    Meanwhile a coding agent publishes the brief in a turn and writes files, a recovery drill of three waves
    is polled until its verdict, and a nightly export is killed, so that its run dies.

    Events are recorded into demo.db in the data directory, or into the SQLite file that --journal names. The
    URL of the page is printed first. The page is served until Ctrl-C, unless --once is given.
    """
    settings, clock = _own_journal(invocation.settings()), invocation.clock
    recorder = configure(settings=settings)
    factor = pace if pace is not None else (SCRIPTED_PACE if once else 1.0)
    remark(f"Recording into {sqlite_path(settings.journal) or settings.journal}")
    with ExitStack() as stack:
        stack.enter_context(stopped_by_signals())
        journal = stack.enter_context(open_journal(settings=settings, clock=clock))
        model = stack.enter_context(ScriptedModel(pace=factor))
        workflow = Workflow(recorder, model, pace=factor)
        page, session, drill, killed = None, None, None, None
        if not no_page:
            drill = Drill(journal, settings, clock, pace=factor)
            killed = KilledJob(settings, pace=factor)
            if page_is_possible():
                session = Session(journal, settings, clock, pace=factor)
                page = None if once else stack.enter_context(ServedPage(settings))
            else:
                remark(f"Playing without the page: {MissingExtra('The page', 'server')}")
        url = page.url if page is not None else ""
        if url:
            write_text(f"Watch it on the page: {url}")
        if url and drill is not None:
            write_text(f"The drill's board:    {url}{drill.path}")
        beside = [part for part in (session, drill, killed) if part is not None]
        run = _play(journal, workflow, drill, beside, clock, is_live=not once and sys.stdout.isatty())
        _print_summary(run, settings, clock.now_ms(), drill=drill, killed=killed)
        if page is not None and url:
            write_text(f"\nOn the page:\n  {url}runs/{run.run_id}")
            for part in beside:
                if part.error is None:
                    write_text(f"  {url}{part.path}")
            _serve_until_stopped(page)
    return of_success(run.status is Status.SUCCEEDED)


class Workflow(DemoPart):
    """The team's work. Stopping it cancels the work, and its run ends as cancelled."""

    def __init__(self, recorder: Recorder, model: ScriptedModel, *, pace: float) -> None:
        super().__init__(self._run_team, pace=pace)
        self._recorder = recorder
        self._loop = asyncio.new_event_loop()
        self._task: asyncio.Task[str] | None = None
        self.team = Team(Pace(pace), model)

    def stop(self) -> None:
        if self._task is not None:
            self._loop.call_soon_threadsafe(self._task.cancel)
        super().stop()

    def join(self) -> None:
        super().join()
        self._recorder.close()

    def _run_team(self) -> None:
        try:
            self._task = self._loop.create_task(self.team.brief("the Nordic power market"))
            self._loop.run_until_complete(self._task)
        except asyncio.CancelledError:
            pass
        except Exception as error:
            raise LongwatchError(str(error)) from error
        finally:
            self._loop.close()


def _play(
    journal: Journal,
    workflow: Workflow,
    drill: Drill | None,
    beside: Sequence[DemoPart],
    clock: Clock,
    *,
    is_live: bool,
) -> Run:
    """Play every part to its end. An exception, such as Ctrl-C, stops them all."""
    parts = [workflow, *beside]
    for part in parts:
        part.start()
    try:
        with open_display(
            Terminal.of_stdout(),
            clock,
            is_live=is_live,
            drill_line=drill.line if drill is not None else lambda columns: None,
        ) as show:
            run = _follow(journal, workflow, drill, show, clock)
    except BaseException:
        for part in parts:
            part.stop()
        raise
    for part in parts:
        part.join()
    for part in beside:
        if part.error is not None:
            remark(f"{type(part).__name__} was not played: {part.error}")
    return run


def _follow(journal: Journal, workflow: Workflow, drill: Drill | None, show: Show, clock: Clock) -> Run:
    """Read the run as it grows, until its producer has closed and the drill has ended."""
    run: Run | None = None
    cursor: Cursor = START
    deadline = clock.monotonic() + GIVE_UP_SECONDS
    while clock.monotonic() < deadline:
        clock.sleep(POLL_SECONDS)
        run_id = workflow.team.run_id
        if run_id is None and workflow.error is None:
            continue
        if run_id is None:
            break
        page = journal.read(run_id, after=cursor)
        cursor, run = page.cursor, fold(page.events, run)
        if run is None:
            continue
        show(run, page.events)
        is_over = run.summary.ending is not None and "producer_closed" in run.counts
        if is_over and (drill is None or not drill.is_playing):
            return run
    raise LongwatchError(f"The demo did not finish: {workflow.error or f'no end in {GIVE_UP_SECONDS:.0f} s'}")


def _print_summary(
    run: Run, settings: Settings, now_ms: int, *, drill: Drill | None, killed: KilledJob | None
) -> None:
    terminal = Terminal.of_stdout()
    lines, _ = run_lines(run, [], now_ms=now_ms, width=terminal.columns, prices=Prices(settings.prices))
    write_text()
    terminal.show(lines)
    played = drill.now if drill is not None and drill.error is None else None
    if played is not None:
        write_text()
        terminal.show(ended_lines(played, now_ms=now_ms, width=terminal.columns))
    journal = "" if settings.origins.get("journal") != "--journal" else f" --journal {settings.journal}"
    program = _program()
    write_text("\nTry next:")
    for arguments, about in (
        ("runs", "every run, newest first"),
        (f"show {run.run_id}", "this view again"),
        (f"tail {run.run_id}", "its events, one per line"),
        (f"verify {run.run_id}", "is anything missing or altered?"),
        (f"export {run.run_id}", "its events as JSON lines"),
        (f"export {run.run_id} --html", "one HTML file that needs no server"),
        *([(f"executions explain {played.execution_id}", "how the drill ended")] if played else []),
        *([(f"show {killed.run_id}", "a job whose process was killed")] if killed else []),
        ("serve", "the page of all runs"),
    ):
        write_text(f"  {program}{journal} {arguments:<32} {about}")


def _serve_until_stopped(page: ServedPage) -> None:
    remark("\nServing the page. Press Ctrl-C to stop.")
    try:
        page.wait()
    except KeyboardInterrupt:
        remark("")


def _program() -> str:
    """How to call longwatch from here: by its name if the shell finds it, else by its path."""
    called = Path(sys.argv[0])
    found = shutil.which(PROGRAM)
    if called.name != PROGRAM or (found is not None and Path(found).samefile(called)):
        return PROGRAM
    try:
        return str(called.absolute().relative_to(Path.cwd()))
    except ValueError:
        return str(called)


def _own_journal(settings: Settings) -> Settings:
    """The settings with the demo's own prices and journal, so that invented runs do not mix with real ones.

    A SQLite file that --journal names is used instead.
    """
    settings = replace(settings, documents=None, prices={**settings.prices, **PRICES})
    if settings.origins.get("journal") == "--journal" and sqlite_path(settings.journal) is not None:
        return settings
    origins = {**settings.origins, "journal": "--journal"}
    return replace(settings, journal=sqlite_url(data_directory() / "demo.db"), origins=origins)
