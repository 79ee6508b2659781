"""Files of a project and the Yjs documents behind them: lists, changes, content, and updates that merge."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Iterable
from typing import Annotated

from fastapi import APIRouter, Body, Query, Request
from pydantic import BeforeValidator, Field
from starlette.responses import Response

from longwatch.documents.files import FileEntry, FileKind
from longwatch.documents.views import ChangedFiles, FileChangeView, FileListView, FileView, WriteResult
from longwatch.errors import DocumentNotFound, InvalidUpdate
from longwatch.server.api.long_polling import deadline
from longwatch.server.api.openapi import (
    CACHE_HEADER,
    DISPOSITION_HEADER,
    ETAG_HEADER,
    VERSION_HEADER,
    WITH_BODY,
    error_responses,
    etag_responses,
    json_responses,
    write_responses,
)
from longwatch.server.api.parameters import (
    ContextDep,
    FilePath,
    IfNoneMatch,
    ProjectId,
    RequestBody,
    WaitQuery,
    require_digits,
)
from longwatch.server.api.runs import attachment
from longwatch.server.context import ServerContext
from longwatch.server.errors import ApiError
from longwatch.server.responses import (
    bytes_response,
    json_response,
    matches,
    not_modified,
    weak_etag,
)

TEXT_TYPE = "text/plain; charset=utf-8"
BINARY_TYPE = "application/octet-stream"  # of content that is not text, and of Yjs updates
NO_SCRIPTS = "default-src 'none'; sandbox"
MOST_PATHS = 10_000

CONTENT_HEADERS = {
    "ETag": ETAG_HEADER,
    "Cache-Control": CACHE_HEADER,
    "Longwatch-Version": VERSION_HEADER,
    "Content-Security-Policy": {
        "description": "Keeps a browser from running the content.",
        "schema": {"type": "string"},
    },
    "Content-Disposition": DISPOSITION_HEADER,  # of bytes, not of text
}
DOCUMENT_HEADERS = {"ETag": ETAG_HEADER, "Longwatch-Version": VERSION_HEADER, "Cache-Control": CACHE_HEADER}
UPDATE_CONTENT = {BINARY_TYPE: {"schema": {"type": "string", "contentMediaType": BINARY_TYPE}}}

router = APIRouter(prefix="/api/projects/{project_id}", tags=["files"])
document_router = APIRouter(prefix="/api/projects/{project_id}/documents", tags=["documents"])

Version = Annotated[int, Field(ge=0, le=2**53, strict=True)]
VersionQuery = Annotated[int | None, Field(ge=0, le=2**53), BeforeValidator(require_digits)]
Path = Annotated[str, Field(max_length=1024)]


class FileStatusRequest(RequestBody):
    """The files that a client is interested in, and the versions that it has."""

    paths: Annotated[list[Path], Field(max_length=MOST_PATHS)] | None = Field(
        default=None, description="Only these; by default all files of the project."
    )
    versions: Annotated[dict[Path, Version], Field(max_length=MOST_PATHS)] | None = Field(
        default=None, description="Path → version that the client has; by default it has none."
    )


@router.get("/files", response_class=Response, responses=etag_responses(FileListView, 404))
async def list_files(
    context: ContextDep,
    project_id: ProjectId,
    prefix: Annotated[str, Query(max_length=1024, description="How the paths begin.")] = "",
    since: Annotated[
        VersionQuery, Query(description="Only changes after this version, including deletions.")
    ] = None,
    wait: WaitQuery = 0,
    if_none_match: IfNoneMatch = "",
) -> Response:
    """List the files of a project. With `wait`, a response without changes takes up to that many seconds."""
    version = await must_exist(context, project_id)
    etag = _list_etag(version, prefix, since)
    if wait and (matches(if_none_match, etag) or since == version):
        until = deadline(context, wait)
        version = await context.file_versions.wait_past(project_id, version, until)
        etag = _list_etag(version, prefix, since)
    if matches(if_none_match, etag):
        return not_modified(etag)
    found = await context.call(context.documents.files, project_id, prefix=prefix or None, since=since)
    files = FileListView(version=found.version, files=[FileView.of(entry) for entry in found.files])
    return json_response(files, etag=_list_etag(found.version, prefix, since))


def _list_etag(version: int, prefix: str, since: int | None) -> str:
    """The version of the project identifies its list; a part of the list needs the query as well."""
    return _version_etag(version) if not prefix and since is None else weak_etag(version, prefix, since)


def _version_etag(version: int) -> str:
    return f'W/"v{version}"'


@router.post("/files/status", response_class=Response, responses=write_responses(ChangedFiles, 404))
async def changed_files(
    context: ContextDep, project_id: ProjectId, wanted: Annotated[FileStatusRequest, Body()]
) -> Response:
    """List the files that differ from the client's versions. Without versions, all requested files."""
    await must_exist(context, project_id)
    if wanted.paths is not None:
        found: Iterable[FileEntry] = await context.call(context.documents.entries, project_id, wanted.paths)
    else:
        listed = await context.call(context.documents.files, project_id, since=0)
        found = listed.files
    changes = (FileChangeView.of(entry, wanted.versions) for entry in found)
    return json_response(ChangedFiles(changes=[change for change in changes if change is not None]))


