"""Options and arguments that several commands share."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from longwatch.clock import SYSTEM_CLOCK, Clock

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from longwatch.settings import Settings


@dataclass(slots=True)
class Invocation:
    """Options that every command shares. They may stand before or after the command's name."""

    journal: str | None = None
    debug: bool = False
    clock: Clock = field(default=SYSTEM_CLOCK)

    def settings(self) -> Settings:
        """The effective settings, with the journal of --journal if it is given."""
        from longwatch.settings import absolute_journal, load_settings

        settings = load_settings()
        if self.journal is None:
            return settings
        origins = {**settings.origins, "journal": "--journal"}
        return replace(settings, journal=absolute_journal(self.journal, Path.cwd()), origins=origins)


COMPLETED_RUNS = 20

F = TypeVar("F", bound=Callable[..., Any])

JOURNAL_HELP = "Journal to use, such as sqlite:///file.db or dynamodb://TABLE (also LONGWATCH_JOURNAL)."
DEBUG_HELP = "Print the traceback of an error."

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
        help="Output format.",
    )


class QueryCommand(click.Command):
    """A command whose query may have a term that begins with a minus, such as `-status:failed`."""

    def parse_args(self, context: click.Context, arguments: list[str]) -> list[str]:
        """Put such terms after `--`: Click takes what begins with a minus for options."""
        given = arguments[: arguments.index("--")] if "--" in arguments else arguments
        negated = [each for each in given if re.match(r"-\w{2,}:", each)]
        others = [each for each in given if each not in negated]
        last = [*negated, *arguments[len(given) + 1 :]]
        return super().parse_args(context, [*others, "--", *last] if last else others)


def execution_argument(command: F) -> F:
    """`EXECUTION`: `plan/execution`, an id, the beginning of either, or `latest`."""
    return click.argument("execution", metavar="EXECUTION", shell_complete=complete_executions)(command)


def run_argument(command: F) -> F:
    """`RUN`: an id, the beginning of one, or `latest`."""
    return click.argument("run", metavar="RUN", shell_complete=complete_runs)(command)


def complete_runs(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The newest runs of a SQLite journal."""
    return _complete(context, incomplete)


def complete_executions(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The newest executions that have a run in a SQLite journal."""
    return _complete(context, incomplete, kind="execution")


def _complete(context: click.Context, incomplete: str, *, kind: str | None = None) -> list[CompletionItem]:
    """Complete run ids, and execution ids for runs of executions. An error yields no completions."""
    from click.shell_completion import CompletionItem

    try:
        from longwatch.cli.resolve import newest_runs_quickly
        from longwatch.journal.run_lookup import execution_id_of

        invocation = context.find_object(Invocation) or Invocation()
        runs = newest_runs_quickly(invocation, COMPLETED_RUNS, kind=kind)
    except Exception:  # noqa: BLE001
        return []
    return [
        CompletionItem(name, help=f"{run.status} {run.name or run.kind}")
        for run in runs
        for name in [run.run_id if run.run_id.startswith(incomplete) else execution_id_of(run)]
        if name and name.startswith(incomplete)
    ]


def _set_journal(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        context.ensure_object(Invocation).journal = value


def _set_debug(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        context.ensure_object(Invocation).debug = True
