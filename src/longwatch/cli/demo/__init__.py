"""`longwatch demo`: a workflow of several agents, played, recorded and shown as it happens."""

from longwatch.cli.demo.command import command

__all__ = ["command"]
