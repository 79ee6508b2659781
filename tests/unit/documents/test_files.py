"""Paths and project ids: one form, no way out."""

from __future__ import annotations

import posixpath
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.documents.files import (
    MAX_PATH_BYTES,
    MAX_PROJECT_CHARACTERS,
    validate_path,
    validate_prefix,
    validate_project,
)
from longwatch.errors import InvalidPath


@pytest.mark.parametrize(
    "path",
    [
        "a",
        "README.md",
        "docs/ünïcode/日本語 😀.md",
        ".hidden/..name/...",
        "a b/c#d?e%2F",
        "x" * MAX_PATH_BYTES,
        "👩‍👩‍👧.txt",
        "projects",
        "-rf",
    ],
)
def test_an_ordinary_path_stays_unchanged(path: str) -> None:
    assert validate_path(path) == path


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("", "is empty"),
        ("/", "is absolute"),
        ("/etc/passwd", "is absolute"),
        ("C:/x", "is absolute"),
        ("c:x", "is absolute"),
        ("..", "segment"),
        ("../a", "segment"),
        ("a/../../b", "segment"),
        ("a/..", "segment"),
        (".", "segment"),
        ("./a", "segment"),
        ("a/./b", "segment"),
        ("a//b", "empty segment"),
        ("a/", "ends with a slash"),
        ("a\\b", "backslash"),
        ("..\\a", "backslash"),
        ("a\x00", "control character"),
        ("a\nb", "control character"),
        ("a\x7fb", "control character"),
        ("a\x85b", "control character"),
        ("a\u2028b", "control character"),
        ("a\u202egnp.exe", "control character"),
        ("a\ud800", "control character"),
        ("ä" * (MAX_PATH_BYTES // 2) + "x", "longer than 1024 bytes"),
    ],
)
def test_an_invalid_path_is_refused_with_the_reason(path: str, why: str) -> None:
    with pytest.raises(InvalidPath, match=why):
        validate_path(path)


def test_a_path_has_one_unicode_form() -> None:
    assert validate_path("cafe\u0301") == "caf\u00e9"
    assert validate_prefix("cafe\u0301") == "caf\u00e9"


def test_a_form_that_only_resembles_dots_stays_a_name() -> None:
    assert validate_path("\u2025/a") == "\u2025/a"  # a character for two dots, which NFC keeps


@given(st.text())
def test_no_accepted_path_leaves_its_folder(text: str) -> None:
    try:
        path = validate_path(text)
    except InvalidPath:
        return

    assert posixpath.normpath(posixpath.join("/project", path)) == f"/project/{path}"
    assert validate_path(path) == path == unicodedata.normalize("NFC", path)
    assert len(path.encode()) <= MAX_PATH_BYTES


@pytest.mark.parametrize("project", ["p", "my-project", "0a1b", "a.b_c~d:e@f", "x" * MAX_PROJECT_CHARACTERS])
def test_an_ordinary_project_id_stays_unchanged(project: str) -> None:
    assert validate_project(project) == project


@pytest.mark.parametrize(
    "project",
    ["", ".", "..", "-a", "a/b", "a#b", "a b", "ä", "a\n", "x" * (MAX_PROJECT_CHARACTERS + 1), "a?"],
)
def test_a_project_id_that_can_not_be_a_key_is_refused(project: str) -> None:
    with pytest.raises(InvalidPath, match="Invalid project ID"):
        validate_project(project)


def test_half_a_character_is_not_a_prefix() -> None:
    with pytest.raises(InvalidPath, match="not valid Unicode"):
        validate_prefix("a\ud800")
