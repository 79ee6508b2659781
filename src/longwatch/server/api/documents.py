"""Yjs documents: their state, what a client lacks, and updates that merge."""

from __future__ import annotations

import asyncio
import base64
import binascii
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BeforeValidator, Field
from starlette.responses import Response

from longwatch.documents.files import Kind
from longwatch.errors import InvalidUpdate
from longwatch.server.api.file_schemas import AppliedShape
from longwatch.server.api.files import find_file, must_exist
from longwatch.server.api.long_polling import deadline
from longwatch.server.api.openapi import CACHE_HEADER, TAG_HEADER, VERSION_HEADER, errors, written
from longwatch.server.api.parameters import (
    ContextDep,
    FilePath,
    IfNoneMatch,
    ProjectId,
    WaitQuery,
    plain_digits,
)
from longwatch.server.context import ServerContext
from longwatch.server.responses import REVALIDATE, bytes_answer, json_answer, matches

UPDATE_TYPE = "application/octet-stream"
HEADERS = {"ETag": TAG_HEADER, "Longwatch-Version": VERSION_HEADER, "Cache-Control": CACHE_HEADER}

router = APIRouter(prefix="/api/projects/{project_id}/documents", tags=["documents"])

KnownVersion = Annotated[
    int | None,
    Field(ge=0, le=2**53, description="The version that the client has: 304 if it is the newest."),
    BeforeValidator(plain_digits),
]


@router.get(
    "/{path:path}",
    response_class=Response,
    responses={
        200: {
            "description": "A Yjs update: the whole document, or what the client lacks.",
            "content": {UPDATE_TYPE: {"schema": {"type": "string", "contentMediaType": UPDATE_TYPE}}},
            "headers": HEADERS,
        },
        304: {"description": "The client has the newest version.", "headers": HEADERS},
        **errors(404),
    },
)
async def read_document(
    context: ContextDep,
    project_id: ProjectId,
    path: FilePath,
    state_vector: Annotated[
        str, Query(max_length=12_000, description="What the client has, as base64url; without it, nothing.")
    ] = "",
    version: Annotated[KnownVersion, Query()] = None,
    wait: WaitQuery = 0,
    if_none_match: IfNoneMatch = "",
) -> Response:
    """Read a document, or what a client lacks of it."""
    vector = decoded_vector(state_vector)

    def has(current: int) -> bool:
        return version == current or matches(if_none_match, _tag(current))

    current = (await find_file(context, project_id, path)).version
    if wait and has(current):
        current = await _later(context, project_id, path, current, wait)
    if has(current):
        return Response(
            status_code=304,
            headers={
                "ETag": _tag(current),
                "Longwatch-Version": str(current),
                "Cache-Control": REVALIDATE,
            },
        )
    if vector is None:
        state = await context.call(context.documents.read, project_id, path)
    else:
        state = await context.call(context.documents.diff, project_id, path, vector)
    headers = {"Longwatch-Version": str(state.version)}
    return bytes_answer(state.update, UPDATE_TYPE, tag=_tag(state.version), headers=headers)


async def _later(context: ServerContext, project_id: str, path: str, version: int, wait: int) -> int:
    """The document's version once it is another, or when the time is up."""
    loop = asyncio.get_running_loop()
    until = deadline(context, wait)
    seen = await context.call(context.documents.project_version, project_id)
    while True:
        current = (await find_file(context, project_id, path)).version
        if current != version or loop.time() >= until or context.closing.is_set():
            return current
        seen = await context.versions.later_than(context, project_id, seen, until)


@router.post(
    "/{path:path}",
    response_class=Response,
    responses=written(AppliedShape, 404),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {UPDATE_TYPE: {"schema": {"type": "string", "contentMediaType": UPDATE_TYPE}}},
        }
    },
)
async def update_document(
    context: ContextDep,
    request: Request,
    project_id: ProjectId,
    path: FilePath,
    kind: Annotated[Kind, Query(description="Of a document that is not there yet.")] = Kind.TEXT,
) -> Response:
    """Merge a Yjs update into a document, which is made if it is not there."""
    await must_exist(context, project_id)
    applied = await context.call(context.documents.apply, project_id, path, await request.body(), kind=kind)
    return json_answer({"version": applied.version, "changed": applied.changed})


def _tag(version: int) -> str:
    return f'W/"v{version}"'


def decoded_vector(text: str) -> bytes | None:
    """A state vector from an address."""
    if not text:
        return None
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidUpdate(
            f"The state vector is not base64url: {error}. Send it encoded, without padding."
        ) from error
