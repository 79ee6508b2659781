"""`longwatch export RUN --html`: a run as one file."""

from __future__ import annotations

from pathlib import Path

from tests.acceptance.conftest import Longwatch


def test_a_run_becomes_one_file_with_its_events_inside(
    longwatch: Longwatch, journal: str, tmp_path: Path
) -> None:
    done = longwatch("export", "wf-1a2b3c4d", "--html", "-o", "report.html", "--journal", journal)

    assert done.returncode == 0, done.stderr
    assert "wf-1a2b3c4d to report.html" in done.stderr
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert '"type":"workflow_complete"' in page


def test_without_a_file_the_page_goes_to_standard_output(longwatch: Longwatch, journal: str) -> None:
    done = longwatch("export", "wf-1a2b3c4d", "--format", "html", "--journal", journal)

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("<!doctype html>")
    assert done.stdout.endswith("</html>\n")


def test_a_page_holds_one_run(longwatch: Longwatch, journal: str) -> None:
    done = longwatch("export", "wf-1a2b3c4d", "wf-1b00ffee", "--html", "--journal", journal)

    assert done.returncode == 2
    assert "holds one run, not 2" in done.stderr
