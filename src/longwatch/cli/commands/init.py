"""`longwatch init`: a settings file with every key in it, commented out."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import wrap

import click

from longwatch.cli.options import common_options
from longwatch.cli.render.terminal import remark, write_data
from longwatch.errors import InvalidInput
from longwatch.settings import FILE_NAME, SETTINGS, Setting

LINE_COLUMNS = 100

HEADING = """\
# Settings of longwatch. Every setting is optional; the commented lines show the defaults.
# Environment variables override this file. `longwatch doctor` prints the effective values and their origins.
"""


@click.command()
@click.argument("path", type=click.Path(path_type=Path), default=Path(FILE_NAME))
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@common_options
def command(path: Path, force: bool) -> None:
    """Write a commented longwatch.toml.

    PATH is the file to write, or the folder to write it in.
    """
    file = path / FILE_NAME if path.is_dir() else path
    try:
        with file.open("w" if force else "x", encoding="utf-8") as target:
            target.write(settings_file())
    except FileExistsError:
        raise InvalidInput(f"{file} already exists. Overwrite it with --force.") from None
    except OSError as error:
        raise InvalidInput(f"{file} cannot be written: {error.strerror}. Choose another folder.") from error
    write_data([str(file)])
    remark("Uncomment the settings to change, then check them with `longwatch doctor`.")


def settings_file() -> str:
    """The text of a settings file in which every setting is commented out."""
    lines = [HEADING]
    section = ""
    for setting in SETTINGS:
        table, _, name = setting.key.rpartition(".")
        if table != section:
            section = table
            lines.append(f"[{table}]\n")
        lines += [*_comments(setting), f"# {name} = {toml_value(_example(setting))}\n"]
    return "\n".join(lines)


def _comments(setting: Setting) -> list[str]:
    text = f"{setting.about}. ({setting.variable})"
    return wrap(text, LINE_COLUMNS, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)


def _example(setting: Setting) -> object:
    return setting.example if setting.default is None else setting.default


def toml_value(value: object) -> str:
    """The value as TOML writes it. A JSON string, number, boolean or list of strings is TOML too."""
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)
