"""How two polls of a project's files differ."""

from __future__ import annotations

from longwatch.remote.documents import changes_between, files_of


def listed(**versions: int) -> dict[str, object]:
    return {
        "version": sum(versions.values()),
        "files": [
            {
                "path": path,
                "version": version,
                "last_modified": "2026-01-06T10:00:00.000Z",
                "created_at": "2026-01-06T10:00:00.000Z",
                "size": 3,
                "sha256": "0" * 64,
                "kind": "text",
                "deleted": False,
            }
            for path, version in versions.items()
        ],
    }


def test_files_are_created_modified_and_deleted() -> None:
    before, after = files_of(listed(a=1, b=1, c=1)), files_of(listed(b=2, c=1, d=1))

    changes = changes_between(before, after)

    assert [(change.file_path, change.change_type, change.version) for change in changes] == [
        ("a", "deleted", 1),
        ("b", "modified", 2),
        ("d", "created", 1),
    ]


def test_only_the_requested_paths_count() -> None:
    before, after = files_of(listed(a=1, b=1)), files_of(listed(a=2, b=2))

    assert [change.file_path for change in changes_between(before, after, {"b", "x"})] == ["b"]


def test_unchanged_files_are_not_reported() -> None:
    assert changes_between(files_of(listed(a=1)), files_of(listed(a=1))) == []
