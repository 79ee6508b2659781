"""Plays the workflow in a thread of its own and shows what the journal says, as any other reader would."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sys
import threading
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path

import click

from longwatch.cli.commands.show import run_lines
from longwatch.cli.demo.display import DemoDisplay, staged
from longwatch.cli.demo.drill import Drill, ended_lines
from longwatch.cli.demo.killed import KilledJob
from longwatch.cli.demo.page import ServedPage, page_is_possible, say_what_is_missing
from longwatch.cli.demo.session import Session
from longwatch.cli.demo.workflow import Pace, Team
from longwatch.cli.exit_codes import of_success
from longwatch.cli.options import Invocation, common_options, pass_invocation
from longwatch.cli.render.terminal import Terminal, remark, write_text
from longwatch.cli.resolve import sqlite_path
from longwatch.cli.signals import stopped_by_signals
from longwatch.clock import Clock
from longwatch.errors import LongwatchError
from longwatch.journal.base import Journal, Wakes
from longwatch.journal.factory import open_journal
from longwatch.model.event import START, Cursor
from longwatch.model.run import Run, Status, fold
from longwatch.recording.recorder import Recorder, configure
from longwatch.settings import Settings, data_directory, sqlite_url

PROGRAM = "longwatch"
SCRIPTED_PACE = 0.1
LOOK_SECONDS = 0.1
GIVE_UP_SECONDS = 120.0


@click.command()
@click.option("--once", is_flag=True, help="Play quickly, print lines and exit; for scripts.")
@click.option("--pace", type=click.FloatRange(0.01, 10), help="Speed: 1 is the normal pace, less is faster.")
@click.option("--no-page", is_flag=True, help="Play in the terminal only.")
@common_options
@pass_invocation
def command(invocation: Invocation, once: bool, pace: float | None, no_page: bool) -> int:
    """Play a workflow of several agents, record it, and show it on a page.

    A team writes a market brief: three agents work side by side, a tool fails and is tried again, and one
    event is told late. Beside it a coding agent publishes the brief: a turn with blocks, and files that grow;
    a recovery drill of three waves runs in another system, and is asked about until its verdict; and a
    nightly export is killed in the middle of its work, so that its run died.
    Everything is recorded into a journal of its own, demo.db in the data directory, unless --journal names
    another file, and shown as it arrives there, in the terminal and on the page, whose address is printed
    first. The page is served until Ctrl-C, unless --once is given.
    """
    settings = _own_journal(invocation.settings())
    recorder = configure(settings=settings)
    factor = pace if pace is not None else (SCRIPTED_PACE if once else 1.0)
    remark(f"Recording into {sqlite_path(settings.journal) or settings.journal}")
    with contextlib.ExitStack() as stack:
        stack.enter_context(stopped_by_signals())
        journal = stack.enter_context(open_journal(settings=settings, clock=invocation.clock))
        page, session = None, None
        drill = None if no_page else Drill(journal, settings, invocation.clock, pace=factor)
        killed = None if no_page else KilledJob(settings, pace=factor)
        if not no_page and page_is_possible():
            session = Session(journal, settings, invocation.clock, pace=factor)
            page = None if once else stack.enter_context(ServedPage(settings))
        elif not no_page:
            say_what_is_missing()
        if page is not None and page.url:
            write_text(f"Watch it on the page: {page.url}")
            if drill is not None:
                write_text(f"The drill's board:    {page.url}{drill.path}")
        run = _play(journal, recorder, session, drill, killed, factor, invocation.clock, once=once)
        now = invocation.clock.now_ms()
        _sum_up(run, settings, now, page=page, session=session, drill=drill, killed=killed)
        if page is not None and page.url:
            _serve_on(page)
    return of_success(run.status is Status.SUCCEEDED)


def _play(
    journal: Journal,
    recorder: Recorder,
    session: Session | None,
    drill: Drill | None,
    killed: KilledJob | None,
    factor: float,
    clock: Clock,
    *,
    once: bool,
) -> Run:
    """Play everything to its end, or stop all of it and go on with whatever stopped it."""
    team = Team(Pace(factor))
    play = Play(team.brief("the Nordic power market"), recorder)
    beside = [each for each in (session, drill, killed) if each is not None]
    play.start()
    for each in beside:
        each.start()
    try:
        with staged(
            Terminal.of_stdout(),
            live=not once and sys.stdout.isatty(),
            clock=clock,
            below=None if drill is None else drill.line,
        ) as stage:
            run = _watch(journal, team, play, drill, stage, clock)
    except BaseException:
        play.stop()
        for each in beside:
            each.stop()
        raise
    play.join()
    for each in beside:
        each.join()
        if each.error is not None:
            remark(f"The {type(each).__name__.lower()} beside it was not played: {each.error}")
    return run


def _serve_on(page: ServedPage) -> None:
    remark("\nServing the page. Press Ctrl-C to stop.")
    try:
        page.wait()
    except KeyboardInterrupt:
        remark("")


class Play:
    """The workflow in a thread. Stopping it cancels the work, and the run says so."""

    def __init__(self, work: Coroutine[object, object, str], recorder: Recorder) -> None:
        self._work = work
        self._recorder = recorder
        self._loop = asyncio.new_event_loop()
        self.error: Exception | None = None
        self._task: asyncio.Task[str] | None = None
        self._thread = threading.Thread(target=self._play, name="demo", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Cancel the work and wait until its end is recorded."""
        if self._task is not None:
            self._loop.call_soon_threadsafe(self._task.cancel)
        self.join()

    def join(self) -> None:
        self._thread.join(GIVE_UP_SECONDS)
        self._recorder.close()

    def _play(self) -> None:
        try:
            self._task = self._loop.create_task(self._work)
            self._loop.run_until_complete(self._task)
        except asyncio.CancelledError:
            pass
        except Exception as error:  # noqa: BLE001 - told by whoever watches
            self.error = error
        finally:
            self._loop.close()


