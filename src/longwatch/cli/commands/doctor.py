"""`longwatch doctor`: checks the installation and names the next step for each problem."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial

import click

from longwatch.cli.doctor_checks import (
    Finding,
    check_documents,
    check_executions,
    check_integrity,
    check_journal,
    check_notifications,
    check_outbox,
    check_settings,
    check_versions,
    run_check,
)
from longwatch.cli.execution_options import store_option
from longwatch.cli.exit_codes import of_success
from longwatch.cli.options import Invocation, common_options, output_option, pass_invocation
from longwatch.cli.render.header import wrap_text
from longwatch.cli.render.styles import Segment, StyledLine
from longwatch.cli.render.terminal import Terminal, write_document
from longwatch.cli.render.text import clean, columns_of, count_text, pad

FREE_COLUMNS = 10_000
_INDENT = 2


@click.command()
@click.option("--full", is_flag=True, help="Decode every event of a file.")
@store_option
@output_option()
@common_options
@pass_invocation
def command(invocation: Invocation, full: bool, url: str | None, output: str) -> int:
    """Check settings, journal, stores, outbox, notifications and versions.

    Prints every setting with its origin, the contents of the journal, the document and execution stores, the
    outbox, the rules and the queue of notifications, and the installed versions. A journal in a SQLite file
    is checked for damage: SQLite checks its structure, and a sample of its events is decoded, or all of them
    with --full.

    Exit code 1 means that there is a problem. Each problem is printed with the next step.
    """
    findings = run_checks(invocation, full=full, executions=url)
    if output != "text":
        write_document(findings_view(findings), output)
    else:
        terminal = Terminal.of_stdout()
        terminal.show(finding_lines(findings, width=terminal.columns))
    return of_success(not any(finding.problems for finding in findings))


def run_checks(invocation: Invocation, *, full: bool = False, executions: str | None = None) -> list[Finding]:
    """Run every check that the settings allow."""
    on_settings, settings = check_settings(invocation.settings, os.environ)
    findings = [on_settings]
    if settings is not None:
        findings.append(run_check("Journal", partial(check_journal, settings, invocation.clock)))
        findings.append(run_check("Integrity", partial(check_integrity, settings, invocation.clock, full)))
        findings.append(run_check("Documents", partial(check_documents, settings)))
        findings.append(run_check("Executions", partial(check_executions, settings, url=executions)))
        findings.append(run_check("Outbox", partial(check_outbox, settings, invocation.clock)))
        findings.append(run_check("Notifications", partial(check_notifications, settings, invocation.clock)))
    return [*findings, run_check("Versions", check_versions)]


def findings_view(findings: Sequence[Finding]) -> dict[str, object]:
    """The findings as JSON."""
    return {
        "ok": not any(finding.problems for finding in findings),
        "parts": {
            finding.title.lower(): {
                "facts": [
                    {"name": name, "value": value, "about": about} for name, value, about in finding.facts
                ],
                "warnings": finding.warnings,
                "problems": finding.problems,
            }
            for finding in findings
        },
    }


def finding_lines(findings: Sequence[Finding], *, width: int | None) -> Iterator[StyledLine]:
    """The findings as text: facts in columns, then warnings, problems last and red."""
    room = width or FREE_COLUMNS
    for finding in findings:
        symbol, style = _mark(finding)
        yield [Segment(f"{symbol} ", style), Segment(finding.title, "strong")]
        names = min(max((columns_of(name) for name, _, _ in finding.facts), default=0), room // 2)
        for name, value, about in finding.facts:
            yield from _fact_lines(clean(name), clean(value), clean(about), names, room)
        for warning in finding.warnings:
            yield from _note_lines("!", warning, "warn", room)
        for problem in finding.problems:
            yield from _note_lines("✗", problem, "bad", room)
    problems = sum(len(finding.problems) for finding in findings)
    warnings = sum(len(finding.warnings) for finding in findings)
    yield [Segment("")]
    if problems:
        yield [Segment(f"{count_text(problems, 'problem')}.", "bad")]
    elif warnings:
        yield [Segment(f"No problems, {count_text(warnings, 'warning')}.", "warn")]
    else:
        yield [Segment("Everything is in order.", "good")]


def _mark(finding: Finding) -> tuple[str, str]:
    if finding.problems:
        return "✗", "bad"
    return ("!", "warn") if finding.warnings else ("✓", "good")


def _fact_lines(name: str, value: str, about: str, names: int, room: int) -> Iterator[StyledLine]:
    left = " " * _INDENT + pad(name, names) + "  "
    if columns_of(left) + columns_of(value) + 2 + columns_of(about) <= room:
        yield [Segment(left, "dim"), Segment(value), Segment(f"  {about}" if about else "", "dim")]
        return
    deeper = " " * (_INDENT * 2)
    yield [Segment(f"{' ' * _INDENT}{name}", "dim")]
    if columns_of(deeper + value + about) + 2 <= room:
        yield [Segment(deeper + value), Segment(f"  {about}", "dim")]
        return
    for text, style in ((value, ""), (about, "dim")):
        for part in wrap_text(text, room - len(deeper)):
            yield [Segment(deeper + part, style)]


def _note_lines(mark: str, text: str, style: str, room: int) -> Iterator[StyledLine]:
    for number, part in enumerate(wrap_text(clean(text), room - _INDENT - 2)):
        lead = mark if number == 0 else " "
        yield [Segment(f"{' ' * _INDENT}{lead} {part}", style)]
