"""`longwatch run`: runs a command and records what it does."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace

import click

from longwatch.cli.options import Invocation, common_options, pass_invocation
from longwatch.cli.render.terminal import remark
from longwatch.cli.render.text import clean
from longwatch.cli.render.times import duration_text, span_ms
from longwatch.integrations.startup import with_startup_hook
from longwatch.journal.factory import open_journal
from longwatch.model.endings import DEADLINE
from longwatch.model.event import Event
from longwatch.recording.labels import label_fields
from longwatch.recording.process.child import is_terminal
from longwatch.recording.process.child_runner import GRACE_SECONDS
from longwatch.recording.process.command import absolute_journal_url, child_environment, command_name
from longwatch.recording.process.exit_status import describe_start_failure
from longwatch.recording.process.supervisor import CommandResult, CommandSpec, Supervisor
from longwatch.recording.recorder import Recorder
from longwatch.recording.scope import (
    RUN_ID_VARIABLE,
    attempt_from_environment,
    new_attempt,
    new_run_id,
    new_trace_id,
    trace_id_of,
)
from longwatch.settings import Settings
from longwatch.settings_catalog import NO_SDKS

STDIN, STDOUT, STDERR = 0, 1, 2


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument("command_line", metavar="[--] COMMAND [ARGUMENT]...", nargs=-1, type=click.UNPROCESSED)
@click.option("--name", metavar="NAME", help="Name of the run.  [default: the command's name]")
@click.option("--run-id", metavar="ID", help="ID of the run.  [default: a new one]")
@click.option("--kind", metavar="KIND", default="workflow", show_default=True, help="Kind of the run.")
@click.option("--tag", "tags", metavar="TAG", multiple=True, help="Tag of the run. Repeat for more.")
@click.option("--user", metavar="USER", help="User for whom the command runs.")
@click.option("--session", metavar="SESSION", help="Session that the run belongs to.")
@click.option(
    "--deadline",
    metavar="TIME",
    help="When the command should be over, such as 30m. Recorded for readers; nothing is stopped.",
)
@click.option(
    "--grace",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=GRACE_SECONDS,
    show_default=True,
    help="Grace period after a signal, before the command is killed.",
)
@click.option("--no-output", is_flag=True, help="Do not record output lines that are not events.")
@click.option(
    "-q", "--quiet", is_flag=True, help="Print neither status messages nor the command's own output."
)
@common_options
@pass_invocation
def command(
    invocation: Invocation,
    command_line: Sequence[str],
    name: str | None,
    run_id: str | None,
    kind: str,
    tags: Sequence[str],
    user: str | None,
    session: str | None,
    deadline: str | None,
    grace: float,
    no_output: bool,
    quiet: bool,
) -> int:
    """Run a command and record what it does.

    JSON lines that the command prints are recorded as events, all other output as text. The command finds
    the run in LONGWATCH_RUN_ID, and its recorders join the run. Agent SDKs that a Python program imports
    are recorded too; LONGWATCH_ATTACH selects them. Exits with the exit code of the command.

    \b
    longwatch run -- python flow.py
    longwatch run --name nightly --tag prod --grace 30 -- ./import.sh --all
    """
    if not command_line:
        raise click.UsageError("No command to run. Put it last: longwatch run -- python flow.py")
    settings = invocation.settings()
    if not settings.enabled:
        return _exec_command(command_line)
    settings = _with_absolute_journal(settings, invocation)
    labels = label_fields(tags, user=user, session=session)
    if deadline is not None:
        labels[DEADLINE] = invocation.clock.now_ms() + span_ms(deadline)
    chosen = run_id or new_run_id()
    Event(run_id=chosen, event_id="-", type="workflow_start", occurred_at=0)  # raises for an invalid id
    parent = os.environ.get(RUN_ID_VARIABLE)
    attempt = attempt_from_environment(chosen) or new_attempt()
    trace_id = trace_id_of(os.environ.get("TRACEPARENT")) or new_trace_id()
    spec = CommandSpec(
        command=command_line,
        run_id=chosen,
        attempt=attempt,
        trace_id=trace_id,
        name=name or command_name(command_line),
        environment=with_startup_hook(
            child_environment(
                os.environ, run_id=chosen, attempt=attempt, journal_url=settings.journal, trace_id=trace_id
            ),
            enabled=NO_SDKS not in settings.attach,
        ),
        kind=kind,
        labels=labels,
        parent_run_id=parent if parent != chosen else None,
        run_is_new=run_id is None,
        record_output=not no_output,
        grace_seconds=grace,
        shares_group=is_terminal(STDIN),
    )
    show = _show_hint(spec.run_id, invocation)
    if not quiet:
        remark(f"longwatch: recording {clean(spec.name)} as run {clean(spec.run_id)}")
    recorder = Recorder(settings=settings, clock=invocation.clock)
    supervisor = Supervisor(
        spec,
        recorder=recorder,
        open_journal=lambda: open_journal(settings=settings, clock=invocation.clock),
        warn=lambda text: remark(f"longwatch: {text}"),
        sinks=(None, None) if quiet else _output_sinks(),
    )
    result = supervisor.run()
    _print_outcome(result, spec, show, waiting=recorder.stats().in_outbox, quiet=quiet)
    return result.exit_code


def _with_absolute_journal(settings: Settings, invocation: Invocation) -> Settings:
    """The settings with a journal URL that the command can use too, whatever its directory.

    Opening the journal reports an invalid URL or a missing extra before anything runs; it detects no outage.
    """
    with open_journal(settings=settings, clock=invocation.clock):
        return replace(settings, journal=absolute_journal_url(settings))


def _exec_command(command_line: Sequence[str]) -> int:
    """Replace this process by the command, because recording is disabled."""
    try:
        os.execvp(command_line[0], list(command_line))
    except OSError as error:
        code, message = describe_start_failure(command_line[0], error)
        remark(f"longwatch: {message}")
        return code


def _output_sinks() -> tuple[int | None, int | None]:
    """Where the output is copied to. A descriptor that was closed at the start may be reused by now."""
    return (STDOUT if sys.stdout is not None else None, STDERR if sys.stderr is not None else None)


def _show_hint(run_id: str, invocation: Invocation) -> str:
    journal = f" --journal {shlex.quote(invocation.journal)}" if invocation.journal else ""
    return f"longwatch show{journal} {shlex.quote(run_id)}"


def _print_outcome(result: CommandResult, spec: CommandSpec, show: str, *, waiting: int, quiet: bool) -> None:
    if not result.started:
        remark(f"longwatch: {result.description}")
    elif not quiet:
        length = duration_text(result.duration_ms)
        code = "" if result.exit_code == 0 else f", {result.description}"
        remark(f"longwatch: {clean(spec.name)} {result.status} after {length}{code}. See it: {show}")
    if waiting:
        events = "1 event waits" if waiting == 1 else f"{waiting:,} events wait"
        remark(f"longwatch: {events} in the outbox. Deliver with `longwatch ship`.")
