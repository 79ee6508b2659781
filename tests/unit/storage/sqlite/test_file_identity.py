"""What the files at a journal's path reveal about the ones that are open."""

from __future__ import annotations

import pytest

from longwatch.storage.sqlite.file_identity import Change, FileIdentity, Files

MISSING = FileIdentity()
MAIN, LOG, INDEX = FileIdentity((1, 10), 4096), FileIdentity((1, 11), 8192), FileIdentity((1, 12), 32768)
OPENED = Files(MAIN, LOG, INDEX)


@pytest.mark.parametrize(
    ("now", "change", "must_checkpoint"),
    [
        (OPENED, None, False),
        (Files(FileIdentity((1, 10), 99), FileIdentity((1, 11), 0), INDEX), None, False),  # only sizes differ
        (Files(MISSING, LOG, INDEX), Change.DELETED, True),
        (Files(MISSING, MISSING, MISSING), Change.DELETED, True),
        (Files(FileIdentity((1, 77), 4096), LOG, INDEX), Change.REPLACED, True),
        (Files(FileIdentity((2, 10), 4096), LOG, INDEX), Change.REPLACED, True),  # another device
        (Files(FileIdentity((1, 77), 0), LOG, INDEX), Change.REPLACED, True),
        (Files(FileIdentity((1, 10), 0), LOG, INDEX), Change.EMPTIED, False),
        (Files(MAIN, MISSING, INDEX), Change.LOG_REPLACED, True),
        (Files(MAIN, FileIdentity((1, 78), 0), INDEX), Change.LOG_REPLACED, True),
        (
            Files(MAIN, FileIdentity((1, 78), 4096), INDEX),
            Change.LOG_REPLACED,
            False,
        ),  # commits of another process
        (Files(MAIN, LOG, MISSING), Change.LOG_REPLACED, False),  # the path still leads to the open log
    ],
)
def test_files_are_compared_by_device_and_inode(
    now: Files, change: Change | None, must_checkpoint: bool
) -> None:
    assert OPENED.change(now) is change
    assert OPENED.must_checkpoint(now) is must_checkpoint


def test_a_database_without_a_log_is_compared_by_its_own_file() -> None:
    opened = Files(MAIN, MISSING, MISSING)

    assert opened.change(Files(MAIN, MISSING, MISSING)) is None
    assert opened.change(Files(MISSING, MISSING, MISSING)) is Change.DELETED
