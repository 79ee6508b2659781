"""Options that every command accepts."""

from __future__ import annotations

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
