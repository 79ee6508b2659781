"""The documentation as data: its pages, their code blocks, headings and links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_FENCE = re.compile(r"^```(\w*)\s*$")
_NOT_RUN = re.compile(r"^<!-- not run: (.+) -->$")
_HEADING = re.compile(r"^#{1,6} (.+)$")
_LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")
_CODE = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of code."""

    page: str
    line: int  # of its first line of code, from 1
    language: str
    text: str
    not_run: str | None  # why not, if it is marked so

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True, slots=True)
class Page:
    """One file of documentation."""

    path: Path

    @property
    def name(self) -> str:
        return (self.path.relative_to(ROOT) if self.path.is_relative_to(ROOT) else self.path).as_posix()

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    def blocks(self) -> Iterator[Block]:
        """The fenced blocks, in order. A comment `<!-- not run: why -->` right above one marks it."""
        lines = self.text.splitlines()
        opened: tuple[int, str, str | None] | None = None
        for number, line in enumerate(lines):
            fence = _FENCE.match(line)
            if fence is None:
                continue
            if opened is None:
                mark = _NOT_RUN.match(lines[number - 1]) if number else None
                opened = number + 1, fence[1], mark[1] if mark else None
            else:
                first, language, why = opened
                text = "\n".join(lines[first:number]) + "\n"
                yield Block(self.name, first + 1, language, text, why)
                opened = None
        assert opened is None, f"{self.name}: a fence that was opened is never closed"

    def prose(self) -> str:
        """The text without its fenced blocks."""
        return re.sub(r"^```.*?^```\s*$", "", self.text, flags=re.DOTALL | re.MULTILINE)

    def code_spans(self) -> list[str]:
        """Everything that stands in backticks outside of blocks."""
        return _CODE.findall(self.prose())

    def headings(self) -> list[str]:
        return [match[1] for line in self.prose().splitlines() if (match := _HEADING.match(line))]

    def anchors(self) -> set[str]:
        """What a link can point to inside the page, as the usual renderers name it."""
        return {anchor_of(heading) for heading in self.headings()}

    def links(self) -> list[str]:
        return _LINK.findall(self.prose())


def anchor_of(heading: str) -> str:
    plain = re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower())
    return plain.strip().replace(" ", "-")


def all_pages() -> list[Page]:
    """README.md, LOCAL_DEVELOPMENT.md and everything under docs/."""
    return [
        Page(ROOT / "README.md"),
        Page(ROOT / "LOCAL_DEVELOPMENT.md"),
        *map(Page, sorted((ROOT / "docs").rglob("*.md"))),
    ]


def page(name: str) -> Page:
    return Page(ROOT / "docs" / name)
