"""Options that every command accepts."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from longwatch.cli.main import COMMANDS, cli


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_takes_the_common_options(name: str) -> None:
    given = cli.get_command(click.Context(cli), name)
    assert given is not None
    commands = list(given.commands.values()) if isinstance(given, click.Group) else [given]

    for each in commands:
        assert {"--journal", "--debug"} <= {name for option in each.params for name in option.opts}, each.name


NO_DATA = {
    "completion",  # a script
    "demo",
    "export",  # JSON lines already
    "import",
    "init",
    "mcp",  # speaks a protocol
    "notify retry",
    "notify run",
    "prices import",
    "run",  # the output is that of the command
    "serve",
}
STREAMS = {"turn"}  # of events, which are no document


def test_every_command_that_prints_data_prints_json_and_json_lines() -> None:
    lacking = [
        name
        for name, command in every_command(cli, click.Context(cli))
        if name not in NO_DATA
        and not formats(command) >= ({"jsonl"} if name in STREAMS else {"json", "jsonl"})
    ]

    assert lacking == []


def every_command(
    group: click.Group, context: click.Context, above: str = ""
) -> Iterator[tuple[str, click.Command]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from every_command(command, context, f"{name} ")
        else:
            yield f"{above}{name}", command


def formats(command: click.Command) -> set[str]:
    return {
        choice
        for parameter in command.params
        if "-o" in parameter.opts and isinstance(parameter.type, click.Choice)
        for choice in parameter.type.choices
    }
