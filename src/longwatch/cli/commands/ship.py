"""`longwatch ship`: delivers the events of the outbox."""

from __future__ import annotations

import click

from longwatch.cli.exit_codes import ExitCode, of_success
from longwatch.cli.options import Invocation, common_options, output_option, pass_invocation
from longwatch.cli.render.terminal import ProgressLine, remark, write_document, write_text
from longwatch.journal.base import Journal
from longwatch.journal.factory import open_journal
from longwatch.recording.outbox import Outbox, ShipReport

WAITS_SECONDS = (1, 2, 4, 8, 15)  # between attempts; afterwards the events stay in the outbox


@click.command()
@click.option("--once", is_flag=True, help="Try once instead of retrying for 30 s.")
@output_option()
@common_options
@pass_invocation
def command(invocation: Invocation, once: bool, output: str) -> int:
    """Deliver the events that wait in the outbox.

    Events that could not be stored wait in a file on this machine. Each is delivered to the journal that it
    was recorded for; those of deleted runs are dropped. Exit codes: 3 events still wait, and the reason is
    printed; 1 a journal refused events.
    """
    settings, clock = invocation.settings(), invocation.clock

    def open_target(url: str) -> Journal:
        return open_journal(url, settings=settings, clock=clock)

    total = ShipReport()
    outbox = Outbox(settings.outbox_path, clock=clock)
    try:
        for wait in (0,) if once else (0, *WAITS_SECONDS):
            if wait:
                reason = total.errors[0].removesuffix(".")
                remark(f"longwatch: {reason}. {total.left:,} waiting, next attempt in {wait} s.")
                clock.sleep(wait)
            with ProgressLine("Shipping:", clock=clock) as progress:
                report = outbox.ship(open_target, clock=clock, progress=progress.at)
            total.shipped += report.shipped
            total.refused += report.refused
            total.dropped += report.dropped
            total.left, total.errors = report.left, report.errors
            if not total.errors:
                break
        refused = outbox.refused()
    finally:
        outbox.close()
    for error in total.errors:
        remark(f"longwatch: {error}")
    for event_id, reason in refused:
        remark(f"longwatch: the journal refused event {event_id}: {reason}")
    if output != "text":
        write_document(
            {
                "shipped": total.shipped,
                "left": total.left,
                "refused": total.refused,
                "dropped": total.dropped,
                "errors": total.errors,
            },
            output,
        )
    else:
        write_text(summary(total))
    return exit_code(total)


def summary(report: ShipReport) -> str:
    """The result in one line."""
    if not (report.shipped or report.left or report.refused or report.dropped):
        return "The outbox is empty."
    parts = [f"{report.shipped:,} shipped"]
    parts += [f"{report.left:,} still waiting"] if report.left else []
    parts += [f"{report.refused:,} refused"] if report.refused else []
    parts += [f"{report.dropped:,} of deleted runs dropped"] if report.dropped else []
    return ", ".join(parts) + "."


def exit_code(report: ShipReport) -> ExitCode:
    """Whether events still wait, were refused, or were all delivered."""
    if report.errors or report.left:
        return ExitCode.UNAVAILABLE
    return of_success(not report.refused)
