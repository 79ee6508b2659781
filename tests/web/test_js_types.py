"""The types of the API's responses in JavaScript are those of the OpenAPI schema."""

from __future__ import annotations

import subprocess
import sys

from tests.docs.pages import ROOT

SECONDS = 120


def test_the_types_are_generated_from_the_schema() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "js-types", "--check"],
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )

    assert done.returncode == 0, done.stderr
