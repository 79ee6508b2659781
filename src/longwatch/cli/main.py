"""The command `longwatch`: runs one command and turns every error into one line and an exit code.

Commands are imported only when they are called, so that `--help` costs no more than click itself.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

import click

from longwatch.cli.exit_codes import ExitCode
from longwatch.cli.options import Invocation, common_options

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

PROGRAM = "longwatch"
COMPLETE_VARIABLE = "_LONGWATCH_COMPLETE"

# Name -> module with an attribute `command`, and its one line of help, compared with the real one in a test.
COMMANDS: Mapping[str, tuple[str, str]] = {
    "demo": ("longwatch.cli.demo", "Play a workflow of several agents, record it, and show it on a page."),
    "init": ("longwatch.cli.commands.init", "Write a commented longwatch.toml."),
    "run": ("longwatch.cli.commands.run", "Run a command and record what it does."),
    "turn": ("longwatch.cli.commands.turn", "Run a coding agent as a turn of a session."),
    "record": ("longwatch.cli.commands.record", "Record one event."),
    "runs": ("longwatch.cli.commands.runs", "List runs, newest first."),
    "search": ("longwatch.cli.commands.search", "Search the text of all events, the latest first."),
    "show": ("longwatch.cli.commands.show", "Show a run: its agents, tools and times, or one call of it."),
    "diff": (
        "longwatch.cli.commands.diff",
        "Compare two runs: their calls side by side, with times, tokens and what differs.",
    ),
    "watch": ("longwatch.cli.commands.watch", "Follow a run until it ends, or all open runs."),
    "tail": ("longwatch.cli.commands.tail", "Print a run's events, one line each."),
    "verify": ("longwatch.cli.commands.verify", "Check that no event of a run is missing or altered."),
    "export": ("longwatch.cli.commands.export", "Write runs as JSON lines, or one run as a page."),
    "import": ("longwatch.cli.commands.import_", "Read events from JSON lines."),
    "ship": ("longwatch.cli.commands.ship", "Deliver the events that wait in the outbox."),
    "delete": ("longwatch.cli.commands.delete", "Delete runs with all of their events."),
    "prune": ("longwatch.cli.commands.prune", "Delete old events."),
    "prices": ("longwatch.cli.commands.prices", "List the prices of tokens, or import them."),
    "executions": ("longwatch.cli.commands.executions", "Watch work that runs in other systems."),
    "notify": ("longwatch.cli.commands.notify", "Send notifications, and show what was sent."),
    "serve": ("longwatch.cli.commands.serve", "Serve the API and the page."),
    "mcp": (
        "longwatch.cli.commands.mcp",
        "Serve the journal to an agent over MCP, on standard input and output.",
    ),
    "package": ("longwatch.cli.commands.package", "Build the Lambda code and the state machine."),
    "simulate": ("longwatch.cli.commands.simulate", "Simulate polling of executions."),
    "doctor": (
        "longwatch.cli.commands.doctor",
        "Check settings, journal, stores, outbox, notifications and versions.",
    ),
    "recover": ("longwatch.cli.commands.recover", "Salvage a damaged journal into a new file."),
    "completion": ("longwatch.cli.commands.completion", "Print the shell completion script."),
}


class LazyCommands(click.Group):
    """A group that lists its commands by name and imports only the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        from longwatch.cli.render.terminal import clean_logs

        command = import_module(COMMANDS[cmd_name][0]).command
        clean_logs()
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not ctx.resilient_parsing:
            raise click.UsageError(f"No such command {name!r}.{did_you_mean(name, COMMANDS)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        names = [
            CompletionItem(name, help=about)
            for name, (_, about) in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return names + click.Command.shell_complete(self, ctx, incomplete)


def did_you_mean(typed: str, names: Sequence[str] | Mapping[str, object]) -> str:
    """A hint at the most similar name, or an empty text."""
    import difflib

    close = difflib.get_close_matches(typed, list(names), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def _show_version(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"{PROGRAM} {version(PROGRAM)}")
        context.exit()


@click.group(cls=LazyCommands, context_settings={"help_option_names": ["-h", "--help"]})
@common_options
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version.",
)
def cli() -> None:
    """Record long-running work as events, follow it live, and report how it ended."""


def main() -> NoReturn:
    """Run the command line and leave with its exit code."""
    if COMPLETE_VARIABLE in os.environ:
        cli.main(prog_name=PROGRAM, complete_var=COMPLETE_VARIABLE)
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code. Errors become one message on stderr."""
    invocation = Invocation()
    try:
        code = _invoke(arguments, invocation)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        _silence_stdout()
        return ExitCode.PIPE_CLOSED
    except KeyboardInterrupt:
        _end_echoed_line()
        return ExitCode.INTERRUPTED
    except Exception as error:  # noqa: BLE001  users get a message, not a traceback
        from longwatch.cli.render.terminal import remark

        if invocation.debug:
            import traceback

            remark(traceback.format_exc())
        message, code = describe_error(error)
        remark(message)
        return code


def _invoke(arguments: Sequence[str], invocation: Invocation) -> int:
    _replace_unencodable()
    try:
        with cli.make_context(PROGRAM, list(arguments), obj=invocation) as context:
            result: Any = cli.invoke(context)
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.Abort as abort:
        raise KeyboardInterrupt from abort
    return result if isinstance(result, int) else ExitCode.SUCCEEDED


def describe_error(error: Exception) -> tuple[str, ExitCode]:
    """The message for this error, and the exit code."""
    from longwatch.errors import InvalidSettings, JournalUnavailable, LongwatchError, TableProblem

    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return error.format_message(), ExitCode.USAGE
    if isinstance(error, click.UsageError):
        path = error.ctx.command_path if error.ctx else PROGRAM
        # Click lists the choices of a missing option on lines of their own, each after a tab.
        message = " ".join(error.format_message().split())
        return f"{PROGRAM}: {message} See `{path} --help`.", ExitCode.USAGE
    if isinstance(error, click.ClickException):
        return f"{PROGRAM}: {error.format_message()}", ExitCode.USAGE
    if isinstance(error, InvalidSettings) and len(error.mistakes) > 1:
        mistakes = "\n".join(f"  {mistake}" for mistake in error.mistakes)
        return f"{PROGRAM}: {len(error.mistakes)} mistakes in the settings:\n{mistakes}", ExitCode.USAGE
    if isinstance(error, LongwatchError):
        unreachable = isinstance(error, TableProblem) and error.kind == "unreachable"
        lost = isinstance(error, JournalUnavailable) or unreachable
        return f"{PROGRAM}: {error}", ExitCode.UNAVAILABLE if lost else ExitCode.USAGE
    if isinstance(error, OSError):
        return f"{PROGRAM}: {error}", ExitCode.FAILED
    kind = type(error).__name__
    return (
        f"{PROGRAM}: unexpected {kind}: {error}. This is a bug in longwatch; --debug prints the traceback.",
        ExitCode.FAILED,
    )


def _replace_unencodable() -> None:
    """Print a question mark for a character that the terminal's encoding lacks."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")


def _silence_stdout() -> None:
    """Keep Python from flushing at exit into the closed pipe, which would print a traceback."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
    except (OSError, ValueError):
        pass  # stdout has no descriptor, so nothing is left to flush


def _end_echoed_line() -> None:
    """After Ctrl-C: end the line that the terminal echoed `^C` on."""
    if sys.stderr.isatty():
        click.echo(err=True)
