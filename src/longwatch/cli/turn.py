"""`longwatch turn`: runs a command as a turn of a conversation."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

import click

from longwatch.cli.invocation import Invocation
from longwatch.cli.options import common_options, output_option, pass_invocation
from longwatch.cli.terminal import Terminal, remark
from longwatch.cli.text import clean
from longwatch.cli.times import duration_text
from longwatch.errors import InvalidInput
from longwatch.events import Event
from longwatch.journal.opening import open_journal
from longwatch.recording.process.environment import absolute_journal_url
from longwatch.recording.process.stopping import GRACE_SECONDS
from longwatch.recording.scope import new_trace_id, trace_id_of
from longwatch.turns import Conversations, TurnState
from longwatch.turns.executor import Executed, Execution, Executor, succeeded, turn_environment

FAILED, INTERRUPTED = 1, 130
STDIN, STDERR = 0, 2
DEFAULT_PROJECT = "default"


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument("words", metavar="[--] COMMAND [ARGUMENT]...", nargs=-1, type=click.UNPROCESSED)
@click.option("--project", metavar="ID", help=f"Project of the session.  [default: {DEFAULT_PROJECT}]")
@click.option("--session", metavar="ID", help="Session to add the turn to.  [default: a new one]")
@click.option("--prompt", metavar="TEXT", help="What the command is asked; - reads standard input.")
@click.option("--turn", "turn_id", metavar="ID", help="Execute this turn, which was created before.")
@click.option(
    "--grace",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=GRACE_SECONDS,
    show_default=True,
    help="How long the command may go on when it is to stop, before it is killed.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print neither remarks nor blocks.")
@output_option("text", "jsonl")
@common_options
@pass_invocation
def command(
    invocation: Invocation,
    words: Sequence[str],
    project: str | None,
    session: str | None,
    prompt: str | None,
    turn_id: str | None,
    grace: float,
    quiet: bool,
    output: str,
) -> int:
    """Run a coding agent as a turn of a session.

    The command prints stream-JSON, one message a line; each becomes blocks of the turn. It finds the prompt
    on its standard input and in LONGWATCH_PROMPT. It is stopped when the turn is interrupted, or cancelled by
    a newer one. Project and session are created if they are missing.

    \b
    longwatch turn --prompt "Fix the tests" -- claude -p --output-format stream-json --verbose
    longwatch turn --turn turn-3f2a9c0d1e4b -- ./agent.sh
    """
    if not words:
        raise click.UsageError("There is no command to run. Write it last: longwatch turn -- ./agent.sh")
    if turn_id is not None and prompt is not None:
        raise click.UsageError("--turn has its own prompt; leave out --prompt.")
    settings = invocation.settings()
    if not settings.enabled:
        origin = settings.origins["recording.enabled"]
        raise InvalidInput(f"Recording is switched off by {origin}; set recording.enabled to true.")
    if prompt == "-":
        prompt = sys.stdin.read()
    settings = replace(settings, journal=absolute_journal_url(settings))
    with open_journal(settings=settings, clock=invocation.clock) as journal:
        conversations = Conversations(journal, invocation.clock, settings=settings)
        if turn_id is not None:
            turn = _pending(conversations, turn_id, project, session)
        else:
            turn = _created(conversations, project or DEFAULT_PROJECT, session, prompt)
        assert turn.creation is not None
        execution = Execution(
            command=words,
            environment=turn_environment(
                os.environ,
                turn,
                prompt=turn.creation.prompt if prompt is None else prompt,
                journal_url=settings.journal,
                trace_id=trace_id_of(os.environ.get("TRACEPARENT")) or new_trace_id(),
            ),
            turn=turn,
            prompt=turn.creation.prompt if prompt is None else prompt,
            grace_seconds=grace,
            shares_group=turn.creation.prompt is None and _is_terminal(STDIN),
        )
        if not quiet:
            where = f"session {turn.creation.conversation_id} of project {turn.creation.project_id}"
            remark(f"longwatch: {turn.turn_id}, turn {turn.creation.number} in {where}")
        executor = Executor(
            execution,
            conversations,
            show=_printer(output, quiet=quiet, invocation=invocation),
            tell=lambda text: remark(f"longwatch: {clean(text)}"),
            clock=invocation.clock,
            stderr=STDERR if sys.stderr is not None else None,
        )
        executed = executor.run()
    if not quiet:
        _tell(executed, invocation)
    return _exit_code(executed)


def _created(
    conversations: Conversations, project: str, session: str | None, prompt: str | None
) -> TurnState:
    """A new turn, in a project and a session that are made if need be."""
    conversations.create_project(project)
    conversation = conversations.create_conversation(project, session)
    return conversations.create_turn(project, conversation.id, prompt)


def _pending(
    conversations: Conversations, turn_id: str, project: str | None, session: str | None
) -> TurnState:
    """A turn that somebody else created."""
    turn = conversations.find_turn(turn_id)
    assert turn.creation is not None
    for option, wanted, found in (
        ("--project", project, turn.creation.project_id),
        ("--session", session, turn.creation.conversation_id),
    ):
        if wanted is not None and wanted != found:
            raise InvalidInput(f"Turn {turn_id} belongs to {found!r}; leave out {option} {wanted}.")
    return turn


def _printer(output: str, *, quiet: bool, invocation: Invocation) -> Callable[[Sequence[Event]], None]:
    from longwatch.cli.views import print_json_lines, text_printer

    if quiet and output == "text":
        return lambda events: None
    lines = text_printer(Terminal.of_stdout(), now_ms=invocation.clock.now_ms())
    show = print_json_lines if output == "jsonl" else lines
    return lambda events: show([(event, False) for event in events])


def _is_terminal(descriptor: int) -> bool:
    try:
        return os.isatty(descriptor)
    except OSError:
        return False


def _tell(executed: Executed, invocation: Invocation) -> None:
    turn, length = executed.turn, duration_text(executed.duration_ms)
    journal = f" --journal {shlex.quote(invocation.journal)}" if invocation.journal else ""
    reason = f": {clean(turn.error)}" if turn.error else ""
    show = f"longwatch show{journal} {turn.turn_id}"
    remark(f"longwatch: {turn.turn_id} {turn.status} after {length}{reason}. See it: {show}")


def _exit_code(executed: Executed) -> int:
    if executed.interrupted_by == signal.SIGINT:
        return INTERRUPTED
    return 0 if succeeded(executed) else FAILED
