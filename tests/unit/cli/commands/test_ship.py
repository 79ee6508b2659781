"""`longwatch ship` delivers the events of the outbox."""

from __future__ import annotations

from pathlib import Path

import pytest

from longwatch.cli.commands.ship import exit_code, summary
from longwatch.journal.sqlite import SqliteJournal
from longwatch.recording.outbox import Outbox, ShipReport
from longwatch.settings import load_settings
from longwatch.testing.clock import FakeClock
from tests.unit.cli.invocation import invoke
from tests.unit.cli.samples import research


def test_ship_delivers_waiting_events(tmp_path: Path) -> None:
    outbox = Outbox(load_settings().outbox_path)
    outbox.put(f"sqlite:///{tmp_path}/late.db", research())
    outbox.close()

    done = invoke("ship")
    again = invoke("ship")

    assert (done.return_value, done.stdout) == (0, "16 shipped.\n")
    assert again.stdout == "The outbox is empty.\n"
    with SqliteJournal(tmp_path / "late.db") as journal:
        assert len(journal.read("wf-1a2b3c4d").events) == 17  # with the late_batch that announces them


def test_ship_gives_up_after_a_while_and_keeps_the_events(tmp_path: Path) -> None:
    (tmp_path / "broken.db").write_text("no database " * 100, encoding="utf-8")
    outbox = Outbox(load_settings().outbox_path)
    outbox.put(f"sqlite:///{tmp_path}/broken.db", research())
    outbox.close()
    clock = FakeClock()

    done = invoke("ship", clock=clock)

    assert done.return_value == 3
    assert clock.slept == [1, 2, 4, 8, 15]
    assert done.stdout == "0 shipped, 16 still waiting.\n"
    assert ". 16 waiting, next attempt in 1 s.\n" in done.stderr
    assert ".;" not in done.stderr
    assert ".." not in done.stderr


@pytest.mark.parametrize(
    ("report", "text", "code"),
    [
        (ShipReport(), "The outbox is empty.", 0),
        (ShipReport(shipped=1200), "1,200 shipped.", 0),
        (ShipReport(shipped=1, refused=2), "1 shipped, 2 refused.", 1),
        (ShipReport(shipped=1, dropped=2), "1 shipped, 2 of deleted runs dropped.", 0),
        (ShipReport(left=3, errors=["x"]), "0 shipped, 3 still waiting.", 3),
    ],
)
def test_shipped_events_are_reported_in_one_line(report: ShipReport, text: str, code: int) -> None:
    assert (summary(report), exit_code(report)) == (text, code)
