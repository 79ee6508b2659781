"""How the command line draws runs, events and executions."""
