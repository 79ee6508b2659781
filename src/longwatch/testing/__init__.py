"""What tests of programs that use longwatch need: virtual time, journals that fail, and a simulator."""

from longwatch.journal.memory import MemoryJournal
from longwatch.testing.clock import FakeClock
from longwatch.testing.faults import FaultyJournal
from longwatch.testing.simulation import Consumer, Desk, Outcome, Simulation

__all__ = ["Consumer", "Desk", "FakeClock", "FaultyJournal", "MemoryJournal", "Outcome", "Simulation"]
