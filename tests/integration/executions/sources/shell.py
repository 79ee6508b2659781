"""The command in this process, in virtual time, beside a scripted CodeBuild."""

from __future__ import annotations

from typing import Any

from click.testing import CliRunner, Result

from longwatch.cli.main import cli
from longwatch.cli.options import Invocation
from longwatch.testing import FakeClock

JOURNAL = "sqlite:///watching.db"
BUILD = "aws:codebuild:demo:1"


def build(status: str, **more: Any) -> dict[str, Any]:
    return {"builds": [{"id": "demo:1", "projectName": "demo", "buildStatus": status, **more}]}


class Shell:
    """Runs the command in this process."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock

    def __call__(self, *arguments: str) -> Result:
        return CliRunner().invoke(
            cli,
            ["--journal", JOURNAL, *arguments],
            obj=Invocation(clock=self.clock),
            catch_exceptions=False,
            standalone_mode=False,
        )

    def watch(self, *arguments: str) -> Result:
        return self("watch", *arguments)
