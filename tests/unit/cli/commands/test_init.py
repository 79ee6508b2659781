"""`longwatch init` writes a settings file with every default."""

from __future__ import annotations

import tomllib
from pathlib import Path

from longwatch.cli.commands.init import settings_file
from longwatch.settings import SETTINGS, load_settings


def test_the_written_settings_file_changes_nothing(tmp_path: Path) -> None:
    before = load_settings(environment={})
    (tmp_path / "longwatch.toml").write_text(settings_file(), encoding="utf-8")

    after = load_settings(environment={})

    assert [getattr(after, each.attribute) for each in SETTINGS] == [
        getattr(before, each.attribute) for each in SETTINGS
    ]


def test_every_line_of_the_settings_file_can_be_uncommented() -> None:
    lines = settings_file().splitlines()
    uncommented = "\n".join(line.removeprefix("# ") if " = " in line else line for line in lines)

    written = tomllib.loads(uncommented)

    for setting in SETTINGS:
        value = written
        for name in setting.key.split("."):
            value = value[name]
        setting.read(value)
