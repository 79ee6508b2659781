"""The files of the page in `viewer/`, with a policy that allows no other scripts."""

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
from longwatch.server.page.bundle import bundle_script, bundle_style
from longwatch.server.page.plain_pages import PAGE_HEADERS, WORKER_POLICY
from longwatch.server.responses import matches

VIEWER = Path(__file__).parent / "viewer"
INDEX = "index.html"
WORKER = "notifications-worker.js"  # a service worker; without Service-Worker-Allowed its scope is /viewer/
PARTS = ("app", "core", "style")  # folders of the files that bundles consist of
STYLES = (
    "tokens",
    "base",
    "shell",
    "parts",
    "runs",
    "run",
    "timeline",
    "views",
    "details",
    "session",
    "executions",
    "stages",
    "search",
    "notifications",
)
SECTIONS = (
    "runs",
    "search",
    "compare",
    "executions",
    "projects",
    "notifications",
)  # the first part of a view's path
PAGE_PATHS = ("/", *(f"/{name}{rest}" for name in SECTIONS for rest in ("", "/{rest:path}")))
MEDIA_TYPES = {  # the machine's table may have a type for modules that browsers reject
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


BUNDLES: Mapping[str, Callable[[Path], str]] = {  # what the page loads
    "page.js": lambda folder: bundle_script("app/main.js", folder=folder),
    "page.css": lambda folder: bundle_style(STYLES, folder=folder),
}


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file of the page when it was last read."""

    stamp: tuple[int, int]  # time of change and size; a change of the file changes one of them
    body: bytes
    gzipped: bytes  # once for all requests
    etag: str
    media_type: str


class Pages:
    """The files in one folder. Files outside are not served."""

    def __init__(self, folder: Path = VIEWER) -> None:
        self._folder = folder.resolve()
        self._cached: dict[str, PageFile] = {}

    def file(self, name: str) -> PageFile | None:
        """The file of this name, read again only if it changed."""
        media_type = MEDIA_TYPES.get(Path(name).suffix)
        if media_type is None or "\0" in name or "\\" in name:
            return None
        if name in BUNDLES:
            return self._bundle(name, media_type)
        path = self._folder / name
        try:
            if not path.resolve().is_relative_to(self._folder):
                return None
            found = path.stat()
            cached = self._cached.get(name)
            stamp = (found.st_mtime_ns, found.st_size)
            if cached is not None and cached.stamp == stamp:
                return cached
            body = path.read_bytes()
        except (OSError, ValueError):
            return None
        return self._store(name, stamp, body, media_type)

    def _bundle(self, name: str, media_type: str) -> PageFile:
        """A bundle of files, made again only if one of them changed."""
        parts = [each.stat() for part in PARTS for each in os.scandir(self._folder / part)]
        stamp = (max(each.st_mtime_ns for each in parts), sum(each.st_size for each in parts))
        cached = self._cached.get(name)
        if cached is not None and cached.stamp == stamp:
            return cached
        return self._store(name, stamp, BUNDLES[name](self._folder).encode(), media_type)

    def _store(self, name: str, stamp: tuple[int, int], body: bytes, media_type: str) -> PageFile:
        etag = f'W/"{blake2b(body, digest_size=12).hexdigest()}"'
        self._cached[name] = file = PageFile(stamp, body, gzip.compress(body, mtime=0), etag, media_type)
        return file

    def respond(self, name: str, if_none_match: str | None, *, gzipped: bool = False) -> Response:
        """The file, or a 304 if the client has it."""
        file = self.file(name)
        if file is None:
            raise ApiError(404, "not_found", f"No file {name[:100]!r} of the page. Open / instead.")
        headers = {**PAGE_HEADERS, "ETag": file.etag, "Vary": "Accept-Encoding"}
        if name == WORKER:
            headers["Content-Security-Policy"] = WORKER_POLICY
        if matches(if_none_match, file.etag):
            return Response(status_code=304, headers=headers)
        body = file.body
        if gzipped and len(file.gzipped) < len(body):
            body, headers["Content-Encoding"] = file.gzipped, "gzip"
        return Response(body, headers=headers, media_type=file.media_type)


def page_routes(pages: Pages) -> APIRouter:
    """The page at `/` and at the paths of its views, and its files at `/viewer/`."""
    router = APIRouter(include_in_schema=False)

    def respond(name: str, request: Request) -> Response:
        gzipped = "gzip" in request.headers.get("accept-encoding", "")
        return pages.respond(name, request.headers.get("if-none-match"), gzipped=gzipped)

    async def index(request: Request) -> Response:
        return respond(INDEX, request)

    for path in PAGE_PATHS:
        router.add_api_route(path, index, methods=["GET", "HEAD"], response_class=Response)

    @router.api_route("/viewer/{name:path}", methods=["GET", "HEAD"], response_class=Response)
    async def viewer_file(request: Request, name: str) -> Response:
        return respond(name, request)

    @router.get("/favicon.ico", response_class=Response)
    async def icon() -> Response:
        return Response(status_code=204, headers={"Cache-Control": "max-age=86400"})

    return router