@router.get(
    "/content/{path:path}",
    response_class=Response,
    responses={
        200: {
            "description": "The content of the file.",
            "content": {"text/plain": {}, BINARY_TYPE: {}},
            "headers": CONTENT_HEADERS,
        },
        304: {
            "description": "Unchanged since `If-None-Match`.",
            "headers": {"ETag": ETAG_HEADER, "Cache-Control": CACHE_HEADER},
        },
        **error_responses(404),
    },
)
async def read_content(
    context: ContextDep, project_id: ProjectId, path: FilePath, if_none_match: IfNoneMatch = ""
) -> Response:
    """Read a file's text or bytes."""
    entry = await find_file(context, project_id, path)
    etag = f'W/"{entry.sha256[:32]}"'
    if matches(if_none_match, etag):
        return not_modified(etag)
    body = await context.call(context.documents.content, project_id, path)
    headers = {"Longwatch-Version": str(entry.version), "Content-Security-Policy": NO_SCRIPTS}
    if entry.kind is FileKind.TEXT:
        return bytes_response(body, TEXT_TYPE, etag=etag, headers=headers)
    headers["Content-Disposition"] = attachment(entry.path.rpartition("/")[2], "")
    return bytes_response(body, BINARY_TYPE, etag=etag, headers=headers)


@router.put(
    "/content/{path:path}",
    response_class=Response,
    responses=write_responses(WriteResult, 404),
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
    """Write a file. Text is merged as small edits, which preserves concurrent edits."""
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
    return json_response(WriteResult.of(applied))


@router.delete(
    "/content/{path:path}", response_class=Response, responses=json_responses(FileView, *WITH_BODY, 404)
)
async def delete_content(context: ContextDep, project_id: ProjectId, path: FilePath) -> Response:
    """Delete a file. Deleting it again changes nothing."""
    return json_response(FileView.of(await context.call(context.documents.delete, project_id, path)))


@document_router.get(
    "/{path:path}",
    response_class=Response,
    responses={
        200: {
            "description": "A Yjs update: the whole document, or what the client lacks.",
            "content": UPDATE_CONTENT,
            "headers": DOCUMENT_HEADERS,
        },
        304: {"description": "The client has the newest version.", "headers": DOCUMENT_HEADERS},
        **error_responses(404),
    },
)
async def read_document(
    context: ContextDep,
    project_id: ProjectId,
    path: FilePath,
    state_vector: Annotated[
        str,
        Query(max_length=12_000, description="State vector of the client as base64url; by default empty."),
    ] = "",
    version: Annotated[
        VersionQuery, Query(description="The version that the client has: 304 if it is the newest.")
    ] = None,
    wait: WaitQuery = 0,
    if_none_match: IfNoneMatch = "",
) -> Response:
    """Read a document, or what a client lacks of it."""
    vector = decode_vector(state_vector)

    def is_newest(current: int) -> bool:
        return version == current or matches(if_none_match, _version_etag(current))

    current = (await find_file(context, project_id, path)).version
    if wait and is_newest(current):
        current = await _wait_for_version(context, project_id, path, current, wait)
    if is_newest(current):
        return not_modified(_version_etag(current), {"Longwatch-Version": str(current)})
    if vector is None:
        state = await context.call(context.documents.read, project_id, path)
    else:
        state = await context.call(context.documents.diff, project_id, path, vector)
    headers = {"Longwatch-Version": str(state.version)}
    return bytes_response(state.update, BINARY_TYPE, etag=_version_etag(state.version), headers=headers)


async def _wait_for_version(
    context: ServerContext, project_id: str, path: str, version: int, wait: int
) -> int:
    """Wait until the document has another version than this, and return the version it has then."""
    loop = asyncio.get_running_loop()
    until = deadline(context, wait)
    seen = await context.call(context.documents.project_version, project_id)
    while True:
        current = (await find_file(context, project_id, path)).version
        if current != version or loop.time() >= until or context.closing.is_set():
            return current
        seen = await context.file_versions.wait_past(project_id, seen, until)


@document_router.post(
    "/{path:path}",
    response_class=Response,
    responses=write_responses(WriteResult, 404),
    openapi_extra={"requestBody": {"required": True, "content": UPDATE_CONTENT}},
)
async def update_document(
    context: ContextDep,
    request: Request,
    project_id: ProjectId,
    path: FilePath,
    kind: Annotated[
        FileKind, Query(description="Kind of a document that does not exist yet.")
    ] = FileKind.TEXT,
) -> Response:
    """Merge a Yjs update into a document, which is created if it does not exist."""
    await must_exist(context, project_id)
    applied = await context.call(context.documents.apply, project_id, path, await request.body(), kind=kind)
    return json_response(WriteResult.of(applied))


def decode_vector(text: str) -> bytes | None:
    """The state vector in a URL."""
    if not text:
        return None
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidUpdate(
            f"The state vector is not base64url: {error}. Encode it as base64url, without padding."
        ) from error


async def must_exist(context: ServerContext, project_id: str) -> int:
    """The version of the project's files. A project without files must have been created."""
    version = await context.call(context.documents.project_version, project_id)
    if not version:
        await context.call(context.conversations.project, project_id)
    return version


async def find_file(context: ServerContext, project_id: str, path: str) -> FileEntry:
    """The entry of a file that exists."""
    entry = await context.call(context.documents.entry, project_id, path)
    if entry is None or entry.deleted:
        reason = "was deleted" if entry is not None else "does not exist"
        raise DocumentNotFound(
            f"File {path[:200]!r} {reason} in project {project_id!r}. "
            f"GET /api/projects/{project_id}/files lists the files."
        )
    return entry
