"""A process that records what each line of its standard input asks for."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress

from tests.acceptance.conftest import environment
from tests.patience import PATIENCE_SECONDS

# Executes the commands on standard input, a line each, and prints when each is stored.
WRITER = """
import sys, time
import longwatch

@longwatch.agent(name="Ada")
def ada():
    dig()

@longwatch.tool(name="dig")
def dig():
    obey()

def obey():
    for line in sys.stdin:
        word, _, text = line.strip().partition(" ")
        if word == "note":
            longwatch.record("note", message=text)
        elif word == "late":
            longwatch.record("note", message=text, occurred_at=int(time.time() * 1000) - 60_000)
        elif word == "agent":
            ada()
            continue
        elif word == "fail":
            raise ValueError(text)
        elif word == "return":
            return
        longwatch.flush()
        print("stored", flush=True)

with longwatch.run("dig for it", run_id=sys.argv[1]):
    obey()
"""


class Writer:
    """A run in a process of its own, step by step."""

    def __init__(self, journal: str, run_id: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", WRITER, run_id],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment(LONGWATCH_JOURNAL=journal),
        )

    def order(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def send(self, line: str) -> None:
        """Returns when it is in the journal."""
        self.order(line)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "stored\n"

    def end(self) -> None:
        if self.process.stdin is not None:
            with suppress(BrokenPipeError):
                self.process.stdin.close()
        self.process.wait(PATIENCE_SECONDS)
        if self.process.stdout is not None:
            self.process.stdout.close()
