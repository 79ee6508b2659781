"""What users and other programs see is as the snapshots have it."""

from __future__ import annotations

import difflib

import pytest

from tests.snapshots import surface


@pytest.mark.parametrize("name", surface.PARTS)
def test_a_snapshot_is_up_to_date(name: str) -> None:
    path = surface.SNAPSHOTS / name
    recorded = path.read_text(encoding="utf-8") if path.exists() else ""

    now = surface.current(name)

    changes = difflib.unified_diff(
        recorded.splitlines(), now.splitlines(), f"{name} (recorded)", f"{name} (now)", lineterm="", n=2
    )
    shown = "\n".join(changes)
    assert not shown, f"changed; if that is intended, run `{surface.UPDATE}` and commit the result\n{shown}"


def test_no_file_of_a_removed_snapshot_is_left() -> None:
    files = {path.name for path in surface.SNAPSHOTS.iterdir() if path.suffix in (".txt", ".json")}

    assert files == set(surface.PARTS)
