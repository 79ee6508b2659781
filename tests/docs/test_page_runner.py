"""The reader of the pages notices what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.page_runner import Reader, assert_printed, loose
from tests.docs.pages import Page


def written(folder: Path, text: str) -> Page:
    path = folder / "page.md"
    path.write_text(text, encoding="utf-8")
    return Page(path)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("```python\nprint(2)\n```\n```output\n3\n```\n", "and it printed"),
        ("```python\n1 / 0\n```\n", "ZeroDivisionError"),
        ("```console\n$ false\n```\n", "exit code 1"),
        ("```console\n$ true  # exits 1\n```\n", "exit code 0"),
        ("```console\n$ echo hello\ngoodbye\n```\n", "and it printed"),
        ("```console\n$ echo hello &\ngoodbye\n```\n", "and it printed"),
        ("```console\n$ kill %1\n```\n", "no job runs"),
        ("```sh\nrm -rf /\n```\n", "say above the block why"),
        ("```cobol\nSTOP RUN.\n```\n", "unknown language"),
    ],
)
def test_a_wrong_block_is_noticed(text: str, complaint: str, tmp_path: Path) -> None:
    page = written(tmp_path, text)

    with pytest.raises(AssertionError, match=complaint), Reader(tmp_path) as reader:
        reader.read(page)


def test_settings_that_do_not_exist_are_noticed(tmp_path: Path) -> None:
    page = written(tmp_path, '```toml\njurnal = "memory://"\n```\n')

    with pytest.raises(Exception, match="did you mean journal"), Reader(tmp_path) as reader:
        reader.read(page)


def test_blocks_share_a_namespace_files_and_variables(tmp_path: Path) -> None:
    page = written(
        tmp_path,
        "```python\nword = 'hello'\n```\n```python\nprint(word)\n```\n```output\nhello\n```\n"
        "```python\n# say.py\nimport os\nprint(os.environ['WORD'])\n```\n"
        "```console\n$ export WORD=bye\n$ python say.py\nbye\n```\n",
    )

    with Reader(tmp_path) as reader:
        reader.read(page)


def test_a_command_in_the_background_runs_until_it_is_ended(tmp_path: Path) -> None:
    page = written(
        tmp_path,
        "```python\n# job.py\nimport os, signal\nfrom pathlib import Path\n"
        "Path('pid').write_text(str(os.getpid()))\nprint('ready')\nsignal.pause()\n```\n"
        "```console\n$ python job.py &\nready\n$ kill -0 $(cat pid)\n$ kill %1\n"
        "$ kill -0 $(cat pid)  # exits 1\n```\n",
    )

    with Reader(tmp_path) as reader:
        reader.read(page)


def test_ids_times_and_bars_may_differ() -> None:
    one = "✓ search #1  51 ms ╺━━━━  wf-a540a7b5c569  22:58:53.934"
    other = "✓ search (try 2) 1.2 s    ━━╸ wf-0e07… 09:00:00"

    assert loose(one) == loose(other)


def test_an_ellipsis_stands_for_anything_and_words_do_not() -> None:
    assert_printed("page", ["first", "…", "last … word"], "first\nsecond\nthird\nlast and final word\n")

    with pytest.raises(AssertionError):
        assert_printed("page", ["first", "last"], "first\nsecond\nlast\n")
