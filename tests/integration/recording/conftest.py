"""A workspace for processes that record."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.recording.processes import Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)
