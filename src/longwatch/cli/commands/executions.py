"""`longwatch executions`: work that runs in other systems, polled until it ends."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from longwatch.cli.commands.operate import add_wave, close, set_waves, stop_watching
from longwatch.cli.execution_options import add_servers, open_store, parse_wave, store_option
from longwatch.cli.exit_codes import ExitCode
from longwatch.cli.options import (
    Invocation,
    common_options,
    execution_argument,
    output_option,
    pass_invocation,
)
from longwatch.cli.render.execution_lines import COLUMNS, fact_lines, list_row, wave_lines
from longwatch.cli.render.executions import open_view
from longwatch.cli.render.table import table
from longwatch.cli.render.terminal import (
    Terminal,
    remark,
    write_data,
    write_document,
    write_json,
    write_json_lines,
)
from longwatch.cli.render.times import span_ms
from longwatch.cli.resolve import find_execution
from longwatch.cli.signals import report_interrupt, stopped_by_signals
from longwatch.cli.source_checks import check_job_ids, unusable_sources
from longwatch.errors import InvalidInput, LongwatchError
from longwatch.executions.explain import explain_execution
from longwatch.executions.model import DEFAULT_DEADLINE_MS, Execution, ExecutionKey, Mode
from longwatch.executions.sources.registry import sources
from longwatch.executions.transitions import start_event
from longwatch.executions.validation import check_new
from longwatch.executions.views import ExecutionLine, ExecutionView, FactList
from longwatch.journal.factory import open_journal
from longwatch.model.run import Status

if TYPE_CHECKING:
    from longwatch.executions.cadence.cadence import LearnedCadence
    from longwatch.executions.poller import PollReport

NEVER = "never"


@click.group()
def command() -> None:
    """Watch work that runs in other systems."""


for decision in (close, stop_watching, add_wave, set_waves):
    command.add_command(decision)


@command.command("add")
@click.option("--plan", required=True, metavar="ID", help="ID of the recovery plan.")
@click.option("--wave", "waves", multiple=True, metavar="NAME=JOB,…", help="A wave and its jobs; repeatable.")
@click.option(
    "--servers",
    multiple=True,
    metavar="NAME=ID,…",
    help="The servers of a wave in the plan; repeatable.",
)
@click.option(
    "--total-waves",
    type=click.IntRange(min=1),
    metavar="N",
    help="Total number of waves. [default: those given with --wave]",
)
@click.option("--id", "execution_id", metavar="ID", help="ID of the execution. [default: a new one]")
@click.option("--name", help="Name of the execution. [default: the plan's]")
@click.option(
    "--mode",
    type=click.Choice(list(Mode), case_sensitive=False),
    help="When it is done. [default: DRILL for drs, else JOB]",
)
@click.option(
    "--source",
    default="drs",
    show_default=True,
    help="Source that reports its status; `longwatch watch --sources` lists them.",
)
@click.option("--region", help="AWS region of its jobs. [default: from the AWS credentials]")
@click.option("--account", metavar="ID", help="AWS account of its jobs.")
@click.option(
    "--more-waves",
    is_flag=True,
    help="More waves may follow; the execution stays open until their count is set.",
)
@click.option(
    "--deadline",
    default="30m",
    show_default=True,
    help=f"Deadline after the start, past which the source decides. Or {NEVER}.",
)
@store_option
@output_option()
@common_options
@pass_invocation
def add(
    invocation: Invocation,
    plan: str,
    waves: tuple[str, ...],
    servers: tuple[str, ...],
    total_waves: int | None,
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
    """Add an execution to watch.

    Its jobs are running already: longwatch never starts or stops one. Prints the id.
    """
    now = invocation.clock.now_ms()
    registry = sources(invocation.settings())
    if source not in registry:
        raise InvalidInput(f"No source {source!r}. Use one of {', '.join(registry)}.")
    if more_waves and total_waves is not None:
        raise InvalidInput(
            "--more-waves and --total-waves exclude each other. State the count if you know it."
        )
    named = [parse_wave(text, region=region, account=account) for text in waves]
    new = Execution(
        execution_id=f"x-{secrets.token_hex(6)}" if execution_id is None else execution_id,
        plan_id=plan,
        name=name,
        source=source,
        mode=Mode(mode.upper()) if mode else Mode.DRILL if source == "drs" else Mode.JOB,
        started_at=now - now % 1000,
        stages=add_servers(named, servers),
        total_stages=None if more_waves else total_waves or len(waves) or None,
        deadline_ms=_deadline(deadline),
    )
    check_new(new, is_count_stated=total_waves is not None)
    check_job_ids(registry[source], new.job_ids())
    with open_store(invocation, url) as store:
        added = store.add(new)
        with open_journal(settings=invocation.settings(), clock=invocation.clock) as journal:
            journal.append([start_event(added)])
    if output != "text":
        write_document(ExecutionView.of(added, now_ms=now), output)
    else:
        write_data([added.execution_id])
    if more_waves:
        name = added.execution_id
        remark(f"It stays open until its wave count is set: longwatch executions set-waves {name} N")


@command.command("list")
@click.option(
    "--status",
    type=click.Choice([each.value for each in Status if each is not Status.DIED], case_sensitive=False),
    help="Only executions with this status.",
)
@click.option(
    "--limit", type=click.IntRange(min=1), default=50, show_default=True, help="Maximum number of executions."
)
@store_option
@output_option()
@common_options
@pass_invocation
def list_(invocation: Invocation, status: str | None, limit: int, url: str | None, output: str) -> None:
    """List executions, newest first."""
    now = invocation.clock.now_ms()
    with open_store(invocation, url) as store:
        found = store.find(status=Status(status) if status else None, limit=limit)
    cadence = _read_cadence(invocation, found)
    if output == "json":
        write_json([ExecutionLine.of(each, now_ms=now, cadence=cadence) for each in found])
    elif output == "jsonl":
        write_json_lines(ExecutionLine.of(each, now_ms=now, cadence=cadence) for each in found)
    elif found:
        terminal = Terminal.of_stdout()
        times = Counter(each.execution_id for each in found)
        rows = [list_row(each, now, cadence, with_plan=times[each.execution_id] > 1) for each in found]
        terminal.show(table(COLUMNS, rows, width=terminal.columns))
    if not found:
        remark("No executions. `longwatch executions add` adds one.")


@command.command("show")
@execution_argument
@store_option
@output_option()
@common_options
@pass_invocation
def show(invocation: Invocation, execution: str, url: str | None, output: str) -> None:
    """Show the waves, jobs and servers of an execution, with its ETA where past executions suffice."""
    now = invocation.clock.now_ms()
    with open_store(invocation, url) as store:
        found = find_execution(store, execution)
    view = ExecutionView.of(found, now_ms=now, cadence=_read_cadence(invocation, [found]))
    if output != "text":
        write_document(view, output)
    else:
        Terminal.of_stdout().show(wave_lines(view, now_ms=now))


@command.command("explain")
@execution_argument
@store_option
@output_option()
@common_options
@pass_invocation
def explain(invocation: Invocation, execution: str, url: str | None, output: str) -> None:
    """Explain why an execution is still running, or how it ended."""
    now = invocation.clock.now_ms()
    with open_store(invocation, url) as store:
        found = find_execution(store, execution)
    facts = list(explain_execution(found, now, _read_cadence(invocation, [found])))
    if output != "text":
        write_document(FactList.of(found, facts), output)
    else:
        Terminal.of_stdout().show(fact_lines(found, facts))


@command.command("watch")
@click.option("--once", is_flag=True, help="Poll everything that is due once, and exit.")
@click.option(
    "--learned/--plain",
    default=None,
    help="Poll when past durations suggest a change, or every 45/15/30 s. [default: as in the settings]",
)
@store_option
@output_option()
@common_options
@pass_invocation
def watch(invocation: Invocation, once: bool, learned: bool | None, url: str | None, output: str) -> int:
    """Poll all open executions until none is open.

    Open executions are shown at once with what they wait for: on a terminal as a picture, else as lines.
    The notifications of the rules in longwatch.toml are sent meanwhile.
    With -o jsonl each change is a line as of `list`, with -o json all of them are one document at the end.

    Any number of processes may do this at once, also beside pollers on AWS. Exit code 0: all executions that
    ended meanwhile succeeded; 1: one of them did not; 4: something is still running (with --once).
    """
    from longwatch.executions.compose import WatchingParts
    from longwatch.executions.poller import Result as PollResult
    from longwatch.notifications.compose import notifying
    from longwatch.recording.redaction import redact_text

    clock = invocation.clock
    ended: list[Status] = []
    seen_open: set[ExecutionKey] = set()

    def report(polled: PollReport) -> None:
        key, has_news = polled.execution.key, polled.result in (PollResult.ENDED, PollResult.CORRECTED)
        if not polled.execution.closed:
            seen_open.add(key)
        elif has_news or key in seen_open:  # else it ended before, and another poller rechecks it
            seen_open.discard(key)
            ended.append(polled.execution.status)
        elif polled.result in (PollResult.BUSY, PollResult.CLOSED):
            return
        view.take(polled)

    try:
        with ExitStack() as stack:
            parts = stack.enter_context(
                WatchingParts(
                    invocation.settings(),
                    executions_url=url,
                    learned=learned,
                    on_poll=report,
                    redact=redact_text,
                    clock=clock,
                )
            )
            registry, store = parts.sources, parts.store
            skipped = unusable_sources({each.source for each in store.open_executions()}, registry)
            view = stack.enter_context(open_view(output, clock))
            watcher = parts.watcher(on_tick=view.tick, skipped=skipped)
            found = [each for each in store.open_executions() if not each.closed]
            seen_open.update(each.key for each in found)
            view.begin(found)
            notifier = notifying(
                invocation.settings(), parts.journal, executions=store, at_end=True, clock=clock
            )
            try:
                with stopped_by_signals(), notifier:
                    if once:
                        watcher.poll_due()
                    else:
                        watcher.run(until_idle=True)
            finally:
                parts.poller.release_leases()
            is_open = any(not each.closed for each in store.open_executions())
            view.finish()
    except KeyboardInterrupt:  # once the view is closed: it would draw over the message
        return report_interrupt("watching stopped, the executions continue")
    if any(status is not Status.SUCCEEDED for status in ended):
        return ExitCode.FAILED
    return ExitCode.STILL_RUNNING if is_open else ExitCode.SUCCEEDED


def _deadline(text: str) -> int | None:
    if text == NEVER:
        return None
    return span_ms(text) if text else DEFAULT_DEADLINE_MS


def _read_cadence(invocation: Invocation, executions: Sequence[Execution]) -> LearnedCadence | None:
    """The cadence of past executions; None if none of these is open, so that no ETA is needed."""
    if not any(each.is_open for each in executions):
        return None
    from longwatch.executions.cadence.cadence import read_cadence

    with open_journal(settings=invocation.settings(), clock=invocation.clock) as journal:
        try:
            return read_cadence(journal)
        except LongwatchError as error:
            remark(f"No ETA: {error}")
            return None
