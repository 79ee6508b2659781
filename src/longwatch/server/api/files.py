"""The files of a project: the list, what changed since, and their content."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated

from fastapi import APIRouter, Body, Query, Request
from pydantic import BeforeValidator, Field
from starlette.responses import Response

from longwatch.clock import iso_from_ms
from longwatch.documents.files import FileEntry, Kind
from longwatch.errors import DocumentNotFound
from longwatch.server.api.file_schemas import AppliedShape, ChangesShape, FileListShape, FileShape, Known
from longwatch.server.api.long_polling import deadline
from longwatch.server.api.openapi import (
    CACHE_HEADER,
    DISPOSITION_HEADER,
    TAG_HEADER,
    VERSION_HEADER,
    WITH_BODY,
    errors,
    plain,
    tagged,
    written,
)
from longwatch.server.api.parameters import (
    ContextDep,
    FilePath,
    IfNoneMatch,
    ProjectId,
    WaitQuery,
    plain_digits,
)
from longwatch.server.api.runs import attachment
from longwatch.server.context import ServerContext
from longwatch.server.errors import ApiError
from longwatch.server.live.file_topics import entry_view
from longwatch.server.responses import bytes_answer, json_answer, matches, not_modified, weak_tag

TEXT_TYPE = "text/plain; charset=utf-8"
BINARY_TYPE = "application/octet-stream"
NOTHING_RUNS = "default-src 'none'; sandbox"

CONTENT_HEADERS = {
    "ETag": TAG_HEADER,
    "Cache-Control": CACHE_HEADER,
    "Longwatch-Version": VERSION_HEADER,
    "Content-Security-Policy": {
        "description": "Nothing in it may run in a browser.",
        "schema": {"type": "string"},
    },
    "Content-Disposition": DISPOSITION_HEADER,  # of bytes, not of text
}

router = APIRouter(prefix="/api/projects/{project_id}", tags=["files"])

Since = Annotated[int | None, Field(ge=0, le=2**53), BeforeValidator(plain_digits)]


@router.get("/files", response_class=Response, responses=tagged(FileListShape, 404))
async def list_files(
    context: ContextDep,
    project_id: ProjectId,
    prefix: Annotated[str, Query(max_length=1024, description="The beginning of paths.")] = "",
    since: Annotated[
        Since, Query(description="Only what changed after this version, deletions included.")
    ] = None,
    wait: WaitQuery = 0,
    if_none_match: IfNoneMatch = "",
) -> Response:
    """List the files of a project. With `wait`, an answer without news comes only after so long."""
    version = await must_exist(context, project_id)
    tag = _list_tag(version, prefix, since)
    if wait and (matches(if_none_match, tag) or since == version):
        until = deadline(context, wait)
        version = await context.versions.later_than(context, project_id, version, until)
        tag = _list_tag(version, prefix, since)
    if matches(if_none_match, tag):
        return not_modified(tag)
    found = await context.call(context.documents.files, project_id, prefix=prefix or None, since=since)
    body = {"version": found.version, "files": [entry_view(entry) for entry in found.files]}
    return json_answer(body, tag=_list_tag(found.version, prefix, since))


def _list_tag(version: int, prefix: str, since: int | None) -> str:
    """The project's version says it all, but the same address can ask for different parts."""
    return f'W/"v{version}"' if not prefix and since is None else weak_tag(version, prefix, since)


@router.post("/files/status", response_class=Response, responses=written(ChangesShape, 404))
async def changed_files(
    context: ContextDep, project_id: ProjectId, known: Annotated[Known, Body()]
) -> Response:
    """Tell which files are not as the client has them. Without versions, all that were asked for."""
    await must_exist(context, project_id)
    if known.paths is not None:
        found: Iterable[FileEntry] = await context.call(context.documents.entries, project_id, known.paths)
    else:
        listed = await context.call(context.documents.files, project_id, since=0)
        found = listed.files
    changes = [
        {
            "path": entry.path,
            "last_modified": iso_from_ms(entry.last_modified),
            "version": entry.version,
            "change_type": word,
        }
        for entry in found
        if (word := change_word(entry, known.versions)) is not None
    ]
    return json_answer({"changes": changes})


