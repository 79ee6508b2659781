"""Deterministic simulation of writers, followers, crashes and faults in virtual time, by a seed."""

from longwatch.testing.simulation.consumers import Consumer
from longwatch.testing.simulation.producers import ProducerContext
from longwatch.testing.simulation.simulation import Simulation, SimulationResult

__all__ = ["Consumer", "ProducerContext", "Simulation", "SimulationResult"]
