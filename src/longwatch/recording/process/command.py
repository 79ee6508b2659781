"""A command line as a run shows it: under a telling name, and without the secrets in its arguments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath

from longwatch.recording.redaction import REDACTED, SecretNames, redact_text

_INTERPRETER = re.compile(r"(?:python|pypy|ruby|perl|php)[\d.]*|node|deno|bun|bash|sh|zsh|dash")


def command_name(command: Sequence[str]) -> str:
    """The program's name, or that of the script it interprets: `flow.py` says more than `python`."""
    program = PurePath(command[0]).name or command[0]
    arguments = iter(command[1:])
    if not _INTERPRETER.fullmatch(program):
        return program
    for argument in arguments:
        if argument == "-m":
            return next(arguments, program)
        if not argument.startswith("-"):
            return PurePath(argument).name or program
        if argument != "-u":
            break  # what follows may be the option's own value, or code
    return program


def redacted_command(command: Sequence[str], secrets: SecretNames) -> list[str]:
    """The command without values that are secrets by their option's name or by their shape."""
    shown: list[str] = []
    follows_secret_option = False
    for argument in command:
        if follows_secret_option and not argument.startswith("-"):
            shown.append(REDACTED)
            follows_secret_option = False
            continue
        shown.append(redact_text(argument, secrets))
        follows_secret_option = argument.startswith("-") and argument.lstrip("-") in secrets
    return shown
