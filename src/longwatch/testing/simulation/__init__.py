"""Deterministic simulation: writers, followers, crashes and faults in virtual time, all decided by a seed."""

from longwatch.testing.simulation.consumers import Consumer
from longwatch.testing.simulation.producers import Desk
from longwatch.testing.simulation.simulation import Outcome, Simulation

__all__ = ["Consumer", "Desk", "Outcome", "Simulation"]
