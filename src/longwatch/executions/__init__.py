"""Is it done: executions that run in other systems, asked about until their end is known."""
