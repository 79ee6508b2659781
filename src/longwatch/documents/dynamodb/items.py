"""How projects, heads and updates lie in the table. Only this module knows the attributes.

| partition                | sort key                | holds                                            |
|--------------------------|-------------------------|--------------------------------------------------|
| projects                 | PROJECT                 | a project: its name and its version              |
| files#PROJECT            | PATH                    | the head of a document                           |
| log#PROJECT#PATH         | VERSION                 | an update, or the token and number of its parts  |
| log#PROJECT#PATH         | VERSION#TOKEN#NUMBER    | a part of an update that is too long for an item |
"""

from __future__ import annotations

from collections.abc import Sequence

from longwatch.documents.dynamodb.table import key_of
from longwatch.documents.files import FileEntry, Kind, Project
from longwatch.documents.shelf import Head
from longwatch.storage.dynamodb.values import AttributeMap, AttributeValue

PART_BYTES = 350 * 1024  # of the 400 KB that an item may have, names and keys included
PROJECTS = "projects"

_NUMBERS = ("version", "project_version", "created_version", "last_modified", "created_at", "size")
# "base" alone is a word that DynamoDB keeps for itself.
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


def project_item(project: Project) -> AttributeMap:
    return {
        **key_of(PROJECTS, project.project),
        "name": {"S": project.name},
        "created_at": _number(project.created_at),
        "version": _number(project.version),
    }


def project_from(item: AttributeMap) -> Project:
    return Project(
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
        kind=Kind(item["kind"]["S"]),
        deleted=item["deleted"]["BOOL"],
        **{name: int(item[name]["N"]) for name in _NUMBERS},
    )


def head_from(item: AttributeMap) -> Head:
    numbers = {name: int(item[stored]["N"]) for name, stored in _LOG_NUMBERS.items()}
    return Head(entry=entry_from(item), waits=item["waits"]["BOOL"], **numbers)


def is_still(before: Head) -> tuple[str, AttributeMap]:
    """The condition that nobody has changed the head, with its values."""
    values = {":version": _number(before.entry.version), ":base": _number(before.base)}
    return "version = :version AND log_base = :base", values


def parts_of(data: bytes) -> list[bytes]:
    """The update in pieces that fit into an item each; none if it fits into one as it is."""
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
    """The updates from the base to the head's version; None if one of them is not whole.

    Items of somebody who began to write and lost the race, or ended, may lie between them.
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
