"""The open runs as lines: status, agent, last call, waiting, age and ETA."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from longwatch.cli.render.event_line import event_text
from longwatch.cli.render.styles import STATUS_LOOKS, Segment, StyledLine
from longwatch.cli.render.table import Column, table
from longwatch.cli.render.text import clean, count_text, fit
from longwatch.cli.render.times import ago_text, duration_text
from longwatch.cli.render.usage import waiting_text
from longwatch.model.event import Event
from longwatch.model.run import Condition, RunSummary

KEYS = "↑ ↓: select · Enter: open · q: quit"

COLUMNS = (
    Column("", 20, 1),
    Column("", 19, 1),
    Column("RUN", 15, 8, elastic=True),
    Column("ID", 7, 11, elastic=True),
    Column("AGE", 12, 8, right=True),
    Column("AGENT", 8, 8, elastic=True),
    Column("LAST CALL", 14, 12, elastic=True),
    Column("CONDITION", 13, 10, elastic=True),
    Column("LAST EVENT", 6, 8),
    Column("ETA", 10, 6),
)


@dataclass(frozen=True, slots=True)
class OpenRun:
    """An open run, with what its line shows."""

    run: RunSummary
    conditions: Sequence[Condition] = ()
    last_event: Event | None = None  # of a call
    usual_ms: float | None = None  # the duration of earlier runs like it


def open_run_lines(
    runs: Sequence[OpenRun],
    *,
    selected: str | None,
    now_ms: int,
    width: int,
    height: int,
    error: str | None = None,
) -> list[StyledLine]:
    """The list as it fits the screen, with the selected run in view."""
    room = max(1, height - 5 - (error is not None))  # heading, titles, blank, keys and the cursor
    at = next((at for at, each in enumerate(runs) if each.run.run_id == selected), 0)
    first = min(max(0, at - room + 1), max(0, len(runs) - room))
    lines: list[StyledLine] = [[Segment(fit(f"{count_text(len(runs), 'open run')}", width), "strong")]]
    if error is not None:
        lines.append([Segment(fit(clean(f"! {error}"), width), "warn")])
    shown = runs[first : first + room]
    if shown:
        rows = [_row(each, now_ms, is_selected=each.run.run_id == selected) for each in shown]
        used = [at for at in range(len(COLUMNS)) if any(row[at].text.strip() for row in rows) or at == 0]
        columns = [COLUMNS[at] for at in used]
        lines += table(columns, [[row[at] for at in used] for row in rows], width=width)
    else:
        lines.append([Segment(fit("Runs appear here as soon as they start.", width), "dim")])
    return [*lines, [Segment("")], [Segment(fit(KEYS, width), "dim")]]


def _row(found: OpenRun, now_ms: int, *, is_selected: bool) -> list[Segment]:
    run, last = found.run, found.last_event
    symbol, style = STATUS_LOOKS[run.status]
    return [
        Segment("›" if is_selected else " ", "strong"),
        Segment(symbol, style),
        Segment(clean(run.name or run.run_id), "strong" if is_selected else ""),
        Segment(clean(run.run_id if run.name else ""), "dim"),
        Segment(duration_text(run.duration_ms(now_ms) or 0)),
        Segment(clean((last.agent_name if last else None) or "")),
        Segment(clean(event_text(last)) if last else ""),
        Segment(clean(_condition(found, now_ms)), "warn"),
        Segment(ago_text(run.last_event_at, now_ms=now_ms), "dim"),
        Segment(eta_text(run.duration_ms(now_ms), found.usual_ms), "dim"),
    ]


def _condition(found: OpenRun, now_ms: int) -> str:
    if found.run.waiting:
        return waiting_text(found.run.waiting[0], now_ms=now_ms)
    gravest = max(found.conditions, key=lambda each: each.severity, default=None)
    return gravest.name if gravest else ""


def eta_text(age_ms: int | None, usual_ms: float | None) -> str:
    """`~2 min 00 s left`, from what earlier runs took; `usually 3 min 00 s` once it takes longer."""
    if age_ms is None or usual_ms is None:
        return ""
    if age_ms > usual_ms:
        return f"usually {duration_text(usual_ms)}"
    return f"~{duration_text(usual_ms - age_ms)} left"
