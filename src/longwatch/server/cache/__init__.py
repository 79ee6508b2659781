"""What the server keeps of runs, executions and files, so that many viewers cost one read."""
