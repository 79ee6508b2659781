"""Tools for tests of programs that use longwatch: a clock, faulty journals, a simulator, a model server."""

from longwatch.journal.memory import MemoryJournal
from longwatch.testing.clock import FakeClock
from longwatch.testing.faults import FaultyJournal
from longwatch.testing.model_server import ModelFailure, ModelReply, ModelServer, ScriptedToolCall
from longwatch.testing.simulation import Consumer, ProducerContext, Simulation, SimulationResult

__all__ = [
    "Consumer",
    "FakeClock",
    "FaultyJournal",
    "MemoryJournal",
    "ModelFailure",
    "ModelReply",
    "ModelServer",
    "ProducerContext",
    "ScriptedToolCall",
    "Simulation",
    "SimulationResult",
]
