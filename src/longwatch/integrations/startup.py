"""The start-up hook: how `longwatch run` attaches to a Python program that does not import longwatch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

PATH_VARIABLE = "PYTHONPATH"
HOOK_DIRECTORY = Path(__file__).with_name("startup_hook")


def with_startup_hook(environment: Mapping[str, str], *, enabled: bool) -> dict[str, str]:
    """The environment with the hook's directory first on PYTHONPATH, or without it."""
    changed = dict(environment)
    hook = str(HOOK_DIRECTORY)
    inherited = changed.pop(PATH_VARIABLE, "")
    entries = [entry for entry in inherited.split(os.pathsep) if entry != hook] if inherited else []
    if enabled:
        entries.insert(0, hook)
    if entries:
        changed[PATH_VARIABLE] = os.pathsep.join(entries)
    return changed
