from __future__ import annotations

from collections.abc import Sequence

from longwatch.errors import JournalUnavailable
from longwatch.testing.clock import FakeClock
from longwatch.turns.line_pump import LinePump
from longwatch.turns.line_reader import LineResult


class UnavailableSink:
    """A sink for lines that refuses them a few times."""

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals
        self.fed: list[str] = []

    def feed(self, lines: Sequence[str], first_line: int) -> LineResult:
        if self.refusals:
            self.refusals -= 1
            raise JournalUnavailable("the journal does not answer")
        self.fed += lines
        return LineResult(accepted=len(lines), blocks=0, status="running")


def test_waiting_for_the_journal_is_a_remark_and_a_loss_is_a_warning() -> None:
    warnings: list[str] = []
    remarks: list[str] = []

    for refusals, patience in ((2, 60.0), (10**9, 0.0)):
        sink = UnavailableSink(refusals)
        pump = LinePump(
            sink,  # type: ignore[arg-type]  # only fed
            1,
            stop=lambda: None,
            show=lambda events: None,
            warn=warnings.append,
            notify=remarks.append,
            clock=FakeClock(),
        )
        pump.start()
        pump.put("one")
        pump.finish(patience)

    assert any("retrying" in each for each in remarks)
    assert any("lines are stored again" in each for each in remarks)
    assert [each.partition(":")[0] for each in warnings] == ["the command's output is no longer stored"]
