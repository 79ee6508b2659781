"""The platform stops an agent under the SDK's own server while its work is under way."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from longwatch.journal.sqlite import SqliteJournal
from longwatch.model.event import Event
from longwatch.settings import sqlite_url
from tests.patience import PATIENCE_SECONDS

PREAMBLE = """
import asyncio, sys, threading
from longwatch.integrations.bedrock_agentcore import BedrockAgentCoreApp
from longwatch.recording.sessions import start_background
app = BedrockAgentCoreApp()
"""
ASYNC_TASK = """
tasks = []
@app.async_task
async def research():
    await asyncio.Event().wait()
@app.entrypoint
async def handle(payload):
    tasks.append(asyncio.create_task(research()))
    return "accepted"
"""
IN_A_THREAD = """
@app.entrypoint
def handle(payload):
    start_background(threading.Event().wait)
    return "accepted"
"""


class Agent:
    """An agent in a process of its own, with a session whose work does not end."""

    def __init__(self, folder: Path, script: str) -> None:
        self.journal = SqliteJournal(folder / "journal.db")
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.process = subprocess.Popen(
            [sys.executable, "-c", f"{PREAMBLE}{script}\napp.run(port={port})"],
            cwd=folder,
            env={**os.environ, "LONGWATCH_JOURNAL": sqlite_url(self.journal.path)},
            start_new_session=True,
        )
        transport = httpx2.HTTPTransport(retries=10)  # with a pause that doubles, while the server starts
        with httpx2.Client(transport=transport, timeout=PATIENCE_SECONDS) as client:
            client.post(f"http://127.0.0.1:{port}/invocations", json={"session_id": "s-1"}).raise_for_status()
        while "AGENT_BACKGROUND_TASK_STARTED" not in [event.type for event in self.events()]:
            time.sleep(0.02)

    def events(self) -> list[Event]:
        return list(self.journal.read("s-1").events)


@pytest.fixture(params=[ASYNC_TASK, IN_A_THREAD], ids=["async task", "in a thread"])
def agent(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Agent]:
    one = Agent(tmp_path, request.param)
    yield one
    one.process.kill()
    one.process.wait()
    one.journal.close()


def test_work_that_the_platform_stops_is_journaled_as_failed(agent: Agent) -> None:
    agent.process.send_signal(signal.SIGTERM)
    code = agent.process.wait(PATIENCE_SECONDS)

    failed = [event for event in agent.events() if event.type == "AGENT_BACKGROUND_TASK_FAILED"]
    assert [event.payload["error_message"] for event in failed] == ["terminated by the platform (SIGTERM)"]
    assert code == -signal.SIGTERM  # the server shut down, and the process ended as the sender intended
