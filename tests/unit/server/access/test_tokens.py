"""Where tokens come from."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from longwatch.errors import InvalidInput
from longwatch.server.access.tokens import find_tokens


def test_tokens_are_made_once_in_a_file_of_the_users_own(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "tokens.json"

    first, where = find_tokens(file, {})
    again, _ = find_tokens(file, {})

    assert (where, first) == (str(file), again)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_the_environment_comes_first_and_makes_no_file(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"

    tokens, where = find_tokens(file, {"LONGWATCH_TOKEN": "0123456789abcdef"})

    assert (tokens.write, tokens.read, where) == ("0123456789abcdef", None, "LONGWATCH_TOKEN")
    assert not file.exists()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"write": 5}', '{"write": "short"}', "\x00"])
def test_a_file_without_tokens_is_reported(tmp_path: Path, text: str) -> None:
    file = tmp_path / "tokens.json"
    file.write_text(text)
    file.chmod(0o600)

    with pytest.raises(InvalidInput):
        find_tokens(file, {})


def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    find_tokens(file, {})
    file.chmod(0o640)

    with pytest.raises(InvalidInput, match="chmod 600"):
        find_tokens(file, {})
