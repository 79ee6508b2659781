"""Where a server's tokens come from: the environment, else a file of the user's own, made on first use."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from longwatch.errors import InvalidInput
from longwatch.server.access import Tokens
from longwatch.settings import make_private_directory

WRITE_VARIABLE = "LONGWATCH_TOKEN"
READ_VARIABLE = "LONGWATCH_READ_TOKEN"
FILE_NAME = "server-tokens.json"


def find_tokens(file: Path, environment: Mapping[str, str]) -> tuple[Tokens, str]:
    """The tokens, and where they are kept."""
    write = environment.get(WRITE_VARIABLE)
    if write:
        return Tokens(write, environment.get(READ_VARIABLE) or None), WRITE_VARIABLE
    try:
        return _made(file), str(file)
    except FileExistsError:
        return _read(file), str(file)
    except OSError as error:
        raise InvalidInput(
            f"{file} cannot be written: {error.strerror}. Choose another with --token-file, or set "
            f"{WRITE_VARIABLE}."
        ) from error


def _made(file: Path) -> Tokens:
    """New tokens in a new file that only this user can read."""
    make_private_directory(file.parent)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    tokens = Tokens.new()
    with os.fdopen(descriptor, "w", encoding="utf-8") as target:
        json.dump({"write": tokens.write, "read": tokens.read}, target, indent=2)
        target.write("\n")
    return tokens


def _read(file: Path) -> Tokens:
    try:
        if os.name == "posix" and file.stat().st_mode & 0o077:
            raise InvalidInput(
                f"{file} can be read by others. Run `chmod 600 {file}`, or delete it to get new tokens."
            )
        found = json.loads(file.read_text(encoding="utf-8"))
        return Tokens(found["write"], found.get("read"))
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidInput(f"{file} does not hold tokens. Delete it to get new ones.") from error
