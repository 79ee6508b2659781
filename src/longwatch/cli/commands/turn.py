"""`longwatch turn`: runs a command as a turn of a conversation, in a journal here or on a server."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import click

from longwatch.cli.exit_codes import ExitCode, of_success
from longwatch.cli.options import Invocation, common_options, output_option, pass_invocation
from longwatch.cli.render.terminal import Terminal, remark
from longwatch.cli.render.text import clean
from longwatch.cli.render.times import duration_text
from longwatch.errors import InvalidInput, LongwatchError
from longwatch.integrations.startup import with_startup_hook
from longwatch.journal.factory import open_journal
from longwatch.model.event import Event
from longwatch.recording.process.child import is_terminal
from longwatch.recording.process.child_runner import GRACE_SECONDS
from longwatch.recording.process.command import absolute_journal_url
from longwatch.recording.scope import new_trace_id, trace_id_of
from longwatch.settings import Settings, data_directory, make_private_directory
from longwatch.settings_catalog import NO_SDKS
from longwatch.turns import Conversations, TurnState
from longwatch.turns.executor import (
    EXIT_WAIT_SECONDS,
    TOKEN_VARIABLE,
    Executor,
    ExecutorResult,
    TurnCommand,
    succeeded,
    turn_environment,
)
from longwatch.turns.line_pump import StoreUnsent
from longwatch.turns.streaming import DELTA
from longwatch.turns.turn_sink import JournalTurnSink, TurnName, TurnSink

STDIN, STDERR = 0, 2
DEFAULT_PROJECT = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRequest:
    """The turn that the options name."""

    project: str | None
    session: str | None
    prompt: str | None
    turn_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnTarget:
    """A turn, and where the output of its command goes."""

    name: TurnName
    number: int
    prompt: str | None
    sink: TurnSink
    journal_url: str | None  # for events that the command records
    show_hint: str  # the command or URL that shows the turn
    keep: StoreUnsent | None = None


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument("command_line", metavar="[--] COMMAND [ARGUMENT]...", nargs=-1, type=click.UNPROCESSED)
@click.option("--project", metavar="ID", help=f"Project of the session.  [default: {DEFAULT_PROJECT}]")
@click.option("--session", metavar="ID", help="Session to add the turn to.  [default: a new one]")
@click.option("--prompt", metavar="TEXT", help="Prompt for the command; - reads standard input.")
@click.option("--turn", "turn_id", metavar="ID", help="Execute this existing turn.")
@click.option("--server", metavar="URL", help="Use a turn of this `longwatch serve`, not of a local journal.")
@click.option(
    "--token",
    metavar="TEXT",
    envvar=TOKEN_VARIABLE,
    help=f"Token for the server. Prefer {TOKEN_VARIABLE}, which other users of this machine cannot see.",
)
@click.option(
    "--grace",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=GRACE_SECONDS,
    show_default=True,
    help="Grace period for the command to stop, before it is killed.",
)
@click.option(
    "--exit-wait",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=EXIT_WAIT_SECONDS,
    show_default=True,
    help="How long to wait for the command to exit once the agent has reported its result.",
)
@click.option(
    "--kill-leftover", is_flag=True, help="Kill processes that are still running when the turn has ended."
)
@click.option("-q", "--quiet", is_flag=True, help="Print neither status messages nor blocks.")
@output_option("text", "jsonl")
@common_options
@pass_invocation
def command(
    invocation: Invocation,
    command_line: Sequence[str],
    project: str | None,
    session: str | None,
    prompt: str | None,
    turn_id: str | None,
    server: str | None,
    token: str | None,
    grace: float,
    exit_wait: float,
    kill_leftover: bool,
    quiet: bool,
    output: str,
) -> int:
    """Run a coding agent as a turn of a session.

    The command prints JSON lines, as Claude Code and Codex do; they become blocks of the turn. It gets the
    prompt on standard input and in LONGWATCH_PROMPT. It is stopped when the turn is interrupted, or cancelled
    by a newer turn. Project and session are created if they do not exist.

    Agent SDKs that a Python command imports are recorded as runs below the turn; LONGWATCH_ATTACH selects
    them.

    The turn succeeds if the agent reports success and its exit does not contradict that.

    With --server the turn is on a server. While the server is unreachable, lines are queued.

    \b
    longwatch turn --prompt "Fix the tests" -- claude -p --output-format stream-json --verbose
    longwatch turn --prompt "Fix the tests" -- codex exec --json -
    longwatch turn --turn turn-3f2a9c0d1e4b -- ./agent.sh
    longwatch turn --server http://board:8321 --session roof --prompt "Fix it" -- ./agent.sh
    """
    if not command_line:
        raise click.UsageError("No command to run. Put it last: longwatch turn -- ./agent.sh")
    if turn_id is not None and prompt is not None:
        raise click.UsageError("--turn has its own prompt. Remove --prompt.")
    settings = invocation.settings()
    if not settings.enabled:
        origin = settings.origins["recording.enabled"]
        raise InvalidInput(f"Recording is disabled by {origin}. Set recording.enabled to true.")
    if server is not None and invocation.journal is not None:
        raise click.UsageError("Use either --journal or --server, not both.")
    if prompt == "-":
        prompt = sys.stdin.read()
    request = TurnRequest(project=project, session=session, prompt=prompt, turn_id=turn_id)
    if server is None:
        opened = _open_in_journal(request, settings, invocation)
    else:
        opened = _open_on_server(request, server, token, settings, invocation)
    with opened as target:
        if not quiet:
            where = f"session {target.name.conversation_id} of project {target.name.project_id}"
            remark(f"longwatch: {target.name.turn_id}, turn {target.number} in {where}")
        executor = Executor(
            TurnCommand(
                command=command_line,
                environment=_environment(target, attaches=NO_SDKS not in settings.attach),
                prompt=target.prompt,
                grace_seconds=grace,
                exit_wait_seconds=exit_wait,
                kill_leftover=kill_leftover,
                shares_group=target.prompt is None and is_terminal(STDIN),
            ),
            target.sink,
            show=_printer(output, quiet=quiet, invocation=invocation),
            warn=_warn,
            notify=_ignore if quiet else _warn,
            clock=invocation.clock,
            stderr=STDERR if sys.stderr is not None else None,
            keep=target.keep,
        )
        result = executor.run()
    if not quiet:
        _print_result(result, target)
    return _exit_code(result)


def _environment(target: TurnTarget, *, attaches: bool) -> dict[str, str]:
    """The environment of the command. With the start-up hook, agent SDKs that it imports are recorded."""
    environment = turn_environment(
        os.environ,
        target.name,
        prompt=target.prompt,
        journal_url=target.journal_url,
        trace_id=trace_id_of(os.environ.get("TRACEPARENT")) or new_trace_id(),
    )
    return with_startup_hook(environment, enabled=attaches)


@contextmanager
def _open_in_journal(
    request: TurnRequest, settings: Settings, invocation: Invocation
) -> Iterator[TurnTarget]:
    """Create or find the turn in the journal of the settings."""
    settings = replace(settings, journal=absolute_journal_url(settings))
    with open_journal(settings=settings, clock=invocation.clock) as journal:
        conversations = Conversations(journal, invocation.clock, settings=settings)
        if request.turn_id is not None:
            turn = conversations.find_turn(request.turn_id)
            _check_owner(TurnName.of(turn), request)
        else:
            project = request.project or DEFAULT_PROJECT
            turn = _create_turn(conversations, project, request.session, request.prompt)
        assert turn.creation is not None
        option = f" --journal {shlex.quote(invocation.journal)}" if invocation.journal else ""
        yield TurnTarget(
            name=TurnName.of(turn),
            number=turn.creation.number,
            # The prompt as given: the stored one may be truncated, and is redacted.
            prompt=turn.creation.prompt if request.prompt is None else request.prompt,
            sink=JournalTurnSink(conversations, TurnName.of(turn)),
            journal_url=settings.journal,
            show_hint=f"longwatch show{option} {turn.turn_id}",
        )


def _create_turn(
    conversations: Conversations, project: str, session: str | None, prompt: str | None
) -> TurnState:
    """Create a turn, with its project and session if they do not exist."""
    conversations.create_project(project)
    conversation = conversations.create_conversation(project, session)
    return conversations.create_turn(project, conversation.id, prompt)


def _check_owner(name: TurnName, request: TurnRequest) -> None:
    """Raise `InvalidInput` if --project or --session names another one than the turn's."""
    for option, given, found in (
        ("--project", request.project, name.project_id),
        ("--session", request.session, name.conversation_id),
    ):
        if given is not None and given != found:
            raise InvalidInput(f"Turn {name.turn_id} belongs to {found!r}. Remove {option} {given}.")


