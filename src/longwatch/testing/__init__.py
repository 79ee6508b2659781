"""Tools for tests of programs that use longwatch: a fake clock, faulty journals and a simulator."""

from longwatch.journal.memory import MemoryJournal
from longwatch.testing.clock import FakeClock
from longwatch.testing.faults import FaultyJournal
from longwatch.testing.simulation import Consumer, ProducerContext, Simulation, SimulationResult

__all__ = [
    "Consumer",
    "FakeClock",
    "FaultyJournal",
    "MemoryJournal",
    "ProducerContext",
    "Simulation",
    "SimulationResult",
]
