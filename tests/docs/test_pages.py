"""The documentation holds together: links lead somewhere, pages stay short, examples run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.docs.pages import ROOT, Page, all_pages
from tests.patience import PATIENCE_SECONDS

MOST_LINES = 300
MOST_REFERENCE_LINES = 500  # a reference is searched, not read from top to bottom
MOST_IMAGE_BYTES = 200_000

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))

SOURCE = ROOT / "src" / "longwatch"
FOLDERS = ("src", "tests", "infrastructure", "examples", "benchmarks", "docs", "scripts", "web/react/src")
PACKAGES = sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))  # pages leave out src/longwatch
PATHS = (
    (ROOT, re.compile(rf"^(?:{'|'.join(FOLDERS)})/[\w./-]+")),
    (SOURCE, re.compile(rf"^(?:{'|'.join(PACKAGES)})/[\w./-]+\.py\b")),
)


@pytest.mark.parametrize("page", all_pages(), ids=lambda page: page.name)
def test_relative_links_and_anchors_lead_somewhere(page: Page) -> None:
    broken = []
    for link in page.links():
        if link.startswith(("http://", "https://")):
            continue
        name, _, anchor = unquote(link).partition("#")
        target = (page.path.parent / name).resolve() if name else page.path
        if not target.exists():
            broken.append(f"{link}: there is no such file")
        elif anchor and anchor not in Page(target).anchors():
            broken.append(f"{link}: the page has no such heading")

    assert broken == []


@pytest.mark.parametrize("page", all_pages(), ids=lambda page: page.name)
def test_a_page_is_short_enough_to_be_read(page: Page) -> None:
    is_reference = page.name.startswith("docs/reference/") or page.name == "docs/runbook.md"

    assert len(page.text.splitlines()) <= (MOST_REFERENCE_LINES if is_reference else MOST_LINES)


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    queue = [ROOT / "README.md"]
    while queue:
        path = queue.pop()
        if path in reached or path.suffix != ".md":
            continue
        reached.add(path)
        for link in Page(path).links():
            if not link.startswith(("http://", "https://", "#")):
                target = (path.parent / unquote(link).partition("#")[0]).resolve()
                if target.is_file():
                    queue.append(target)

    assert {page.name for page in all_pages() if page.path not in reached} == set()


def test_the_readme_names_no_hosts_and_shows_both_make_commands() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")

    assert not re.search(r"https?://(?!127\.0\.0\.1|localhost)", readme)
    assert "make demo" in readme
    assert "make test" in readme


def test_the_readme_shows_an_image_in_both_themes() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")

    images = re.findall(r'\bsrc(?:set)?="([^"]+)"', readme)

    assert len(images) == 2
    assert all((ROOT / image).stat().st_size < MOST_IMAGE_BYTES for image in images)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 3


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_runs_by_itself(example: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(example)],
        cwd=tmp_path,
        env={**os.environ, "LONGWATCH_DATA": str(tmp_path / "data")},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )

    assert "Warning" not in done.stderr
    assert done.returncode == 0, done.stderr


def test_files_and_tests_that_pages_name_exist() -> None:
    tests = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
    missing = []
    for page in all_pages():
        for span in page.code_spans():
            for folder, pattern in PATHS:
                for path in pattern.findall(span):
                    if not (folder / path).exists():
                        missing.append(f"{page.name}: {path}")
            for name in re.findall(r"\btest_\w+\b(?!\.py)", span):
                if f"def {name}(" not in tests:
                    missing.append(f"{page.name}: {name}")

    assert missing == []


def test_classes_that_the_glossary_names_exist() -> None:
    code = "\n".join(path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py"))
    defined = set(re.findall(r"^(?:class|type) (\w+)|^(\w+) = ", code, re.MULTILINE))
    rows = re.findall(r"^\| \*\*.* \| ([^|]+) \|$", Page(ROOT / "docs/glossary.md").text, re.MULTILINE)

    named = {name for row in rows for name in re.findall(r"`([A-Z]\w+)`", row)}

    assert named
    assert named - {name for pair in defined for name in pair} == set()


def test_files_and_packages_that_the_architecture_names_exist() -> None:
    text = Page(ROOT / "docs/architecture.md").text
    names = "|".join(PACKAGES)
    files = re.findall(rf"(?<![\w/])(?:{names})/[\w/-]+\.(?:py|js)\b", text)
    packages = re.findall(rf"`((?:{names})(?:/\w+)*/?)`", text)

    assert [path for path in (*files, *packages) if not (SOURCE / path).exists()] == []
    assert {path.rstrip("/") for path in packages} >= set(PACKAGES)
