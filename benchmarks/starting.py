"""How long it takes to import longwatch, to print its help and to run the start-up hook.

In fresh interpreters. Everything is there as bytecode, as pip leaves it: a checkout may have none, and with
`PYTHONDONTWRITEBYTECODE` set never gets any, so that the compiler would be measured.
"""

from __future__ import annotations

import compileall
import functools
import os
import subprocess
import sys
import time
from pathlib import Path

import click
from benchmarks.harness import Goal, Result, interleaved

import longwatch
from longwatch.integrations.startup import PATH_VARIABLE, with_startup_hook

IMPORT = "from longwatch import agent, record, run, tool, workflow"
CLICK_HELP = """
import click
@click.group()
def cli(): 'a group'
@cli.command()
def one(): 'a command'
cli(['--help'])
"""


def measure(*, quick: bool) -> list[Result]:
    """The table of starts."""
    for each in (Path(longwatch.__file__).parent, Path(click.__file__).parent):
        if not compileall.compile_dir(each, quiet=2):
            raise RuntimeError(f"could not write the bytecode of {each}")
    modules = stdlib_modules()
    cases = {
        "python -c pass": ["-c", "pass"],
        f"the {len(modules)} standard library modules it needs": ["-c", f"import {', '.join(modules)}"],
        "from longwatch import run, tool, agent, workflow, record": ["-c", IMPORT],
        "bare click --help": ["-c", CLICK_HELP],
        "longwatch --help": ["-m", "longwatch", "--help"],
        "python -c pass, with the start-up hook of longwatch run": ["-c", "pass"],
    }
    plain = {name: value for name, value in os.environ.items() if name != PATH_VARIABLE}
    environments = {name: with_startup_hook(plain, enabled="hook" in name) for name in cases}
    cost = interleaved(
        {name: functools.partial(_milliseconds, cases[name], environments[name]) for name in cases},
        rounds=7 if quick else 21,
    )
    floor, stdlib, ours, bare, help_, hooked = cost.values()
    return [
        Result(
            "Starting",
            ("case", "ms", "ms above the interpreter's own"),
            [(name, value, value - floor) for name, value in cost.items()],
            [
                Goal("importing longwatch / its standard library modules", ours / stdlib, 1.3),
                Goal("longwatch --help / bare click --help", help_ / bare, 2),
                Goal("ms that the start-up hook adds to python -c pass", hooked - floor, 50),
                Goal("python -c pass with the start-up hook / without", hooked / floor, 2),
            ],
        )
    ]


def stdlib_modules() -> list[str]:
    """The standard library modules that longwatch imports by name, found by reading its sources."""
    code = (
        f"import ast, pathlib, sys\n{IMPORT}\n"
        "names = set()\n"
        "for name, module in list(sys.modules.items()):\n"
        "    if name.split('.')[0] != 'longwatch' or not getattr(module, '__file__', None): continue\n"
        "    for node in ast.parse(pathlib.Path(module.__file__).read_text()).body:\n"
        "        if isinstance(node, ast.Import): names |= {each.name for each in node.names}\n"
        "        if isinstance(node, ast.ImportFrom) and node.level == 0: names.add(node.module)\n"
        "print(*sorted(each for each in names if each.split('.')[0] in sys.stdlib_module_names))\n"
    )
    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    return [name for name in output.split() if name != "__future__"]


def _milliseconds(arguments: list[str], environment: dict[str, str]) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, env=environment)
    return (time.perf_counter() - started) * 1000
