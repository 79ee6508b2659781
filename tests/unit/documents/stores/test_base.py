"""Heads of documents: the next version, and when a log is worth compacting."""

from __future__ import annotations

from dataclasses import replace

import pytest

from longwatch.documents.files import FileKind
from longwatch.documents.stores.base import (
    BYTES_PER_FURTHER_UPDATE,
    MAX_LOG_BYTES,
    MAX_UPDATES,
    Head,
    next_head,
    set_project_version,
)


def after(before: Head | None, *, deleted: bool = False, now_ms: int = 1000, update_bytes: int = 10) -> Head:
    head = next_head(
        before,
        path="a",
        kind=FileKind.TEXT,
        content=b"",
        deleted=deleted,
        waits=False,
        update_bytes=update_bytes,
        now_ms=now_ms,
    )
    return set_project_version(head, before.entry.project_version + 1 if before else 1)


def test_a_clock_that_goes_back_makes_no_file_older() -> None:
    first = after(None, now_ms=5000)

    second = after(first, now_ms=4000)

    assert (second.entry.created_at, second.entry.last_modified) == (5000, 5000)


def test_a_file_that_comes_back_has_a_new_beginning() -> None:
    gone = after(after(None), deleted=True)

    back = after(gone, now_ms=9000)

    assert (gone.entry.created_version, back.entry.created_version) == (1, 3)
    assert (back.entry.version, back.entry.created_at) == (3, 9000)


@pytest.mark.parametrize(
    ("updates", "log_bytes", "base_bytes", "due"),
    [
        (MAX_UPDATES - 1, 0, 0, False),
        (MAX_UPDATES, 0, 0, True),
        (MAX_UPDATES, 0, BYTES_PER_FURTHER_UPDATE, False),
        (MAX_UPDATES + 1, 0, BYTES_PER_FURTHER_UPDATE, True),
        (1, MAX_LOG_BYTES - 1, 0, False),
        (1, MAX_LOG_BYTES, 0, True),
        (1, MAX_LOG_BYTES, MAX_LOG_BYTES * 2, False),
        (1, MAX_LOG_BYTES * 2, MAX_LOG_BYTES * 2, True),
    ],
)
def test_a_large_document_is_compacted_less_often(
    updates: int, log_bytes: int, base_bytes: int, due: bool
) -> None:
    head = after(None)
    head = replace(head, entry=replace(head.entry, version=1 + updates))

    assert replace(head, log_bytes=log_bytes, base_bytes=base_bytes).is_due is due
