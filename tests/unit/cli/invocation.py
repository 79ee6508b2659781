"""Runs a command in this process, with a fake clock."""

from __future__ import annotations

from click.testing import CliRunner, Result

from longwatch.cli.main import cli
from longwatch.cli.options import Invocation
from longwatch.testing.clock import FakeClock
from tests.unit.cli.samples import START_MS


def invoke(*arguments: str, clock: FakeClock | None = None) -> Result:
    invocation = Invocation(clock=clock or FakeClock(START_MS + 600_000))
    return CliRunner().invoke(
        cli, list(arguments), obj=invocation, catch_exceptions=False, standalone_mode=False
    )
