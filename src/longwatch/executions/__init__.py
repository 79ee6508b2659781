"""Executions: work in other systems, which is polled until it ends."""