def _printer(output: str, *, quiet: bool, invocation: Invocation) -> Callable[[Sequence[Event]], None]:
    from longwatch.cli.render.run_views import print_json_lines, text_printer

    if quiet and output == "text":
        return lambda events: None
    if output == "jsonl":
        return lambda events: print_json_lines([(event, False) for event in events])
    lines = text_printer(Terminal.of_stdout(), now_ms=invocation.clock.now_ms())
    # A finished block follows its deltas, with the same text.
    return lambda events: lines([(event, False) for event in events if event.type != DELTA])


def _warn(text: str) -> None:
    remark(f"longwatch: {clean(text)}")


def _ignore(text: str) -> None:
    """With --quiet, messages that are not losses are not printed."""


def _print_result(result: ExecutorResult, target: TurnTarget) -> None:
    turn = result.turn
    length = f" after {duration_text(turn.duration_ms)}" if turn.duration_ms is not None else ""
    reason = f": {clean(turn.error).removesuffix('.')}" if turn.error else ""
    remark(f"longwatch: {turn.turn_id} {turn.status}{length}{reason}. See it: {target.show_hint}")


def _exit_code(result: ExecutorResult) -> ExitCode:
    if result.interrupted_by == signal.SIGINT:
        return ExitCode.INTERRUPTED
    return of_success(succeeded(result))


