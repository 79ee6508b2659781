"""Simulated executions: drills and recoveries, pollers that die, an orchestrator, and what they come to."""

from longwatch.testing.executions.simulation import ExecutionSimulation

__all__ = ["ExecutionSimulation"]
