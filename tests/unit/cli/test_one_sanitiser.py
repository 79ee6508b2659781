"""Every command prints through `longwatch.cli.render.terminal`, which is where text is cleaned."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import longwatch.cli

FOLDER = Path(longwatch.cli.__file__).parent
# The sanitiser's own module; fixed text of ours; the child process of a demo.
ALLOWED = {"render/terminal.py", "main.py", "commands/completion.py", "demo/killed.py", "progress.py"}
PRINTING = {
    "click.echo",
    "click.secho",
    "print",
    "sys.stdout.write",
    "sys.stderr.write",
    "traceback.print_exc",
}


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.py")), ids=lambda path: str(path.relative_to(FOLDER)))
def test_no_command_prints_past_the_sanitiser(path: Path) -> None:
    calls = {
        ast.unparse(node.func) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)
    }

    assert str(path.relative_to(FOLDER)) in ALLOWED or not calls & PRINTING
