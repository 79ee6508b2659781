"""Sources: the external systems that executions run in."""
