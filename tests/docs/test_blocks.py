"""Every block of code in the documentation does what the page states."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.page_runner import ALWAYS_MARKED, LANGUAGES, Reader
from tests.docs.pages import Page, all_pages

MOST_NOT_RUN = 30  # blocks in all pages together
NEEDS_AWS = "needs an AWS account"  # those are checked by test_aws_commands.py


@pytest.mark.parametrize("page", all_pages(), ids=lambda page: page.name)
def test_every_block_of_a_page_runs_from_top_to_bottom(page: Page, tmp_path: Path) -> None:
    with Reader(tmp_path) as reader:
        reader.read(page)


def test_a_block_that_is_not_run_has_a_reason_and_there_are_few() -> None:
    marked = [
        block
        for page in all_pages()
        for block in page.blocks()
        if block.not_run is not None and block.not_run != NEEDS_AWS
    ]

    assert len(marked) <= MOST_NOT_RUN, "\n".join(f"{block.where}: {block.not_run}" for block in marked)


def test_a_block_that_is_not_run_is_at_least_python() -> None:
    for page in all_pages():
        for block in page.blocks():
            if block.not_run is not None and block.language == "python":
                compile(block.text, block.where, "exec")


def test_every_block_names_a_language_that_a_test_covers() -> None:
    blocks = [block for page in all_pages() for block in page.blocks()]

    strange = [f"{block.where}: {block.language!r}" for block in blocks if block.language not in LANGUAGES]
    bare = [block.where for block in blocks if block.language in ALWAYS_MARKED and block.not_run is None]

    assert strange == []
    assert bare == []
