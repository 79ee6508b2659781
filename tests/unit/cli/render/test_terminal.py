from __future__ import annotations

import io
import json
from collections.abc import Mapping

import pytest

from longwatch.cli.render.styles import Segment, paint
from longwatch.cli.render.terminal import ProgressLine, Terminal, progress_text, wants_colour, write_document
from longwatch.testing.clock import FakeClock


class Screen(io.StringIO):
    """A terminal to write on."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environment", "on_a_terminal", "in_a_pipe"),
    [
        ({}, True, False),
        ({"NO_COLOR": "1"}, False, False),
        ({"NO_COLOR": ""}, True, False),
        ({"FORCE_COLOR": "1"}, True, True),
        ({"FORCE_COLOR": "0"}, True, False),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False, False),
        ({"TERM": "dumb"}, False, False),
    ],
)
def test_colour_follows_the_conventions(
    environment: Mapping[str, str], on_a_terminal: bool, in_a_pipe: bool
) -> None:
    assert wants_colour(Screen(), environment) is on_a_terminal
    assert wants_colour(io.StringIO(), environment) is in_a_pipe


def test_a_line_without_colour_has_no_escape_sequences() -> None:
    line = [Segment("✓ ", "good"), Segment("done   ")]

    assert paint(line, colour=False) == "✓ done"
    assert paint(line, colour=True) == "\x1b[32m✓ \x1b[0mdone"


def test_a_pipe_has_no_width_unless_it_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", io.StringIO())
    monkeypatch.delenv("COLUMNS", raising=False)

    assert Terminal.of_stdout().columns is None

    monkeypatch.setenv("COLUMNS", "40")
    assert Terminal.of_stdout().columns == 40


def test_progress_appears_only_when_the_work_is_slow_and_leaves_no_trace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, screen = FakeClock(), Screen()
    monkeypatch.setattr("sys.stderr", screen)

    with ProgressLine("Reading", clock=clock, total=100) as progress:
        progress.add(10)
        assert screen.getvalue() == ""
        clock.advance(1)
        progress.add(10)
        assert screen.getvalue().endswith("Reading 20 of 100 (20 %)")

    assert screen.getvalue().endswith("\r\x1b[K")


def test_progress_is_silent_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, log = FakeClock(), io.StringIO()
    monkeypatch.setattr("sys.stderr", log)

    with ProgressLine("Reading", clock=clock) as progress:
        clock.advance(60)
        progress.add(10)

    assert log.getvalue() == ""


def test_progress_without_a_true_total_only_counts() -> None:
    assert progress_text("Reading", 1500, None) == "Reading 1,500"
    assert progress_text("Reading", 11, 10) == "Reading 11"


@pytest.mark.parametrize(("output", "lines"), [("json", 4), ("jsonl", 1)])
def test_a_document_is_indented_or_one_line(
    output: str, lines: int, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    write_document({"deleted": 3, "dry_run": False}, output)

    printed = capsysbinary.readouterr().out
    assert (len(printed.splitlines()), json.loads(printed)) == (lines, {"deleted": 3, "dry_run": False})
