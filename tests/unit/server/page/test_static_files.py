"""The page's files: what is in the folder is served, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from longwatch.server.errors import ApiError
from longwatch.server.page.bundle import VIEWER
from longwatch.server.page.static_files import SECTIONS, Pages


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    viewer = tmp_path / "viewer"
    (viewer / "app").mkdir(parents=True)
    (viewer / "index.html").write_text("<!doctype html>")
    (viewer / "app" / "main.js").write_text("export {};")
    (viewer / "notes.py").write_text("secret")
    (tmp_path / "outside.js").write_text("secret")
    (viewer / "link.js").symlink_to(tmp_path / "outside.js")
    return viewer


def test_a_module_has_the_type_that_browsers_demand_and_a_strict_policy(folder: Path) -> None:
    response = Pages(folder).respond("app/main.js", None)

    assert response.headers["content-type"] == "text/javascript; charset=utf-8"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert "script-src 'self'" in response.headers["content-security-policy"]
    assert "unsafe" not in response.headers["content-security-policy"]


def test_an_unchanged_file_is_304_and_a_changed_one_is_read_again(folder: Path) -> None:
    pages = Pages(folder)
    tag = pages.respond("index.html", None).headers["etag"]

    same = pages.respond("index.html", tag)
    (folder / "index.html").write_text("<!doctype html><p>new")
    changed = pages.respond("index.html", tag)

    assert (same.status_code, changed.status_code) == (304, 200)
    assert bytes(changed.body).endswith(b"new")


@pytest.mark.parametrize(
    "name",
    [
        "../outside.js",
        "app/../../outside.js",
        "/etc/passwd",
        "link.js",
        "notes.py",
        "none.js",
        "app",
        "",
        "a\0.js",
    ],
)
def test_a_path_that_is_not_a_file_of_the_page_is_not_found(folder: Path, name: str) -> None:
    with pytest.raises(ApiError) as refusal:
        Pages(folder).respond(name, None)

    assert refusal.value.status == 404


def test_the_sections_are_those_that_the_page_routes() -> None:
    router = (VIEWER / "app" / "router.js").read_text(encoding="utf-8")
    routes = router.partition("const ROUTES")[2].partition("];")[0]

    routed = re.findall(r"/\^\\/(?:\(\?:)?(\w+)", routes)  # `/^\/NAME` or `/^\/(?:NAME`

    assert len(routed) == routes.count("/^")
    assert set(routed) == set(SECTIONS)
