"""The start-up hook in real interpreters: what a program sees of it, and what it does to others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from longwatch.integrations.startup import with_startup_hook
from tests.patience import PATIENCE_SECONDS

SHOW = (
    "import json, os, sys\n"
    "site = getattr(sys.modules.get('sitecustomize'), 'name', None)\n"
    "shown = {'path': sys.path, 'environment': dict(os.environ), 'site': site}\n"
    "print(json.dumps({**shown, 'loaded': 'longwatch' in sys.modules}))\n"
)


def environment(**more: str) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**clean, **more}


def python(
    *arguments: str, variables: dict[str, str], hook: bool = True, executable: str = sys.executable
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [executable, *arguments],
        env=with_startup_hook(variables, enabled=hook),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )


def seen(*arguments: str, variables: dict[str, str], hook: bool) -> dict[str, object]:
    result = python(*arguments, "-c", SHOW, variables=variables, hook=hook)
    assert (result.returncode, result.stderr) == (0, "")
    found = json.loads(result.stdout)
    assert isinstance(found, dict)
    return found


@pytest.fixture
def other_site(tmp_path: Path) -> Path:
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text("name = 'other'\n")
    return folder


def test_a_program_sees_its_own_path_and_environment() -> None:
    variables = environment()

    assert seen(variables=variables, hook=True) == seen(variables=variables, hook=False)


def test_an_existing_sitecustomize_runs_and_the_path_is_the_programs_own(other_site: Path) -> None:
    variables = environment(PYTHONPATH=f"{other_site}{os.pathsep}/nowhere")

    with_hook = seen(variables=variables, hook=True)

    assert with_hook == seen(variables=variables, hook=False)
    assert with_hook["site"] == "other"


def test_a_sitecustomize_that_fails_is_reported_as_python_does(other_site: Path) -> None:
    (other_site / "sitecustomize.py").write_text("1 / 0\n")
    variables = environment(PYTHONPATH=str(other_site))

    with_hook, without = (
        python("-c", "print('runs')", variables=variables, hook=each) for each in (True, False)
    )

    assert (with_hook.stdout, with_hook.stderr) == (without.stdout, without.stderr)
    assert with_hook.stdout == "runs\n"


@pytest.mark.parametrize("option", ["-I", "-E", "-S", "-P", "-B"])
def test_the_options_of_the_interpreter_mean_what_they_do(option: str, other_site: Path) -> None:
    variables = environment(PYTHONPATH=str(other_site))
    with_hook, without = (seen(option, variables=variables, hook=each) for each in (True, False))
    if option in ("-I", "-E", "-S"):  # they ignore the variable, or sitecustomize: the hook cannot hide it
        with_hook.pop("environment")
        without.pop("environment")
        assert isinstance(with_hook["path"], list)
        with_hook["path"] = [each for each in with_hook["path"] if "startup_hook" not in each]

    assert with_hook == without


def test_python_workers_inherit_the_hook(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import subprocess, sys\n"
        "finders = [type(each).__name__ for each in sys.meta_path]\n"
        "print('StartUpFinder' in finders, flush=True)\n"
        "if len(sys.argv) == 1: subprocess.run([sys.executable, __file__, 'worker'], check=True)\n"
    )

    assert python(str(program), variables=environment()).stdout == "True\nTrue\n"


def test_an_interpreter_without_longwatch_runs_unchanged(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", symlinks=True)
    (tmp_path / "openai.py").write_text("print('imported')\n")
    (tmp_path / "program.py").write_text("import openai, sys\nprint('longwatch' in sys.modules)\n")

    result = python(
        str(tmp_path / "program.py"),
        variables=environment(),
        executable=str(tmp_path / "bare" / "bin" / "python"),
    )

    assert (result.returncode, result.stdout, result.stderr) == (0, "imported\nFalse\n", "")
