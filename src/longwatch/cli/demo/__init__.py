"""`longwatch demo`: plays a workflow, a turn, a drill and a killed job, and shows them live."""

from longwatch.cli.demo.command import command

__all__ = ["command"]
