"""Events are exported in their order, whatever the order in which they arrived."""

from __future__ import annotations

import random

import pytest

from longwatch.cli.sorted_lines import sorted_lines
from longwatch.journal.codec import to_line
from longwatch.model.event import Event


def events(count: int) -> list[Event]:
    return [
        Event(
            run_id="wf-1",
            event_id=f"e{number:04}",
            type="note",
            occurred_at=1_700_000_000_000 + number // 3,
            producer="ba"[number % 2] if number % 5 else None,
            number=number + 1 if number % 5 else None,
            payload={"text": "é\n\u2028"},
        )
        for number in range(count)
    ]


@pytest.mark.parametrize("count", [0, 1, 3, 4, 50])
@pytest.mark.parametrize("arrival", ["as they occurred", "reversed", "shuffled"])
def test_lines_are_in_the_order_of_their_events(
    count: int, arrival: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longwatch.cli.sorted_lines.READ_BYTES", 300)
    given = sorted(events(count), key=lambda event: event.order)
    arrived = given[::-1] if arrival == "reversed" else list(given)
    if arrival == "shuffled":
        random.Random(7).shuffle(arrived)

    found = list(sorted_lines(arrived, at_once=3))

    assert found == [to_line(event) for event in given]


def test_lines_of_text_are_sorted_by_their_events_too() -> None:
    given = sorted(events(20), key=lambda event: event.order)

    found = sorted_lines(reversed(given), text_of=lambda event: f"\t{event.event_id}", at_once=3)

    assert list(found) == [f"\t{event.event_id}" for event in given]
