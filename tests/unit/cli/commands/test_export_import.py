"""`longwatch export` and `import` move runs between journals as JSON lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from longwatch.errors import InvalidInput
from tests.unit.cli.invocation import invoke


def test_an_export_can_be_imported_elsewhere_and_twice(file: str, tmp_path: Path) -> None:
    invoke("export", "wf-1a", "wf-1b", "--journal", file, "-o", "out.jsonl")

    for _ in range(2):
        done = invoke("import", "out.jsonl", "--journal", "sqlite:///copy.db")
        assert done.stderr == "Imported 21 events.\n"

    assert invoke("export", "wf-1a", "wf-1b", "--journal", "sqlite:///copy.db").stdout == (
        (tmp_path / "out.jsonl").read_text(encoding="utf-8")
    )


def test_an_export_that_fails_leaves_no_partial_file(file: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be written"):
        invoke("export", "wf-1a", "--journal", file, "-o", "nowhere/out.jsonl")

    assert list(tmp_path.glob("**/*.part")) == []


def bad_file(tmp_path: Path, bad: int) -> Path:
    good = invoke("export", "wf-1a", "--journal", "sqlite:///runs.db").stdout
    file = tmp_path / "bad.jsonl"
    file.write_text(good + "{}\n" * bad + "\n", encoding="utf-8")
    return file


def test_all_invalid_lines_are_reported_and_nothing_is_imported(file: str, tmp_path: Path) -> None:
    bad_file(tmp_path, 25)

    with pytest.raises(InvalidInput) as caught:
        invoke("import", "bad.jsonl", "--journal", "sqlite:///copy.db")

    lines = str(caught.value).splitlines()
    assert lines[0] == "25 invalid lines, nothing imported:"
    assert lines[1] == "line 17: field run_id is missing"
    assert lines[21] == "… and 5 more"
    assert not (tmp_path / "copy.db").exists()


def test_the_valid_lines_are_imported_on_request(file: str, tmp_path: Path) -> None:
    bad_file(tmp_path, 2)

    done = invoke("import", "bad.jsonl", "--keep-going", "--journal", "sqlite:///copy.db")

    assert done.return_value == 1
    assert done.stderr.endswith("Imported 16 events. 2 invalid lines skipped.\n")


def test_an_event_that_contradicts_the_journal_is_reported_with_its_line(file: str, tmp_path: Path) -> None:
    lines = invoke("export", "wf-1a", "--journal", file).stdout.splitlines()
    (tmp_path / "other.jsonl").write_text(lines[0].replace("research report", "forged"), encoding="utf-8")

    done = invoke("import", "other.jsonl", "--journal", file)

    assert done.return_value == 1
    assert done.stderr.startswith("line 1: event id ")
    assert "Imported 0 events" in done.stderr
