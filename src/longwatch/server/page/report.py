"""A run as one self-contained HTML file: the viewer with the events inside.

The file has the recorded data with `<`, `>` and `&` escaped, so that no recorded text can end its element.
Its policy allows its one script and no requests.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import html
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from longwatch.journal.codec import to_line
from longwatch.journal.views import summary_fields
from longwatch.model.event import Event
from longwatch.model.prices import NO_PRICES, Prices
from longwatch.model.run import Run, RunSummary
from longwatch.server.page.bundle import VIEWER, bundle_script, bundle_style

ENTRY = "app/report.js"
STYLES = ("tokens", "base", "shell", "parts", "run", "timeline", "views", "details")

_ESCAPES = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)

_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="longwatch">
<title>{title} · longwatch</title>
<style>{style}</style>
</head>
<body>
<a class="skip-link" href="#main">Skip to content</a>
<header class="topbar">
<span class="brand">{brand}longwatch</span>
<span class="spread"></span>
<div class="tools">
<button type="button" class="icon quiet" id="theme" aria-label="Theme"></button>
<button type="button" class="icon quiet" id="help" aria-label="Keyboard help" title="Keyboard (?)"></button>
</div>
</header>
<main id="main" tabindex="-1">
<noscript><p>This report needs JavaScript; the events are in its source as JSON.</p></noscript>
</main>
<script type="application/json" id="recorded">{{"made_at":{made_at},"summary":{summary},"events":[
"""
_TAIL = """
]}}</script>
<script type="module">{script}</script>
</body>
</html>
"""


@dataclass(frozen=True, slots=True)
class ReportParts:
    """The parts of a report before and after its events, which may not fit into memory."""

    head: bytes
    tail: bytes

    @classmethod
    def of(cls, summary: RunSummary, *, now_ms: int, prices: Prices = NO_PRICES) -> ReportParts:
        """The parts for the status of the run at this time."""
        script, style = _script(), _style()
        policy = (
            f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:; "
            "base-uri 'none'; form-action 'none'"
        )
        head = _HEAD.format(
            policy=html.escape(policy, quote=True).replace("&#x27;", "'"),
            title=html.escape(summary.name or summary.run_id),
            style=style,
            brand=_brand(),
            made_at=int(now_ms),
            summary=_escape(
                json.dumps(
                    summary_fields(summary, now_ms=now_ms, prices=prices), ensure_ascii=False, default=vars
                )
            ),
        )
        return cls(head.encode(), _TAIL.format(script=script).encode())


class EventWriter:
    """Encodes the events between the head and the tail. The viewer sorts them."""

    def __init__(self) -> None:
        self._separator = ""

    def __call__(self, event: Event) -> bytes:
        separator, self._separator = self._separator, ",\n"
        return f"{separator}{_escape(to_line(event))}".encode()


def render_report(
    run: Run | RunSummary, events: Iterable[Event], *, now_ms: int, prices: Prices = NO_PRICES
) -> bytes:
    """The whole report, with its events in order."""
    summary = run.summary if isinstance(run, Run) else run
    parts = ReportParts.of(summary, now_ms=now_ms, prices=prices)
    lines = map(EventWriter(), sorted(events, key=lambda event: event.order))
    return b"".join((parts.head, *lines, parts.tail))


def report_name(run_id: str) -> str:
    """A file name for the report that is valid on every system."""
    return f"{re.sub(r'[^A-Za-z0-9._-]+', '-', run_id).strip('.-')[:100] or 'run'}.html"


@functools.cache
def _script() -> str:
    return f"\n{bundle_script(ENTRY)}"


@functools.cache
def _style() -> str:
    return f"\n{bundle_style(STYLES)}"


@functools.cache
def _brand() -> str:
    return (VIEWER / "style" / "icon.svg").read_text(encoding="utf-8").strip()


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _escape(text: str) -> str:
    """Escape JSON for an HTML element, with the same meaning."""
    return text.translate(_ESCAPES)
