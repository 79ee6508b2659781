"""The outside systems that executions run in."""
