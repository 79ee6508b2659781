"""`longwatch verify RUN`: detects missing and altered events."""

from __future__ import annotations

from collections.abc import Iterator

import click

from longwatch.cli.exit_codes import of_success
from longwatch.cli.options import Invocation, common_options, output_option, pass_invocation, run_argument
from longwatch.cli.render.styles import Look, Segment, StyledLine
from longwatch.cli.render.terminal import Terminal, write_document
from longwatch.cli.render.text import clean, count_text
from longwatch.cli.resolve import open_for_reading, read_events
from longwatch.clock import iso_from_ms
from longwatch.journal.base import Arrivals
from longwatch.journal.deletions import find_tombstone
from longwatch.journal.run_lookup import find_run
from longwatch.journal.verify import Completeness, Verification, Verifier
from longwatch.journal.views import VerificationView

MAX_POSITIONS = 20  # of unreadable events that are listed

_LOOKS = {
    Completeness.COMPLETE: Look("✓", "good"),
    Completeness.OPEN: Look("●", "busy"),
    Completeness.EXPIRED: Look("○", "dim"),
    Completeness.DELETED: Look("○", "dim"),
    Completeness.MISSING: Look("✗", "bad"),
    Completeness.ALTERED: Look("✗", "bad"),
}


@click.command()
@run_argument
@output_option()
@common_options
@pass_invocation
def command(invocation: Invocation, run: str, output: str) -> int:
    """Check that no event of a run is missing or altered.

    Every producer numbers its events, chains them by digests and states their count when it closes. The
    result is complete, open (a producer has not closed), missing, altered, expired or deleted. The exit
    code is 1 if events are missing or altered, otherwise 0.

    This detects damage. It does not detect an adversary who rewrites the whole chain, nor a change of the
    last event of a producer, whose digest no later event carries.
    """
    clock = invocation.clock
    verifier = Verifier()
    with open_for_reading(invocation) as journal:
        stone = find_tombstone(journal, run)
        if stone is not None:
            return _report(run, Verification.of_deleted(stone), output)
        found = find_run(journal, run)
        for event in read_events(journal, found, clock=clock):
            verifier.add(event)
        counts_exactly = isinstance(journal, Arrivals)
    report = verifier.report(
        clock.now_ms(),
        started_at=found.started_at,
        expired_before=found.expired_before,
        counted=found.events if counts_exactly else None,
    )
    return _report(found.run_id, report, output)


def _report(run_id: str, report: Verification, output: str) -> int:
    if output != "text":
        write_document(VerificationView.of(run_id, report), output)
    else:
        Terminal.of_stdout().show(verification_lines(run_id, report))
    return of_success(not report.answer.is_damage)


def verification_lines(run_id: str, report: Verification) -> Iterator[StyledLine]:
    """The result for the run, then the details of each producer."""
    symbol, style = _LOOKS[report.answer]
    yield [Segment(f"{symbol} {report.answer.value}", style), Segment(f"  {clean(run_id)}", "strong")]
    if report.tombstone is not None:
        stone = report.tombstone
        yield [Segment(f"  deleted at {iso_from_ms(stone.deleted_at)} by {clean(stone.by)}")]
        removed = f"  {count_text(stone.events, 'event')} removed, digest {stone.digest or 'none'}"
        yield [Segment(removed, "dim")]
    if report.expired_before is not None and report.answer is not Completeness.EXPIRED:
        yield [Segment(f"  expired before {iso_from_ms(report.expired_before)}", "dim")]
    for producer in report.producers:
        for sentence in producer.sentences():
            yield [Segment(f"  {clean(sentence)}")]
    if report.uncounted:
        yield [
            Segment(f"  {report.uncounted:,} fewer events than the journal counted; see `longwatch doctor`")
        ]
    if report.unreadable:
        positions = ", ".join(map(str, report.unreadable[:MAX_POSITIONS]))
        more = ", …" if len(report.unreadable) > MAX_POSITIONS else ""
        yield [Segment(f"  unreadable, without a number: at {clean(positions)}{more}")]
    if report.unnumbered:
        events = count_text(report.unnumbered, "event")
        yield [Segment(f"  unnumbered: {events} of other producers, which cannot be verified", "dim")]
