"""A `DocumentStore` in a DynamoDB table, for servers on any number of machines.

A change is one transaction over three items: the head, the update, and the project's version. The head and
the version have to be as they were read, so of two writers one is told to look again. A long update is stored
in parts before that; they count only once the transaction names them.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from urllib.parse import quote, urlencode

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.documents.dynamodb.items import (
    PROJECTS,
    entry_from,
    files_of,
    head_from,
    head_item,
    is_still,
    log_end,
    log_item,
    log_of,
    log_sort,
    part_items,
    parts_of,
    project_from,
    project_item,
    updates_from,
)
from longwatch.documents.dynamodb.table import LOST, DocumentTable, Put
from longwatch.documents.ears import Ears
from longwatch.documents.files import FileEntry, Project
from longwatch.documents.keeping import KeptDocuments
from longwatch.documents.shelf import Head, Stored, placed
from longwatch.errors import JournalBusy, JournalUnavailable, JournalUnusable
from longwatch.storage.change_signal import ChangeSignal
from longwatch.storage.dynamodb.errors import TableAddress
from longwatch.storage.dynamodb.values import AttributeMap

CHECK_SECONDS = 1.0  # how often to ask whether another machine has written
MOST_TRIES = 60  # for the project's version, which every change of the project needs
LONGEST_WAIT_SECONDS = 0.1
LOAD_TRIES = 10  # a compaction came in between each time

NOTHING_THERE = "attribute_not_exists(pk)"


class DynamoDocumentStore(KeptDocuments):
    """Documents in one table. Readers need the rights to GetItem, BatchGetItem and Query, writers also those
    to PutItem and BatchWriteItem.
    """

    def __init__(self, table: DocumentTable, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self.address = table.address
        super().__init__(DynamoShelf(table, clock=clock), clock=clock)


class DynamoShelf:
    """A `Shelf` in a table."""

    def __init__(self, table: DocumentTable, *, clock: Clock) -> None:
        self.url = url_of(table.address)
        self._table = table
        self._clock = clock
        self._ears = Ears(check_seconds=CHECK_SECONDS)

    def create_project(self, project: str, name: str, now_ms: int) -> Project:
        fresh = Project(project=project, name=name, created_at=now_ms, version=0)
        for _ in range(MOST_TRIES):
            known = self.project(project)
            if known is not None:
                return known
            if not self._table.transact(Put(project_item(fresh), NOTHING_THERE)):
                return fresh
            self._nap()
        raise self._busy(project)

    def project(self, project: str) -> Project | None:
        item = self._table.get(PROJECTS, project)
        return project_from(item) if item else None

    def projects(self) -> Sequence[Project]:
        return [project_from(item) for item in self._table.beginning_with(PROJECTS, "")]

    def project_version(self, project: str) -> int:
        found = self.project(project)
        return found.version if found else 0

    def entries(self, project: str, *, prefix: str, since: int) -> Sequence[FileEntry]:
        if not since:
            return [entry_from(item) for item in self._table.beginning_with(files_of(project), prefix)]
        changed = [entry_from(item) for item in self._table.changed_after(files_of(project), since)]
        return sorted((each for each in changed if each.path.startswith(prefix)), key=lambda each: each.path)

    def entries_at(self, project: str, paths: Sequence[str]) -> Sequence[FileEntry]:
        if len(paths) == 1:
            item = self._table.get(files_of(project), paths[0])
            return [entry_from(item)] if item else []
        return [entry_from(item) for item in self._table.get_many(files_of(project), paths)]

    def load(self, project: str, path: str) -> Stored | None:
        for _ in range(LOAD_TRIES):
            item = self._table.get(files_of(project), path)
            if item is None:
                return None
            head = head_from(item)
            log = self._table.between(log_of(project, path), log_sort(head.base), log_end(head.entry.version))
            updates = updates_from(list(log), head)
            if updates is not None:
                return Stored(head, updates)
        raise JournalUnusable(
            f"The updates of {path!r} in project {project!r} are not all in table "
            f"{self._table.address.table!r}. Restore the table to an earlier point in time."
        )

    def append(self, project: str, before: Head | None, after: Head, update: bytes) -> Head | None:
        partition = log_of(project, after.entry.path)
        condition, values = is_still(before) if before else (NOTHING_THERE, None)
        token, written = self._write_parts(partition, after.entry.version, update)
        log = log_item(partition, after.entry.version, update, token, len(written))
        for _ in range(MOST_TRIES):
            counted = self.create_project(project, project, after.entry.last_modified)
            head = placed(after, counted.version + 1)
            failed = self._table.transact(
                Put(head_item(project, head), condition, values),
                Put(log),
                Put(
                    project_item(replace(counted, version=counted.version + 1)),
                    "version = :version",
                    {":version": {"N": str(counted.version)}},
                ),
            )
            if not failed:
                self._ears.ring()
                return head
            if failed[0] == LOST:
                self._delete_quietly(written)
                return None
            self._nap()
        self._delete_quietly(written)
        raise self._busy(project)

    def replace_log(self, project: str, before: Head, after: Head, state: bytes) -> bool:
        partition = log_of(project, before.entry.path)
        token, written = self._write_parts(partition, after.base, state)
        condition, values = is_still(before)
        failed = self._table.transact(
            Put(head_item(project, after), condition, values),
            Put(log_item(partition, after.base, state, token, len(written))),
        )
        if failed:
            self._delete_quietly(written)
            return False
        self._forget_log(partition, after.base, kept=written)
        return True

    def _forget_log(self, partition: str, base: int, *, kept: Sequence[AttributeMap]) -> None:
        """Remove what came before the base, also what a writer left that lost its race or ended.

        One that is still writing parts for a version up to the base has lost already: that version is taken.
        """
        keeping = {log_sort(base), *(item["sk"]["S"] for item in kept)}
        old = [
            item
            for item in self._table.between(partition, log_sort(0), log_end(base), keys_only=True)
            if item["sk"]["S"] not in keeping
        ]
        self._delete_quietly(old)

    def _write_parts(self, partition: str, version: int, data: bytes) -> tuple[str, list[AttributeMap]]:
        token = secrets.token_hex(8)
        items = part_items(partition, version, token, parts_of(data))
        for item in items:
            self._table.put(item)
        return token, [{"pk": item["pk"], "sk": item["sk"]} for item in items]

    def _delete_quietly(self, keys: Sequence[AttributeMap]) -> None:
        try:
            self._table.delete(keys)
        except JournalUnavailable:
            pass  # nothing refers to them, and the next compaction removes them

    def listen(self, heard: Callable[[], None]) -> ChangeSignal:
        """Hears this process at once; whether others have written is to be asked now and then."""
        return self._ears.add(heard)

    def close(self) -> None:
        self._table.close()

    def _nap(self) -> None:
        self._clock.sleep(random.uniform(0, LONGEST_WAIT_SECONDS))

    def _busy(self, project: str) -> JournalBusy:
        return JournalBusy(f"Others changed project {project!r} each time in {MOST_TRIES} tries; try again.")


def url_of(at: TableAddress) -> str:
    options = {"region": at.region, "endpoint": at.endpoint}
    given = {name: value for name, value in options.items() if value}
    return f"dynamodb://{quote(at.table, safe='')}" + (f"?{urlencode(given)}" if given else "")
