"""Options and arguments that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from longwatch.cli.invocation import Invocation

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMPLETED_RUNS = 20

F = TypeVar("F", bound=Callable[..., Any])

JOURNAL_HELP = "Journal to use, such as sqlite:///file.db or dynamodb://TABLE (also LONGWATCH_JOURNAL)."
DEBUG_HELP = "Show where in the code an error came from."

pass_invocation = click.make_pass_decorator(Invocation, ensure=True)


def common_options(command: F) -> F:
    """`--journal` and `--debug`, on the group and on every command."""
    command = click.option("--debug", is_flag=True, expose_value=False, callback=_set_debug, help=DEBUG_HELP)(
        command
    )
    return click.option(
        "--journal", metavar="URL", expose_value=False, callback=_set_journal, help=JOURNAL_HELP
    )(command)


def output_option(*forms: str) -> Callable[[F], F]:
    """`-o`: text for people, json or jsonl for programs."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(forms or ("text", "json", "jsonl")),
        default="text",
        show_default=True,
        help="How to print the data.",
    )


def run_argument(command: F) -> F:
    """`RUN`: an id, the beginning of one, or `latest`."""
    return click.argument("run", metavar="RUN", shell_complete=complete_runs)(command)


def complete_runs(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The newest runs of a SQLite journal. Nothing may go wrong here: the user is typing."""
    from click.shell_completion import CompletionItem

    try:
        from longwatch.cli.journals import newest_runs_quickly

        invocation = context.find_object(Invocation) or Invocation()
        runs = newest_runs_quickly(invocation, COMPLETED_RUNS)
    except Exception:  # noqa: BLE001  a failed completion completes nothing
        return []
    return [
        CompletionItem(run.run_id, help=f"{run.status} {run.name or run.kind}")
        for run in runs
        if run.run_id.startswith(incomplete)
    ]


def _set_journal(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        context.ensure_object(Invocation).journal = value


def _set_debug(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        context.ensure_object(Invocation).debug = True