@contextmanager
def _open_on_server(
    request: TurnRequest,
    server: str,
    token: str | None,
    settings: Settings,
    invocation: Invocation,
) -> Iterator[TurnTarget]:
    """Create or find the turn on a server."""
    from longwatch.journal.memory import MemoryJournal
    from longwatch.remote.blocking_client import BlockingClient
    from longwatch.remote.turn_sink import RemoteTurnSink, create_turn, find_turn
    from longwatch.turns.events import EventMaker

    calls = BlockingClient(server, token=token)
    if request.turn_id is not None:
        turn = find_turn(calls, request.turn_id)
        _check_owner(turn.name, request)
    else:
        project = request.project or DEFAULT_PROJECT
        turn = create_turn(calls, invocation.clock, project, request.session, request.prompt)
    maker = EventMaker(MemoryJournal(), settings)
    sink = RemoteTurnSink(calls, turn.name, maker=maker, warn=_warn, clock=invocation.clock)
    unsent = UnsentLines(
        data_directory() / "turns" / f"{turn.name.turn_id}.lines", f"{calls.base_url}{sink.path}"
    )
    is_over = False
    try:
        yield TurnTarget(
            name=turn.name,
            number=turn.number,
            prompt=turn.prompt if request.prompt is None else request.prompt,
            sink=sink,
            journal_url=None,
            show_hint=f"{calls.base_url}/projects/{turn.name.project_id}/sessions/{turn.name.conversation_id}",
            keep=unsent.keep,
        )
        is_over = True
    except LongwatchError:
        is_over = True  # unreachable for too long, or rejected: the watchdog could not report either
        raise
    finally:
        sink.close(is_over=is_over)
        if unsent.first is not None:
            _warn(unsent.describe())


class UnsentLines:
    """A file with the lines that could not be sent to the server."""

    def __init__(self, path: Path, url: str) -> None:
        self.first: int | None = None  # the number of its first line
        self._path = path
        self._url = url

    def keep(self, first_line: int, lines: Sequence[str]) -> None:
        """Append lines to the file."""
        if self.first is None:
            make_private_directory(self._path.parent)
            self._path.unlink(missing_ok=True)
            self._path.touch(mode=0o600)
            self.first = first_line
        with self._path.open("a", encoding="utf-8", errors="replace", newline="\n") as file:
            file.writelines(f"{line}\n" for line in lines)

    def describe(self) -> str:
        """Where the lines are, and how to send them when the server is reachable again."""
        where = shlex.quote(str(self._path))
        url = f"{self._url}/lines?first={self.first}&keep_output=true"
        return (
            f"the lines from {self.first} on are stored in {self._path}. Send them later: curl --data-binary "
            f"@{where} -H 'Content-Type: application/x-ndjson' {shlex.quote(url)} (with -H 'Authorization: "
            "Bearer …' if the server needs a token), unless the turn has ended by then."
        )
