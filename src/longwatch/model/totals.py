"""What adds up over the events of a run: the usage of models and the time waited.

`plus` is for parts that share no event. `highest` is for two totals of one producer, of which one may be
older: counts never decrease, so the higher one is the newer one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from longwatch.model.event import Event
from longwatch.model.usage import NO_USAGE, USAGE_TYPES, Usage, UsageCounter
from longwatch.model.waiting import WAIT_TYPES, limit_reasons, waited_ms

TOTAL_TYPES = USAGE_TYPES | WAIT_TYPES


@dataclass(frozen=True, slots=True)
class RunTotals:
    """The usage of models, and the milliseconds of the waits that ended, by reason."""

    usage: Usage = NO_USAGE
    waited_ms: Mapping[str, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.usage or self.waited_ms)

    def plus(self, other: RunTotals) -> RunTotals:
        """The totals of both parts. Commutative and associative."""
        if not other:
            return self
        if not self:
            return other
        waited = dict(self.waited_ms)
        for reason, ms in other.waited_ms.items():
            waited[reason] = waited.get(reason, 0) + ms
        return RunTotals(self.usage.plus(other.usage), limit_reasons(waited))

    def highest(self, other: RunTotals) -> RunTotals:
        """The newer of two totals of one producer. Idempotent."""
        waited = dict(self.waited_ms)
        for reason, ms in other.waited_ms.items():
            waited[reason] = max(waited.get(reason, 0), ms)
        return RunTotals(self.usage.highest(other.usage), limit_reasons(waited))


NO_TOTALS = RunTotals()


def totals_of(events: Iterable[Event]) -> RunTotals:
    """The totals of events of the `TOTAL_TYPES`."""
    counter = UsageCounter()
    given = list(events)
    for event in given:
        if event.type in USAGE_TYPES:
            counter.add(event)
    return RunTotals(counter.usage(), waited_ms(given))
