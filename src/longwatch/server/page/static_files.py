"""The page: its files as they are in `viewer/`, under a policy that lets nothing else run."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from fastapi import APIRouter, Request
from starlette.responses import Response

from longwatch.server.errors import ApiError
from longwatch.server.page.bundle import joined_script, joined_style
from longwatch.server.page.plain_pages import PAGE_HEADERS
from longwatch.server.responses import matches

VIEWER = Path(__file__).parent / "viewer"
INDEX = "index.html"
PARTS = ("app", "core", "style")  # where the files are that others are made of
STYLES = (
    "tokens",
    "base",
    "shell",
    "parts",
    "runs",
    "run",
    "views",
    "details",
    "session",
    "executions",
    "stages",
)
SECTIONS = ("runs", "executions", "projects")  # the first part of a view's path
PAGE_PATHS = ("/", *(f"/{name}{rest}" for name in SECTIONS for rest in ("", "/{rest:path}")))
MEDIA_TYPES = {  # by ourselves: the machine's own table may call a module something that browsers refuse
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
}


JOINED: Mapping[str, Callable[[Path], str]] = {  # what the page loads: one answer instead of fifty
    "page.js": lambda folder: joined_script("app/main.js", folder=folder),
    "page.css": lambda folder: joined_style(STYLES, folder=folder),
}


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file of the page as it was when it was last read."""

    stamp: tuple[int, int]  # time of change and size, by which a change is noticed
    body: bytes
    gzipped: bytes  # once, rather than for everybody who asks
    tag: str
    media_type: str


class Pages:
    """The files under one folder. What lies outside is not there."""

    def __init__(self, folder: Path = VIEWER) -> None:
        self._folder = folder.resolve()
        self._known: dict[str, PageFile] = {}

    def file(self, name: str) -> PageFile | None:
        """The file of this name, read again only if it changed."""
        media_type = MEDIA_TYPES.get(Path(name).suffix)
        if media_type is None or "\0" in name or "\\" in name:
            return None
        if name in JOINED:
            return self._joined(name, media_type)
        path = self._folder / name
        try:
            if not path.resolve().is_relative_to(self._folder):
                return None
            found = path.stat()
            known = self._known.get(name)
            stamp = (found.st_mtime_ns, found.st_size)
            if known is not None and known.stamp == stamp:
                return known
            body = path.read_bytes()
        except (OSError, ValueError):
            return None
        return self._keep(name, stamp, body, media_type)

    def _joined(self, name: str, media_type: str) -> PageFile:
        """A file that is made of others, made again only if one of them changed."""
        parts = [each.stat() for place in PARTS for each in os.scandir(self._folder / place)]
        stamp = (max(each.st_mtime_ns for each in parts), sum(each.st_size for each in parts))
        known = self._known.get(name)
        if known is not None and known.stamp == stamp:
            return known
        return self._keep(name, stamp, JOINED[name](self._folder).encode(), media_type)

    def _keep(self, name: str, stamp: tuple[int, int], body: bytes, media_type: str) -> PageFile:
        tag = f'W/"{blake2b(body, digest_size=12).hexdigest()}"'
        self._known[name] = read = PageFile(stamp, body, gzip.compress(body, mtime=0), tag, media_type)
        return read

    def answer(self, name: str, if_none_match: str | None, *, gzipped: bool = False) -> Response:
        """The file, or that the caller has it already."""
        file = self.file(name)
        if file is None:
            raise ApiError(404, "not_found", f"The page has no file {name[:100]!r}. Open / instead.")
        headers = {**PAGE_HEADERS, "ETag": file.tag, "Vary": "Accept-Encoding"}
        if matches(if_none_match, file.tag):
            return Response(status_code=304, headers=headers)
        body = file.body
        if gzipped and len(file.gzipped) < len(body):
            body, headers["Content-Encoding"] = file.gzipped, "gzip"
        return Response(body, headers=headers, media_type=file.media_type)


def page_routes(pages: Pages) -> APIRouter:
    """The page at `/` and at the addresses it gives its views, its files under `/viewer/`."""
    router = APIRouter(include_in_schema=False)

    def answered(name: str, request: Request) -> Response:
        gzipped = "gzip" in request.headers.get("accept-encoding", "")
        return pages.answer(name, request.headers.get("if-none-match"), gzipped=gzipped)

    async def index(request: Request) -> Response:
        return answered(INDEX, request)

    for path in PAGE_PATHS:
        router.add_api_route(path, index, methods=["GET", "HEAD"], response_class=Response)

    @router.api_route("/viewer/{name:path}", methods=["GET", "HEAD"], response_class=Response)
    async def viewer_file(request: Request, name: str) -> Response:
        return answered(name, request)

    @router.get("/favicon.ico", response_class=Response)
    async def icon() -> Response:
        return Response(status_code=204, headers={"Cache-Control": "max-age=86400"})

    return router
