"""`longwatch record`: one event, from a shell script."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from longwatch.cli.options import Invocation, common_options, complete_runs, output_option, pass_invocation
from longwatch.cli.render.terminal import remark, write_data, write_document
from longwatch.errors import InvalidInput, JournalUnavailable
from longwatch.model.attempts import FACT_TYPES
from longwatch.model.event import Event
from longwatch.recording.recorder import RecorderStats, configure
from longwatch.recording.scope import RUN_ID_VARIABLE, attempt_from_environment, new_run_id

FLUSH_SECONDS = 10.0


@click.command()
@click.argument("type", metavar="TYPE")
@click.argument("fields", metavar="[KEY=VALUE]...", nargs=-1)
@click.option(
    "--run",
    "run_id",
    metavar="ID",
    shell_complete=complete_runs,
    help=f"Run of the event. [default: {RUN_ID_VARIABLE}, otherwise a new run]",
)
@click.option("--agent", metavar="NAME", help="Agent that recorded the event.")
@click.option("--data", metavar="JSON", help="Payload: a JSON object, @FILE to read one, or - for stdin.")
@output_option()
@common_options
@pass_invocation
def command(
    invocation: Invocation,
    type: str,
    fields: Sequence[str],
    run_id: str | None,
    agent: str | None,
    data: str | None,
    output: str,
) -> None:
    """Record one event.

    TYPE is what happened, such as workflow_start, note or workflow_complete. KEY=VALUE adds text to its
    payload, KEY:=JSON a number, a list or anything else. Prints the id of the run.
    """
    payload = {**payload_from(data), **dict(field_from(field) for field in fields)}
    run_id = run_id or os.environ.get(RUN_ID_VARIABLE) or new_run_id()
    settings = invocation.settings()
    if not settings.enabled:
        origin = settings.origins["recording.enabled"]
        raise InvalidInput(f"Recording is disabled by {origin}. Set recording.enabled to true.")
    attempt = attempt_from_environment(run_id)
    if attempt is not None and type in FACT_TYPES:
        payload.setdefault("attempt", attempt)
    Event(
        run_id=run_id, event_id="-", type=type, occurred_at=0
    )  # raises InvalidEvent for what no journal accepts
    if not invocation.debug:  # one line below reports what the recorder logs
        logging.getLogger("longwatch").addHandler(logging.NullHandler())
    recorder = configure(settings=settings)
    try:
        recorder.record(run_id, type, payload, agent_name=agent)
        flushed = recorder.flush(FLUSH_SECONDS)
    finally:
        recorder.close()
    where = _storage_of(recorder.stats(), flushed=flushed)
    if output != "text":
        write_document({"run_id": run_id, "stored_in": where}, output)
    else:
        write_data([run_id])


def payload_from(data: str | None) -> dict[str, object]:
    """The payload in `--data`."""
    if data is None:
        return {}
    try:
        if data == "-":
            text = sys.stdin.read()
        else:
            text = Path(data[1:]).read_text(encoding="utf-8") if data.startswith("@") else data
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"Cannot read --data {data}: {error}") from error
    try:
        value = json.loads(text)
    except ValueError as error:
        raise InvalidInput(f'Invalid JSON in --data: {error}. Use --data \'{{"key": "value"}}\'.') from error
    if not isinstance(value, dict):
        raise InvalidInput(f"--data must be a JSON object, not {text.strip()[:40]!r}.")
    return value


def field_from(text: str) -> tuple[str, object]:
    """The name and value in `key=text` or `key:=JSON`."""
    key, equals, value = text.partition("=")
    if not equals or not key.rstrip(":"):
        raise InvalidInput(
            f"Invalid field {text!r}. Use KEY=VALUE, or KEY:=JSON for values that are not text."
        )
    if not key.endswith(":"):
        return key, value
    try:
        return key[:-1], json.loads(value)
    except ValueError as error:
        raise InvalidInput(f"Invalid JSON after := in {text!r}. Use KEY=VALUE for text.") from error


def _storage_of(stats: RecorderStats, *, flushed: bool) -> str:
    if stats.refused:
        raise InvalidInput(f"The journal rejected the event: {stats.last_error}")
    if stats.dropped or not flushed:
        reason = stats.last_error or f"no response within {FLUSH_SECONDS:.0f} s"
        raise JournalUnavailable(f"The event was not recorded: {reason}")
    if stats.in_outbox:
        remark(
            f"longwatch: the journal is unavailable ({stats.last_error or 'no response'}). The event "
            "waits in the outbox. Deliver it with `longwatch ship`."
        )
        return "outbox"
    return "journal"