def _watch(
    journal: Journal, team: Team, play: Play, drill: Drill | None, stage: DemoDisplay, clock: Clock
) -> Run:
    """Read the run as it grows, until it has ended and its producer has closed; the drill, too, has ended."""
    run: Run | None = None
    cursor: Cursor = START
    deadline = clock.monotonic() + GIVE_UP_SECONDS
    while clock.monotonic() < deadline:
        if isinstance(journal, Wakes):
            journal.wait(LOOK_SECONDS)
        if team.run_id is None and play.error is None:
            continue
        if team.run_id is None:
            break
        page = journal.read(team.run_id, after=cursor)
        cursor, run = page.cursor, fold(page.events, run)
        if run is None:
            continue
        stage.show(run, list(page.events))
        is_over = run.summary.ending is not None and "producer_closed" in run.counts
        if is_over and (drill is None or not drill.is_going):
            return run
    raise LongwatchError(f"The demo did not end as it should: {play.error or 'it took too long'}")


def _sum_up(
    run: Run,
    settings: Settings,
    now_ms: int,
    *,
    page: ServedPage | None,
    session: Session | None,
    drill: Drill | None,
    killed: KilledJob | None,
) -> None:
    terminal = Terminal.of_stdout()
    lines, _ = run_lines(run, [], now_ms=now_ms, width=terminal.columns)
    write_text()
    terminal.show(lines)
    played = drill.now if drill is not None and drill.error is None else None
    if played is not None:
        write_text()
        terminal.show(ended_lines(played, now_ms=now_ms, width=terminal.columns))
    chosen = "" if settings.origins.get("journal") != "--journal" else f" --journal {settings.journal}"
    program = _program()
    write_text("\nLook further:")
    for words, about in (
        ("runs", "every run, newest first"),
        (f"show {run.run_id}", "this picture again"),
        (f"tail {run.run_id}", "its events, one a line"),
        (f"verify {run.run_id}", "is anything missing or altered?"),
        (f"export {run.run_id}", "its events as JSON lines"),
        (f"export {run.run_id} --html", "the same as a page that needs no server"),
        *([(f"executions explain {played.execution_id}", "how the drill ended")] if played else []),
        *([(f"show {killed.run_id}", "a job whose process was killed")] if killed else []),
        ("serve", "the page of all runs"),
    ):
        write_text(f"  {program}{chosen} {words:<32} {about}")
    if page is not None and page.url:
        write_text(f"\nOn the page:\n  {page.url}runs/{run.run_id}")
        for each in (session, drill, killed):
            if each is not None and each.error is None:
                write_text(f"  {page.url}{each.path}")


def _program() -> str:
    """How to call this command again from here: by its name if the shell finds it, else by its path."""
    called = Path(sys.argv[0])
    found = shutil.which(PROGRAM)
    if called.name != PROGRAM or (found is not None and Path(found).samefile(called)):
        return PROGRAM
    try:
        return str(called.absolute().relative_to(Path.cwd()))
    except ValueError:
        return str(called)


def _own_journal(settings: Settings) -> Settings:
    """The settings with a journal of the demo's own: what it invents does not belong among real runs.

    A SQLite file that --journal names is used.
    """
    if settings.origins.get("journal") == "--journal" and sqlite_path(settings.journal) is not None:
        return replace(settings, documents=None)
    origins = {**settings.origins, "journal": "--journal"}
    url = sqlite_url(data_directory() / "demo.db")
    return replace(settings, journal=url, documents=None, origins=origins)
