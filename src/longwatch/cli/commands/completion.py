"""`longwatch completion SHELL`: prints a script that completes commands, options and run ids."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from longwatch.cli.main import COMPLETE_VARIABLE, PROGRAM, cli
from longwatch.cli.options import common_options
from longwatch.cli.render.terminal import remark

HINTS = {
    "bash": 'Add to ~/.bashrc: eval "$(longwatch completion bash)"',
    "zsh": 'Add to ~/.zshrc, after compinit: eval "$(longwatch completion zsh)"',
    "fish": "Save it: longwatch completion fish > ~/.config/fish/completions/longwatch.fish",
}


@click.command()
@click.argument("shell", type=click.Choice(list(HINTS)))
@common_options
def command(shell: str) -> None:
    """Print the shell completion script."""
    completion = get_completion_class(shell)
    assert completion is not None
    click.echo(completion(cli, {}, PROGRAM, COMPLETE_VARIABLE).source())
    remark(HINTS[shell])
