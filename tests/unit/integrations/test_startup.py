"""The environment of a command that longwatch attaches to."""

from __future__ import annotations

import pytest

from longwatch.integrations import attach
from longwatch.integrations.startup import HOOK_DIRECTORY, with_startup_hook
from longwatch.integrations.startup_hook import sitecustomize as hook_module

HOOK = str(HOOK_DIRECTORY)


@pytest.mark.parametrize(
    ("inherited", "enabled", "expected"),
    [
        (None, True, HOOK),
        (None, False, None),
        ("", True, HOOK),
        ("/a:/b", True, f"{HOOK}:/a:/b"),
        (f"{HOOK}:/a", True, f"{HOOK}:/a"),  # a run inside a run
        (f"{HOOK}:/a", False, "/a"),
        (HOOK, False, None),
    ],
)
def test_the_hook_comes_first_on_the_path_once_or_not_at_all(
    inherited: str | None, enabled: bool, expected: str | None
) -> None:
    environment = {"HOME": "/home/ada"} | ({} if inherited is None else {"PYTHONPATH": inherited})

    changed = with_startup_hook(environment, enabled=enabled)

    assert changed.pop("PYTHONPATH", None) == expected
    assert changed == {"HOME": "/home/ada"}


def test_the_hook_knows_every_module_that_attaches_an_adapter() -> None:
    assert {adapter.trigger for adapter in attach.ADAPTERS} == hook_module.TRIGGERS


def test_the_hook_lies_where_the_environment_points() -> None:
    assert hook_module.__file__ == f"{HOOK}/sitecustomize.py"
