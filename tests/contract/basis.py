"""What the parts of the contract share: a clock, and a journal that can be opened as often as needed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, settings

from longwatch.journal.base import Journal
from longwatch.testing.clock import FakeClock
from tests.contract.events import OpenAgain


class Contract:
    """An adapter's test class defines how to open it."""

    examples = 50  # of hypothesis; an engine over HTTP takes fewer
    shrinks = True  # False: an example takes too long to search for a smaller one
    opens_by_url = True  # False: what it writes is gone, or elsewhere, when its address is opened again

    @pytest.fixture
    def clock(self) -> FakeClock:
        return FakeClock()

    @pytest.fixture
    def open_again(self) -> Iterator[OpenAgain]:
        """Opens the same store once more, as another process would."""
        raise NotImplementedError

    @pytest.fixture
    def journal(self, open_again: OpenAgain) -> Journal:
        return open_again()

    @pytest.fixture
    def now(self, clock: FakeClock) -> int:
        return clock.now_ms()

    def hypothesis(self) -> settings:
        """How long to search for an example that breaks a promise."""
        phases = set(Phase) if self.shrinks else {Phase.explicit, Phase.reuse, Phase.generate}
        return settings(
            max_examples=self.examples,
            phases=[phase for phase in Phase if phase in phases],
            suppress_health_check=list(HealthCheck),
            deadline=None,
        )
