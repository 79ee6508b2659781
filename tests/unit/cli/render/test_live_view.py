from __future__ import annotations

import pytest

from longwatch.cli.render.run_views import frame
from longwatch.cli.render.styles import Segment, StyledLine, line_columns, paint
from longwatch.model.event import Event
from longwatch.model.run import fold
from tests.unit.cli.samples import START_MS, Story, research

ABOVE: list[StyledLine] = [[Segment("above")]]
BELOW: list[StyledLine] = [[Segment("below")]]
NOW = START_MS + 60_000


def picture(events: list[Event], *, width: int = 80, height: int = 40) -> list[str]:
    latest = [(event, False) for event in events]
    lines = frame(fold(events), latest, above=ABOVE, below=BELOW, now_ms=NOW, width=width, height=height)
    assert max(map(line_columns, lines)) <= width
    return [paint(line, colour=False) for line in lines]


def many_calls(count: int = 50) -> list[Event]:
    """An agent that still works on the first and the last of its calls."""
    story = Story()
    story.add("agent_start", agent="Ada", call="a1")
    story.add("tool_call", {"operation": "long", "status": "started"}, agent="Ada", call="t0", parent="a1")
    for number in range(1, count):
        error = "ValueError: no" if number % 5 == 0 else None
        story.tool(f"step {number}", agent="Ada", call=f"t{number}", parent="a1", takes=10, error=error)
    story.add("tool_call", {"operation": "now", "status": "started"}, agent="Ada", call="now", parent="a1")
    return story.events


def test_the_tree_stands_between_the_head_and_the_last_events() -> None:
    lines = picture(research())

    assert lines[:2] == ["above", ""]
    assert lines[3].startswith("✓ planner")
    assert lines[-2:] == ["", "below"]
    assert "producer_closed" in lines[-3]
    assert len(lines) == 19


@pytest.mark.parametrize("height", [3, 5, 8, 12, 24, 60])
@pytest.mark.parametrize("width", [30, 44, 100])
def test_a_picture_fits_its_screen(width: int, height: int) -> None:
    assert len(picture(many_calls(), width=width, height=height)) <= max(height, 5)


def test_calls_under_way_are_shown_first_with_their_parents() -> None:
    lines = picture(many_calls(), height=16)

    drawn = "\n".join(lines)
    assert "● Ada" in drawn
    assert "● long" in drawn
    assert "● now" in drawn
    assert "step 49" in drawn
    assert "step 1 " not in drawn
    assert "more calls" in drawn


def test_an_open_call_shows_how_long_it_has_taken() -> None:
    story = Story()
    story.add("agent_start", agent="Ada", call="a1")

    [line] = [line for line in picture(story.events) if "● Ada" in line]

    assert "1 min 00 s" in line


def test_a_run_without_events_has_no_tree() -> None:
    lines = frame(None, [], above=ABOVE, below=BELOW, now_ms=NOW, width=80, height=24)

    assert [paint(line, colour=False) for line in lines] == ["above", "", "below"]


@pytest.mark.parametrize("depth", [2, 7, 60])
def test_a_low_screen_shows_the_newest_call_however_deep_it_is(depth: int) -> None:
    story = Story()
    for level in range(depth):
        story.add("agent_start", after=1, agent=f"agent {level}", call=f"a{level}", parent=f"a{level - 1}")
    for number in range(40):
        story.tool(f"step {number}", agent="Ada", call=f"t{number}", parent=f"a{depth - 1}", takes=10)
    story.add("tool_call", {"operation": "now", "status": "started"}, call="now", parent=f"a{depth - 1}")

    lines = picture(story.events, width=40, height=12)

    assert any("● now" in line for line in lines)
    assert len(lines) <= 11
