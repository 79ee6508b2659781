"""A turn and its files, watched over HTTP: starts a server, plays a coding agent, and polls what it does.

Needs the server extra: `pip install '.[server]'` in a checkout.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import httpx2

from longwatch.remote import DocumentPolling, ServerClient, SessionPolling

SESSION = "/api/projects/website/sessions/monday"
LINES = [
    {"type": "assistant", "message": {"content": [{"type": "text", "text": "I write the page."}]}},
    {"type": "assistant", "message": {"content": [{"type": "text", "text": "It is done."}]}},
    {"type": "result", "is_error": False, "result": "done"},
]


async def play(http: httpx2.AsyncClient, turn_id: str) -> None:
    """Play a coding agent: print some text, write a file, and end the turn."""
    for number, line in enumerate(LINES, 1):
        await http.post(
            f"{SESSION}/turns/{turn_id}/lines",
            params={"first": number},
            content=json.dumps(line) + "\n",
            headers={"Content-Type": "application/x-ndjson"},
        )
        await http.put(
            "/api/projects/website/content/index.md",
            content="# Hello\n" * number,
            headers={"Content-Type": "text/plain"},
        )
        await asyncio.sleep(0.2)


async def watch(url: str) -> None:
    """Make a turn, and see it through."""
    async with httpx2.AsyncClient(base_url=url) as http, ServerClient(url) as server:
        await http.post("/api/projects", json={"id": "website"})
        await http.post("/api/projects/website/sessions", json={"id": "monday"})
        made = await http.post(f"{SESSION}/turns", json={"prompt": "Write a page."})
        turn_id = made.json()["id"]

        files = DocumentPolling(
            server,
            "website",
            interval_ms=100,
            on_document_change=lambda changes: print(
                [(each.file_path, each.change_type) for each in changes]
            ),
        )
        turn = SessionPolling(
            server,
            "website",
            "monday",
            turn_id,
            interval_ms=100,
            on_update=lambda turn: print(turn.status, [block.content["text"] for block in turn.blocks]),
        )
        async with files, turn:
            playing = asyncio.create_task(play(http, turn_id))
            done = await turn.wait()
            await playing
        print(f"{len(done.blocks)} blocks")


def main() -> None:
    """A server on a file of its own, as long as it is needed."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "longwatch", "serve", "--port", "0"]
        command += ["--journal", f"sqlite:///{Path(folder) / 'journal.db'}"]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as server:
            assert server.stdout is not None
            url = server.stdout.readline().split()[-1].rstrip("/")
            try:
                asyncio.run(watch(url))
            finally:
                server.terminate()


if __name__ == "__main__":
    main()
