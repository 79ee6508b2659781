"""LONGWATCH_STRICT: what is skipped on a laptop is a failure where everything has to run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PYTEST = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-rA", "--continue-on-collection-errors"]

CASES = """
import pytest

def test_that_passes(): pass

def test_that_skips_itself(): pytest.skip("no engine here")

@pytest.mark.skipif(True, reason="wrong platform")
def test_that_is_marked(): pass

@pytest.fixture
def engine(): pytest.skip("run `make engines`")

def test_whose_fixture_skips(engine): pass

@pytest.mark.xfail(strict=True, reason="a known gap")
def test_that_fails_as_expected(): assert False
"""
MODULE = """
import pytest
pytest.skip("the whole file", allow_module_level=True)
"""


def outcome(folder: Path, *, strict: bool) -> str:
    (folder / "test_cases.py").write_text(CASES)
    (folder / "test_module.py").write_text(MODULE)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "LONGWATCH_STRICT": "1" if strict else ""}
    result = subprocess.run(
        [*PYTEST, str(folder)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    return result.stdout


def test_elsewhere_a_skip_is_a_skip(tmp_path: Path) -> None:
    output = outcome(tmp_path, strict=False)

    assert "1 passed, 4 skipped, 1 xfailed" in output


def test_in_strict_mode_every_skip_is_a_failure_with_its_reason(tmp_path: Path) -> None:
    output = outcome(tmp_path, strict=True)

    assert "skipped" not in output.splitlines()[-1]
    for reason in ("no engine here", "wrong platform", "run `make engines`", "the whole file"):
        assert f"a skip is a failure then. Skipped: {reason}" in output


def test_in_strict_mode_an_expected_failure_is_not_a_failure(tmp_path: Path) -> None:
    output = outcome(tmp_path, strict=True)

    assert "1 xfailed" in output.splitlines()[-1]
    assert "FAILED test_cases.py::test_that_fails_as_expected" not in output
