"""`longwatch executions`: work that runs in other systems, asked about until its end is known."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from longwatch.cli.invocation import Invocation
from longwatch.cli.meant import meant
from longwatch.cli.options import common_options, output_option, pass_invocation
from longwatch.cli.styles import STATUS_LOOKS, Line, Segment
from longwatch.cli.table import Column, table
from longwatch.cli.terminal import Terminal, remark, write_data, write_json, write_json_lines
from longwatch.cli.text import clean
from longwatch.cli.times import ago_text, clock_text, duration_text, span_ms, start_text
from longwatch.errors import InvalidInput, LongwatchError
from longwatch.journal.opening import open_journal
from longwatch.runs import Status
from longwatch.watching.explaining import explained
from longwatch.watching.model import DEFAULT_DEADLINE_MS, Execution, Job, Mode, Wave
from longwatch.watching.phases import phase_of
from longwatch.watching.sources.registry import sources
from longwatch.watching.stores.opening import open_executions
from longwatch.watching.transitions import started
from longwatch.watching.views import execution_line, execution_view

if TYPE_CHECKING:
    from longwatch.watching.cadence.lessons import Lessons
    from longwatch.watching.poller import Polled
    from longwatch.watching.stores.base import ExecutionStore

SUCCEEDED, FAILED, RUNNING = 0, 1, 4
PAST_SHOWN = 100  # executions that an ETA rests on: each is a read of the journal, and somebody waits
NEVER = "never"

COLUMNS = (
    Column("", 10, 1),
    Column("EXECUTION", 9, 11, elastic=True),
    Column("STATUS", 8, 9),
    Column("MODE", 2, 8),
    Column("PLAN", 3, 8, elastic=True),
    Column("PHASE", 5, 11),
    Column("SERVERS", 6, 7, right=True),
    Column("STARTED", 1, 8),
    Column("DURATION", 4, 8, right=True),
    Column("CONDITIONS", 7, 10, elastic=True),
)

F = TypeVar("F", bound=Callable[..., Any])


@click.group()
def command() -> None:
    """Watch work that runs in other systems."""


def store_option(command: F) -> F:
    """`--executions`: where they are kept."""
    return click.option(
        "--executions",
        "url",
        metavar="URL",
        help="Where executions are: sqlite:///file.db or dynamodb://TABLE. [default: beside the journal]",
    )(command)


@command.command("add")
@click.option("--plan", required=True, metavar="ID", help="The plan that it carries out.")
@click.option(
    "--wave", "waves", multiple=True, metavar="NAME=JOB,…", help="A wave and its jobs; again for each wave."
)
@click.option("--id", "execution_id", metavar="ID", help="Its id. [default: a new one]")
@click.option("--name", help="Its name. [default: the plan's]")
@click.option(
    "--mode",
    type=click.Choice(list(Mode), case_sensitive=False),
    help="When it is done. [default: DRILL for drs, else JOB]",
)
@click.option(
    "--source",
    default="drs",
    show_default=True,
    help="The system that it runs in; `longwatch watch --sources` lists them.",
)
@click.option("--region", help="The region of its jobs. [default: where the credentials point]")
@click.option("--account", metavar="ID", help="The account of its jobs.")
@click.option("--more-waves", is_flag=True, help="More waves than these may come.")
@click.option(
    "--deadline",
    default="30m",
    show_default=True,
    help=f"After the start; past it the source is asked. Or {NEVER}.",
)
@store_option
@output_option("text", "json")
@common_options
@pass_invocation
def add(
    invocation: Invocation,
    plan: str,
    waves: tuple[str, ...],
    execution_id: str | None,
    name: str | None,
    mode: str | None,
    source: str,
    region: str | None,
    account: str | None,
    more_waves: bool,
    deadline: str,
    url: str | None,
    output: str,
) -> None:
    """Add an execution, to be watched.

    Its jobs are running already: longwatch never starts or stops one. Prints the id.
    """
    now = invocation.clock.now_ms()
    names = list(sources(invocation.settings()))
    if source not in names:
        raise InvalidInput(f"There is no source {source!r}; known are {', '.join(names)}.")
    fresh = Execution(
        execution_id=execution_id or f"x-{secrets.token_hex(6)}",
        plan_id=plan,
        name=name,
        source=source,
        mode=Mode(mode.upper()) if mode else Mode.DRILL if source == "drs" else Mode.JOB,
        started_at=now - now % 1000,
        waves=tuple(wave_from(text, region=region, account=account) for text in waves),
        total_waves=None if more_waves or not waves else len(waves),
        deadline_ms=_deadline(deadline),
    )
    if source == "http":
        _check_addresses(fresh.job_ids())
    with _store(invocation, url) as store:
        added = store.add(fresh)
        with open_journal(settings=invocation.settings(), clock=invocation.clock) as journal:
            journal.append([started(added)])
    if output == "json":
        write_json(execution_view(added, now_ms=now))
    else:
        write_data([added.execution_id])


@command.command("list")
@click.option(
    "--status",
    type=click.Choice([each.value for each in Status if each is not Status.DIED], case_sensitive=False),
    help="Only those that stand like this.",
)
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="At most so many.")
@store_option
@output_option()
@common_options
@pass_invocation
def list_(invocation: Invocation, status: str | None, limit: int, url: str | None, output: str) -> None:
    """List executions, newest first."""
    now = invocation.clock.now_ms()
    with _store(invocation, url) as store:
        found = store.find(status=Status(status) if status else None, limit=limit)
    lessons = _lessons(invocation, found)
    if output == "json":
        write_json([execution_line(each, now_ms=now, lessons=lessons) for each in found])
    elif output == "jsonl":
        write_json_lines(execution_line(each, now_ms=now, lessons=lessons) for each in found)
    elif found:
        terminal = Terminal.of_stdout()
        terminal.show(table(COLUMNS, [_row(each, now, lessons) for each in found], width=terminal.columns))
    if not found:
        remark("No executions. `longwatch executions add` adds one.")


@command.command("show")
@click.argument("execution", metavar="EXECUTION")
@store_option
@output_option("text", "json")
@common_options
@pass_invocation
def show(invocation: Invocation, execution: str, url: str | None, output: str) -> None:
    """Show the waves, jobs and servers of an execution, and how long it still takes if the past tells."""
    now = invocation.clock.now_ms()
    with _store(invocation, url) as store:
        found = meant(store, execution)
    view = execution_view(found, now_ms=now, lessons=_lessons(invocation, [found]))
    if output == "json":
        write_json(view)
    else:
        Terminal.of_stdout().show(wave_lines(view, now_ms=now))


@command.command("explain")
@click.argument("execution", metavar="EXECUTION")
@store_option
@common_options
@pass_invocation
def explain(invocation: Invocation, execution: str, url: str | None) -> None:
    """Say why an execution is still running, or how it ended."""
    now = invocation.clock.now_ms()
    with _store(invocation, url) as store:
        found = meant(store, execution)
    lessons = _lessons(invocation, [found])
    Terminal.of_stdout().show(fact_lines(found, now_ms=now, lessons=lessons))


@command.command("watch")
@click.option("--once", is_flag=True, help="Ask once about everything that is due, and exit.")
@click.option(
    "--learned/--plain",
    default=None,
    help="Ask when the past says that something happens, or every 45/15/30 s. [default: as in the settings]",
)
@store_option
@common_options
@pass_invocation
def watch(invocation: Invocation, once: bool, learned: bool | None, url: str | None) -> int:
    """Ask about all open executions until none is open.

    Any number of processes may do this at once, also beside pollers on AWS. Exit code 0: all that ended
    meanwhile succeeded; 1: one of them did not; 4: something is still running (with --once).
    """
    from longwatch.watching.poller import Poller
    from longwatch.watching.watcher import Watcher

    clock = invocation.clock
    ended: list[Status] = []

    def report(polled: Polled) -> None:
        if polled.execution.closed:
            ended.append(polled.execution.status)
        line = polled_line(polled, now_ms=clock.now_ms())
        if line:
            write_data([line])

    settings = invocation.settings()
    known = sources(settings, clock=clock)
    try:
        with (
            _store(invocation, url) as store,
            open_journal(settings=settings, clock=clock) as journal,
        ):
            lessons = None
            if settings.learned_cadence if learned is None else learned:
                from longwatch.watching.cadence.history import read_history
                from longwatch.watching.cadence.lessons import Lessons

                lessons = Lessons(read_history(journal))
            poller = Poller(
                store,
                journal,
                known,
                clock=clock,
                report=report,
                lessons=lessons,
                ttl_hours=settings.ttl_hours,
            )
            watcher = Watcher(store, poller, clock=clock)
            if once:
                watcher.look()
            else:
                watcher.run(until_idle=True)
            is_open = any(not each.closed for each in store.open_executions())
    finally:
        known.close()
    if any(status is not Status.SUCCEEDED for status in ended):
        return FAILED
    return RUNNING if is_open else SUCCEEDED


def wave_from(text: str, *, region: str | None, account: str | None) -> Wave:
    """`NAME=JOB,JOB` as a wave; one without jobs has not begun."""
    name, equals, jobs = text.partition("=")
    if not name.strip() or not equals:
        raise InvalidInput(f"{text!r} is no wave; write NAME=JOB, or NAME=JOB,JOB for several jobs")
    ids = [each.strip() for each in jobs.split(",") if each.strip()]
    return Wave(name.strip(), tuple(Job(each, region=region, account=account) for each in ids))


def wave_lines(view: Mapping[str, Any], *, now_ms: int) -> Iterator[Line]:
    """The execution as a small tree: waves, and under each its servers."""
    symbol, style = STATUS_LOOKS[Status(view["status"])]
    title = f"{view['execution_id']}  {view['mode']} of {view['plan_id']}"
    yield [Segment(symbol, style), Segment(f" {clean(title)}  ", "strong"), Segment(view["status"], style)]
    if view["eta"] is not None:
        yield [Segment(f"  {view['eta']['text']}", "dim")]
    for wave in view["waves"]:
        symbol, style = STATUS_LOOKS[Status(wave["status"])]
        jobs = ", ".join(f"{job['job_id']} {job['state']}" for job in wave["jobs"]) or "no job yet"
        yield [
            Segment(f"  {symbol}", style),
            Segment(f" {clean(wave['name'])}  "),
            Segment(clean(jobs), "dim"),
        ]
        for server in wave["servers"]:
            since = "" if server["since"] is None else f"  {ago_text(server['since'], now_ms=now_ms)}"
            yield [
                Segment(f"      {clean(server['server_id'])}  "),
                Segment(server["state"]),
                Segment(since, "dim"),
            ]
            for action in server["actions"]:
                yield [Segment(f"        {clean(action['name'])}  {action['state']}", "dim")]


def fact_lines(execution: Execution, *, now_ms: int, lessons: Lessons | None = None) -> Iterator[Line]:
    """What there is to know, one fact a line."""
    symbol, style = STATUS_LOOKS[execution.status]
    yield [
        Segment(symbol, style),
        Segment(f" {clean(execution.execution_id)}  ", "strong"),
        Segment(execution.status.value, style),
    ]
    for fact in explained(execution, now_ms, lessons):
        when = "" if fact.at is None else f"  {clock_text(fact.at)}"
        yield [Segment(f"  {fact.about:12}", "dim"), Segment(clean(fact.text)), Segment(when, "dim")]


def polled_line(polled: Polled, *, now_ms: int) -> str | None:
    """What a poll brought, if that is worth a line."""
    execution = polled.execution
    if polled.problem is not None:
        told = f"no answer: {polled.problem.message}"
    elif execution.closed and execution.verdict is not None:
        told = f"{execution.status}" + (" (late)" if execution.verdict.late else "")
        told += f": {execution.verdict.message}" if execution.verdict.message else ""
    elif polled.told:
        told = f"{phase_of(execution)}, {polled.told} new"
    else:
        return None
    return f"{clock_text(now_ms)} {clean(execution.execution_id)} {clean(told)}"


def _row(execution: Execution, now_ms: int, lessons: Lessons | None) -> list[Segment]:
    line = execution_line(execution, now_ms=now_ms, lessons=lessons)
    symbol, style = STATUS_LOOKS[execution.status]
    names = ", ".join(each["name"] for each in line["conditions"])
    return [
        Segment(symbol, style),
        Segment(clean(execution.execution_id), "strong"),
        Segment(execution.status.value, style),
        Segment(execution.mode.value),
        Segment(clean(execution.name or execution.plan_id)),
        Segment(line["phase"] or ""),
        Segment(f"{line['servers_ended']}/{line['servers']}"),
        Segment(start_text(execution.started_at, now_ms=now_ms)),
        Segment(duration_text((line["ended_at"] or now_ms) - execution.started_at)),
        Segment(names, "dim"),
    ]


def _check_addresses(urls: Sequence[str]) -> None:
    """Refuse before they are stored what the source would refuse when it is asked."""
    from longwatch.watching.sources.addresses import checked, without_secrets

    for each in urls:
        try:
            without_secrets(checked(each))
        except ValueError as error:
            raise InvalidInput(f"{error}.") from error


def _deadline(text: str) -> int | None:
    if text == NEVER:
        return None
    return span_ms(text) if text else DEFAULT_DEADLINE_MS


def _lessons(invocation: Invocation, executions: Sequence[Execution]) -> Lessons | None:
    """What the journal says of past ones; None if none of these is open, so that there is nothing to ask."""
    if not any(each.is_open for each in executions):
        return None
    from longwatch.watching.cadence.history import read_history
    from longwatch.watching.cadence.lessons import Lessons

    with open_journal(settings=invocation.settings(), clock=invocation.clock) as journal:
        try:
            return Lessons(read_history(journal, most=PAST_SHOWN))
        except LongwatchError as error:
            remark(f"No word on how long it usually takes: {error}")
            return None


@contextmanager
def _store(invocation: Invocation, url: str | None) -> Iterator[ExecutionStore]:
    store = open_executions(url, settings=invocation.settings(), clock=invocation.clock)
    try:
        yield store
    finally:
        store.close()
