"""A place for processes that record."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.recording.processes import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)
