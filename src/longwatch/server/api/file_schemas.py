"""The shapes of files and documents, for the schema. Times are ISO 8601 in UTC."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from longwatch.server.api.parameters import RequestBody as Strict
from longwatch.server.api.turn_schemas import Time

MOST_PATHS = 10_000
Version = Annotated[int, Field(ge=0, le=2**53, strict=True)]
Path = Annotated[str, Field(max_length=1024)]


class FileShape(Strict):
    """One file; a deleted one is told of only to those who ask what changed."""

    path: str
    version: int
    last_modified: Time
    created_at: Time
    size: int
    sha256: str
    kind: Literal["text", "binary"]
    deleted: bool


class FileListShape(Strict):
    """Files by path, with every change up to `version` of the project."""

    version: int
    files: list[FileShape]


class Known(Strict):
    """What a client wants to know, and what it has."""

    paths: Annotated[list[Path], Field(max_length=MOST_PATHS)] | None = Field(
        default=None, description="Only these; left out, all files of the project."
    )
    versions: Annotated[dict[Path, Version], Field(max_length=MOST_PATHS)] | None = Field(
        default=None, description="Path → the version that the client has; left out, it has none."
    )


class ChangeShape(Strict):
    """A file that is not as the client has it."""

    path: str
    last_modified: Time
    version: int
    change_type: Literal["created", "modified", "deleted"]


class ChangesShape(Strict):
    """Only what changed."""

    changes: list[ChangeShape]


class AppliedShape(Strict):
    """What became of a write."""

    version: int
    changed: bool
