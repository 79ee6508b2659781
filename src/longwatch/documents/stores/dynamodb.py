"""Documents in a DynamoDB table. Only this module reads and writes the attributes of its items.

| partition                | sort key                | holds                                            |
|--------------------------|-------------------------|--------------------------------------------------|
| projects                 | PROJECT                 | a project: its name and its version              |
| files#PROJECT            | PATH                    | the head of a document                           |
| log#PROJECT#PATH         | VERSION                 | an update, or the token and number of its parts  |
| log#PROJECT#PATH         | VERSION#TOKEN#NUMBER    | a part of an update that is too long for an item |

A change is one transaction over three items: the head, the update, and the project's version. It requires the
head and the version to be unchanged since they were read, so one of two writers has to read again. A long
update is stored in parts first; they count only once the transaction names them.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Sequence
from dataclasses import replace
from urllib.parse import quote, urlencode

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.documents.files import FileEntry, FileKind, ProjectFiles
from longwatch.documents.store import DocumentStore
from longwatch.documents.stores.base import Head, StoredDocument, set_project_version
from longwatch.documents.stores.dynamodb_table import LOST, DocumentTable, Put, key_of
from longwatch.errors import JournalBusy, JournalUnavailable, JournalUnusable
from longwatch.storage.change_signal import ChangeSignal, LocalSignal, OnChange
from longwatch.storage.dynamodb.values import AttributeMap, AttributeValue
from longwatch.storage.urls import TableAddress

PART_BYTES = 350 * 1024  # of an item's 400 KB, which include names and keys
PROJECTS = "projects"

_NUMBERS = ("version", "project_version", "created_version", "last_modified", "created_at", "size")
# "base" is a reserved word of DynamoDB.
_LOG_NUMBERS = {"base": "log_base", "base_bytes": "base_bytes", "log_bytes": "log_bytes"}


def files_of(project: str) -> str:
    return f"files#{project}"


def log_of(project: str, path: str) -> str:
    return f"log#{project}#{path}"


def log_sort(version: int) -> str:
    return f"{version:016d}"


def log_end(version: int) -> str:
    """A sort key after all parts of this version."""
    return f"{log_sort(version)}#~"


def project_item(project: ProjectFiles) -> AttributeMap:
    return {
        **key_of(PROJECTS, project.project),
        "name": {"S": project.name},
        "created_at": _number(project.created_at),
        "version": _number(project.version),
    }


def project_from(item: AttributeMap) -> ProjectFiles:
    return ProjectFiles(
        project=item["sk"]["S"],
        name=item["name"]["S"],
        created_at=int(item["created_at"]["N"]),
        version=int(item["version"]["N"]),
    )


def head_item(project: str, head: Head) -> AttributeMap:
    entry = head.entry
    return {
        **key_of(files_of(project), entry.path),
        **{name: _number(getattr(entry, name)) for name in _NUMBERS},
        **{stored: _number(getattr(head, name)) for name, stored in _LOG_NUMBERS.items()},
        "sha256": {"S": entry.sha256},
        "kind": {"S": entry.kind.value},
        "deleted": {"BOOL": entry.deleted},
        "waits": {"BOOL": head.waits},
    }


def entry_from(item: AttributeMap) -> FileEntry:
    return FileEntry(
        path=item["sk"]["S"],
        sha256=item["sha256"]["S"],
        kind=FileKind(item["kind"]["S"]),
        deleted=item["deleted"]["BOOL"],
        **{name: int(item[name]["N"]) for name in _NUMBERS},
    )


def head_from(item: AttributeMap) -> Head:
    numbers = {name: int(item[stored]["N"]) for name, stored in _LOG_NUMBERS.items()}
    return Head(entry=entry_from(item), waits=item["waits"]["BOOL"], **numbers)


def is_unchanged(before: Head) -> tuple[str, AttributeMap]:
    """The condition that the head has not changed, with its values."""
    values = {":version": _number(before.entry.version), ":base": _number(before.base)}
    return "version = :version AND log_base = :base", values


def split_update(data: bytes) -> list[bytes]:
    """The parts of an update that is too long for one item; none for a shorter one."""
    if len(data) <= PART_BYTES:
        return []
    return [data[begin : begin + PART_BYTES] for begin in range(0, len(data), PART_BYTES)]


def part_items(partition: str, version: int, token: str, parts: Sequence[bytes]) -> list[AttributeMap]:
    return [
        {**key_of(partition, f"{log_sort(version)}#{token}#{number:05d}"), "data": {"B": part}}
        for number, part in enumerate(parts)
    ]


def log_item(partition: str, version: int, data: bytes, token: str, parts: int) -> AttributeMap:
    key = key_of(partition, log_sort(version))
    if not parts:
        return {**key, "data": {"B": data}}
    return {**key, "token": {"S": token}, "parts": _number(parts)}


def updates_from(items: Sequence[AttributeMap], head: Head) -> list[bytes] | None:
    """The updates from the base to the head's version; None if one of them is incomplete.

    Items of a writer that lost its race or exited may be between them.
    """
    by_sort = {item["sk"]["S"]: item for item in items}
    found = []
    for version in range(head.base, head.entry.version + 1):
        first = by_sort.get(log_sort(version))
        if first is None:
            return None
        if "data" in first:
            found.append(bytes(first["data"]["B"]))
            continue
        names = (
            f"{log_sort(version)}#{first['token']['S']}#{each:05d}"
            for each in range(int(first["parts"]["N"]))
        )
        parts = [by_sort.get(name) for name in names]
        if None in parts:
            return None
        found.append(b"".join(bytes(part["data"]["B"]) for part in parts if part is not None))
    return found


def _number(value: int) -> AttributeValue:
    return {"N": str(value)}


CHECK_SECONDS = 1.0  # between checks for writes of other machines
MAX_ATTEMPTS = 60  # for the project's version, which every change of the project needs
LONGEST_WAIT_SECONDS = 0.1
LOAD_ATTEMPTS = 10  # each one is interrupted by a compaction

DOES_NOT_EXIST = "attribute_not_exists(pk)"


class DynamoDocumentStore(DocumentStore):
    """Documents in one table.

    Readers need the permissions GetItem, BatchGetItem and Query, writers also PutItem and BatchWriteItem.
    """

    def __init__(self, table: DocumentTable, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self.address = table.address
        super().__init__(DynamoDocuments(table, clock=clock), clock=clock)


class DynamoDocuments:
    """A `DocumentBackend` in a table."""

    def __init__(self, table: DocumentTable, *, clock: Clock) -> None:
        self.url = url_of(table.address)
        self._table = table
        self._clock = clock
        self._signal = LocalSignal(check_seconds=CHECK_SECONDS)

    def create_project(self, project: str, name: str, now_ms: int) -> ProjectFiles:
        fresh = ProjectFiles(project=project, name=name, created_at=now_ms, version=0)
        for _ in range(MAX_ATTEMPTS):
            found = self.project(project)
            if found is not None:
                return found
            if not self._table.transact(Put(project_item(fresh), DOES_NOT_EXIST)):
                return fresh
            self._wait()
        raise self._busy(project)

    def project(self, project: str) -> ProjectFiles | None:
        item = self._table.get(PROJECTS, project)
        return project_from(item) if item else None

    def projects(self) -> Sequence[ProjectFiles]:
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

    def load(self, project: str, path: str) -> StoredDocument | None:
        for _ in range(LOAD_ATTEMPTS):
            item = self._table.get(files_of(project), path)
            if item is None:
                return None
            head = head_from(item)
            log = self._table.between(log_of(project, path), log_sort(head.base), log_end(head.entry.version))
            updates = updates_from(list(log), head)
            if updates is not None:
                return StoredDocument(head, updates)
        raise JournalUnusable(
            f"The updates of {path!r} in project {project!r} are not all in table "
            f"{self._table.address.table!r}. Restore the table to an earlier point in time."
        )

    def append(self, project: str, before: Head | None, after: Head, update: bytes) -> Head | None:
        partition = log_of(project, after.entry.path)
        condition, values = is_unchanged(before) if before else (DOES_NOT_EXIST, None)
        token, written = self._write_parts(partition, after.entry.version, update)
        log = log_item(partition, after.entry.version, update, token, len(written))
        for _ in range(MAX_ATTEMPTS):
            counted = self.create_project(project, project, after.entry.last_modified)
            head = set_project_version(after, counted.version + 1)
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
                self._signal.notify()
                return head
            if failed[0] == LOST:
                self._try_to_delete(written)
                return None
            self._wait()
        self._try_to_delete(written)
        raise self._busy(project)

    def replace_log(self, project: str, before: Head, after: Head, state: bytes) -> bool:
        partition = log_of(project, before.entry.path)
        token, written = self._write_parts(partition, after.base, state)
        condition, values = is_unchanged(before)
        failed = self._table.transact(
            Put(head_item(project, after), condition, values),
            Put(log_item(partition, after.base, state, token, len(written))),
        )
        if failed:
            self._try_to_delete(written)
            return False
        self._delete_log(partition, after.base, keep=written)
        return True

    def _delete_log(self, partition: str, base: int, *, keep: Sequence[AttributeMap]) -> None:
        """Delete the items before the base, including those of a writer that lost its race or exited.

        A writer that is still storing parts for a version up to the base has lost already: that version
        exists.
        """
        sorts = {log_sort(base), *(item["sk"]["S"] for item in keep)}
        old = [
            item
            for item in self._table.between(partition, log_sort(0), log_end(base), keys_only=True)
            if item["sk"]["S"] not in sorts
        ]
        self._try_to_delete(old)

    def _write_parts(self, partition: str, version: int, data: bytes) -> tuple[str, list[AttributeMap]]:
        token = secrets.token_hex(8)
        items = part_items(partition, version, token, split_update(data))
        for item in items:
            self._table.put(item)
        return token, [{"pk": item["pk"], "sk": item["sk"]} for item in items]

    def _try_to_delete(self, keys: Sequence[AttributeMap]) -> None:
        try:
            self._table.delete(keys)
        except JournalUnavailable:
            pass  # nothing refers to them, and the next compaction deletes them

    def subscribe(self, on_change: OnChange) -> ChangeSignal:
        """Reports writes of this process at once; for those of others, the store is polled."""
        return self._signal.subscribe(on_change)

    def close(self) -> None:
        self._table.close()

    def _wait(self) -> None:
        self._clock.sleep(random.uniform(0, LONGEST_WAIT_SECONDS))

    def _busy(self, project: str) -> JournalBusy:
        return JournalBusy(
            f"Other writers changed project {project!r} in all of {MAX_ATTEMPTS} attempts. Retry."
        )


def url_of(at: TableAddress) -> str:
    options = {"region": at.region, "endpoint": at.endpoint}
    given = {name: value for name, value in options.items() if value}
    return f"dynamodb://{quote(at.table, safe='')}" + (f"?{urlencode(given)}" if given else "")
