"""`longwatch search`: full text over the events of all runs."""

from __future__ import annotations

from collections.abc import Sequence

import click

from longwatch.cli.options import (
    Invocation,
    QueryCommand,
    common_options,
    output_option,
    pass_invocation,
)
from longwatch.cli.render.styles import Segment, StyledLine
from longwatch.cli.render.terminal import Terminal, remark, write_json, write_json_lines
from longwatch.cli.render.text import clean, count_text
from longwatch.cli.render.times import start_text
from longwatch.cli.resolve import open_for_reading
from longwatch.journal.search import SearchHit, SearchHitView, search_events
from longwatch.model.query_language import parse_query


@click.command(cls=QueryCommand)
@click.argument("terms", metavar="QUERY", nargs=-1, required=True)
@click.option(
    "--limit", type=click.IntRange(min=1), default=50, show_default=True, help="Maximum number of events."
)
@output_option()
@common_options
@pass_invocation
def command(invocation: Invocation, terms: Sequence[str], limit: int, output: str) -> None:
    """Search the text of all events, the latest first.

    A word matches the beginnings of words, a phrase in quotes matches words in a row, and all of them must
    be in the event. Terms with a field select the runs, as in `longwatch runs`. On SQLite, an index beside
    the journal answers; it is filled first and can be deleted at any time. On DynamoDB, search one run or
    one day.

    \b
    longwatch search timeout
    longwatch search '"no such column" status:failed since:2d'
    """
    now = invocation.clock.now_ms()
    query = parse_query(" ".join(terms), now_ms=now)
    with open_for_reading(invocation) as journal:
        result = search_events(journal, query, limit=limit, clock=invocation.clock)
    views = [SearchHitView.of(hit) for hit in result.hits]
    if output == "json":
        write_json(views)
    elif output == "jsonl":
        write_json_lines(views)
    else:
        Terminal.of_stdout().show([_line(hit, now) for hit in result.hits])
    if not result.hits:
        remark("No matching events.")
    elif result.cursor is not None:
        remark(f"Showing the latest {count_text(len(views), 'event')}. For more, use --limit.")
    if result.unindexed:
        remark(f"{count_text(result.unindexed, 'event')} not indexed yet. Search again to continue.")


def _line(hit: SearchHit, now_ms: int) -> StyledLine:
    event = hit.event
    return [
        Segment(f"{start_text(event.occurred_at, now_ms=now_ms)}  ", "dim"),
        Segment(f"{clean(event.run_id)}  ", "strong"),
        *(Segment(clean(part.text), "warn" if part.is_match else "") for part in hit.excerpt),
    ]
