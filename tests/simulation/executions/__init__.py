"""Simulated executions: drills and recoveries, pollers that die, an orchestrator, and what they come to."""

from tests.simulation.executions.simulation import ExecutionSimulation

__all__ = ["ExecutionSimulation"]