def change_word(entry: FileEntry, versions: Mapping[str, int] | None) -> str | None:
    """How a file differs from what a client has; None if it does not."""
    has = versions.get(entry.path) if versions is not None else None
    if has == entry.version:
        return None
    if entry.deleted:
        # Who never had it need not hear of it, unless it does not say what it has.
        return "deleted" if has is not None or versions is None else None
    return "created" if has is None else "modified"


@router.get(
    "/content/{path:path}",
    response_class=Response,
    responses={
        200: {
            "description": "The file as it is.",
            "content": {"text/plain": {}, BINARY_TYPE: {}},
            "headers": CONTENT_HEADERS,
        },
        304: {
            "description": "Unchanged since `If-None-Match`.",
            "headers": {"ETag": TAG_HEADER, "Cache-Control": CACHE_HEADER},
        },
        **errors(404),
    },
)
async def read_content(
    context: ContextDep, project_id: ProjectId, path: FilePath, if_none_match: IfNoneMatch = ""
) -> Response:
    """Read a file's text or bytes."""
    entry = await find_file(context, project_id, path)
    tag = f'W/"{entry.sha256[:32]}"'
    if matches(if_none_match, tag):
        return not_modified(tag)
    body = await context.call(context.documents.content, project_id, path)
    headers = {"Longwatch-Version": str(entry.version), "Content-Security-Policy": NOTHING_RUNS}
    if entry.kind is Kind.TEXT:
        return bytes_answer(body, TEXT_TYPE, tag=tag, headers=headers)
    headers["Content-Disposition"] = attachment(entry.path.rpartition("/")[2], "")
    return bytes_answer(body, BINARY_TYPE, tag=tag, headers=headers)


@router.put(
    "/content/{path:path}",
    response_class=Response,
    responses=written(AppliedShape, 404),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "text/plain": {"schema": {"type": "string"}},
                BINARY_TYPE: {"schema": {"type": "string"}},
            },
        }
    },
)
async def write_content(
    context: ContextDep, request: Request, project_id: ProjectId, path: FilePath
) -> Response:
    """Write a file. Text is merged by small edits, so that what others type meanwhile stays."""
    await must_exist(context, project_id)
    body = await request.body()
    media_type = request.headers.get("content-type", BINARY_TYPE).partition(";")[0].strip().lower()
    if not media_type.startswith("text/"):
        applied = await context.call(context.documents.write_bytes, project_id, path, body)
    else:
        try:
            text = body.decode()
        except UnicodeDecodeError as error:
            raise ApiError(
                400, "not_utf8", f"The text is not UTF-8: {error.reason}. Send other bytes as {BINARY_TYPE}."
            ) from error
        applied = await context.call(context.documents.write_text, project_id, path, text)
    return json_answer({"version": applied.version, "changed": applied.changed})


@router.delete("/content/{path:path}", response_class=Response, responses=plain(FileShape, *WITH_BODY, 404))
async def delete_content(context: ContextDep, project_id: ProjectId, path: FilePath) -> Response:
    """Delete a file. Deleting again changes nothing."""
    entry = await context.call(context.documents.delete, project_id, path)
    return json_answer(entry_view(entry))


async def must_exist(context: ServerContext, project_id: str) -> int:
    """The version of the project's files. A project without any must have been created."""
    version = await context.call(context.documents.project_version, project_id)
    if not version:
        await context.call(context.conversations.project, project_id)
    return version


async def find_file(context: ServerContext, project_id: str, path: str) -> FileEntry:
    """What is known of a file that is there."""
    entry = await context.call(context.documents.entry, project_id, path)
    if entry is None or entry.deleted:
        gone = "was deleted" if entry is not None else "is not there"
        raise DocumentNotFound(
            f"File {path[:200]!r} {gone} in project {project_id!r}. List the files to see."
        )
    return entry
