"""A journal for each test. Nothing here needs more than longwatch, pytest and the SDK."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.sdks.recorded import Recorded, recording


@pytest.fixture(autouse=True)
def _nothing_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("LONGWATCH_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LONGWATCH_DATA", str(tmp_path / "data"))


@pytest.fixture
def recorded(tmp_path: Path) -> Iterator[Recorded]:
    with recording(tmp_path) as recorded:
        yield recorded
