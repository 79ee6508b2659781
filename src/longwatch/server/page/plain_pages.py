"""HTML pages without scripts: sign-in and not found; and the headers of every page."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from starlette.responses import Response
from starlette.types import Scope

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
WORKER_POLICY = "default-src 'none'; connect-src 'self'"  # it renews its subscription
PAGE_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
HTML_TYPE = "text/html; charset=utf-8"
NOT_STORED = {"Cache-Control": "no-store"}
# With no-referrer a browser sends a form of the page with `Origin: null`, which the guard rejects.
FORM_HEADERS = {"Referrer-Policy": "same-origin"}
SHOWN_CHARACTERS = 200  # of an unknown path


def plain_page(
    title: str, content: str, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """A page around this HTML. Caches do not store it."""
    page = (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">'
        '<link rel="stylesheet" href="/viewer/page.css">'
        f"<title>{escape(title)} · longwatch</title>"
        '<header class="topbar"><a class="brand" href="/">longwatch</a></header>'
        f'<main class="login"><h1>{escape(title)}</h1>{content}</main></html>'
    )
    headers = {**PAGE_HEADERS, **NOT_STORED, **FORM_HEADERS, **(headers or {})}
    return Response(page, status, headers, media_type=HTML_TYPE)


def not_found_page(path: str) -> Response:
    """The 404 that browsers get for a path without a route."""
    content = (
        f"<p>No page at <code>{escape(path[:SHOWN_CHARACTERS])}</code>.</p>"
        '<p><a class="button" href="/">All runs</a></p>'
    )
    return plain_page("Page not found", content, status=404, headers={"Vary": "Accept"})


def wants_page(scope: Scope) -> bool:
    """Whether a browser requests a page to show: GET or HEAD that accepts HTML."""
    if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
        return False
    return any(name == b"accept" and b"text/html" in value for name, value in scope["headers"])
