from __future__ import annotations

import pytest

from longwatch.cli.render.run_views import Arrival, LineView, TailView, headline, watch_lines
from longwatch.cli.render.styles import StyledLine, line_columns, paint
from longwatch.following import WatchPhase, WatchState
from longwatch.model.event import START, Event
from longwatch.model.run import Run, Status, fold
from tests.unit.cli.samples import START_MS, research

NOW = START_MS + 13_240  # three seconds after the last event of the research run


def state(
    phase: WatchPhase = WatchPhase.LIVE,
    *,
    delivered: int = 16,
    failures: int = 0,
    error: str | None = None,
    next_poll: float | None = None,
) -> WatchState:
    return WatchState(
        run_id="wf-1a2b3c4d",
        phase=phase,
        caught_up=phase is not WatchPhase.CATCHING_UP,
        status=Status.RUNNING,
        delivered=delivered,
        failures=failures,
        error=error,
        next_poll_seconds=next_poll,
        cursor=START,
    )


def run() -> Run:
    run = fold(research())
    assert run is not None
    return run


def text(lines: list[StyledLine]) -> list[str]:
    return [paint(line, colour=False) for line in lines]


def watch_text(state: WatchState, run: Run | None, width: int = 100) -> list[str]:
    return text(watch_lines(state, run, now_ms=NOW, width=width))


def test_a_live_watch_shows_how_old_the_last_event_is() -> None:
    assert watch_text(state(), run()) == ["live · 16 events, the last 3 s ago"]


def test_a_polling_watch_shows_its_next_poll() -> None:
    assert watch_text(state(next_poll=0.41), run()) == [
        "live · 16 events, the last 3 s ago · next poll in 0.4 s"
    ]


def test_a_watch_shows_what_it_waits_for() -> None:
    assert watch_text(state(delivered=0), None) == ["live, waiting for the run to start"]
    assert watch_text(state(WatchPhase.CATCHING_UP), run())[0].startswith("catching up · ")
    assert watch_text(state(WatchPhase.DRAINING), run())[0].startswith(
        "the run has ended, waiting for late events"
    )


def test_an_unavailable_journal_is_shown_with_the_backoff() -> None:
    lines = watch_text(state(failures=3, error="no answer from the table", next_poll=3.6), run())

    assert lines[0].startswith("no contact · 16 events")
    assert lines[1] == "! 3 failed polls in a row, next in 4 s: no answer from the table"


@pytest.mark.parametrize("width", [30, 44, 72, 100])
def test_the_state_of_the_watch_and_the_headline_fit_the_width(width: int) -> None:
    away = state(failures=3, error="no answer " * 40, next_poll=3.6)

    lines = watch_lines(away, run(), now_ms=NOW, width=width)
    lines.append(headline(run(), "wf-1a2b3c4d", now_ms=NOW, width=width))

    assert max(map(line_columns, lines)) <= width
    assert len(lines) <= 7


def test_a_headline_names_the_run_and_its_id_if_there_is_room() -> None:
    wide = headline(run(), "wf-1a2b3c4d", now_ms=NOW, width=100)
    narrow = headline(run(), "wf-1a2b3c4d", now_ms=NOW, width=44)
    unknown = headline(None, "wf-later", now_ms=NOW, width=44)

    assert text([wide, narrow, unknown]) == [
        "✓ research report  wf-1a2b3c4d  succeeded  10.2 s",
        "✓ research report  succeeded  10.2 s",
        "○ wf-later  pending",
    ]


class Printed:
    """Remembers what was printed, in the pieces in which it was."""

    def __init__(self) -> None:
        self.pieces: list[list[Arrival]] = []

    def __call__(self, arrivals: list[Arrival]) -> None:
        self.pieces.append(arrivals)

    @property
    def events(self) -> list[Event]:
        return [event for piece in self.pieces for event, _ in piece]


def test_lines_are_printed_in_one_piece_when_nothing_more_came_with_them() -> None:
    printed = Printed()
    view = LineView(printed)

    for event in research():
        view.take(event, late=False)
    view.flush()
    view.flush()

    assert [len(piece) for piece in printed.pieces] == [16]


@pytest.mark.parametrize(("last", "shown"), [(None, 16), (3, 3), (0, 0), (99, 16)])
def test_a_tail_begins_with_the_last_events_in_their_order(last: int | None, shown: int) -> None:
    events = research()
    printed = Printed()
    view = TailView(printed, lambda event: True, last)

    for event in reversed(events):
        view.take(event, late=True)
    view.flush()
    view.caught_up()

    assert printed.events == events[16 - shown :]
    assert not any(late for piece in printed.pieces for _, late in piece)


def test_a_tail_continues_with_matching_events_and_marks_late_ones() -> None:
    printed = Printed()
    view = TailView(printed, lambda event: event.type == "note", 0)
    view.caught_up()

    for event in research():
        view.take(event, late=True)
    view.flush()

    assert [(event.type, late) for event, late in printed.pieces[0]] == [("note", True)]


def test_an_outage_of_the_journal_and_its_end_are_reported_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    view = LineView(Printed())

    for error in (None, "no answer", "no answer", None, None):
        view.tick(state(error=error, next_poll=4.0 if error else None))

    assert capsys.readouterr().err == (
        "longwatch: no answer; next poll in 4 s\nlongwatch: the journal is available again\n"
    )


def test_a_watch_shows_open_waits_and_the_usage_so_far() -> None:
    def event(type_: str, at: int, **payload: object) -> Event:
        return Event(
            run_id="wf-1",
            event_id=f"{type_}-{at}",
            type=type_,
            occurred_at=NOW - 3_000 + at,
            call_id=f"{type_}",
            payload=payload,
        )

    waits = fold(
        [
            event("workflow_start", 0),
            event("model_call", 1, status="completed", model="m", input_tokens=7, output_tokens=3),
            event("waiting_started", 2, reason="approval", detail="deploy"),
        ]
    )

    assert watch_text(state(delivered=3), waits) == [
        "waiting for approval: deploy, for 3.0 s",
        "live · 3 events, the last 2 s ago · 10 tokens in 1 model call; no known price",
    ]
