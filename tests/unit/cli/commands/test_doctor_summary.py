"""The last line of `longwatch doctor`: it counts warnings, too."""

from __future__ import annotations

import pytest

from longwatch.cli.commands.doctor import finding_lines
from longwatch.cli.doctor_checks import Finding


@pytest.mark.parametrize(
    ("warnings", "problems", "expected"),
    [
        ([], [], "Everything is in order."),
        (["slow"], [], "No problems, 1 warning."),
        (["slow", "old"], [], "No problems, 2 warnings."),
        (["slow"], ["damaged"], "1 problem."),
    ],
)
def test_the_last_line_counts_problems_then_warnings(
    warnings: list[str], problems: list[str], expected: str
) -> None:
    finding = Finding("journal", warnings=warnings, problems=problems)

    *_, last = finding_lines([finding], width=80)

    assert "".join(segment.text for segment in last) == expected
