"""An agent behind HTTP that does what the request demands, journaling as a real one does."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from longwatch.journal.base import Journal
from longwatch.recording.sessions import SessionRecorder, agent_entrypoint, start_background
from longwatch.recording.sessions.agent import OpenRecorder
from tests.patience import PATIENCE_SECONDS


class ScriptedAgent:
    """Serves `POST /invocations` on loopback. What it is to do is in the payload's `act`."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.requests: list[dict[str, Any]] = []
        self.gate = threading.Event()  # "late" continues when it opens
        agent = self

        class Handler(BaseHTTPRequestHandler):
            wbufsize = -1  # one write for each response, or it waits for an acknowledgement

            def do_POST(self) -> None:
                payload = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                agent.requests.append(payload)
                try:
                    response, status = agent.handle(payload), 200
                except Exception as error:  # noqa: BLE001 - as any server responds
                    response, status = {"error": str(error)}, 500
                body = json.dumps(response).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/invocations"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.handle = agent_entrypoint(open_recorder=self._opened())(self._act)

    def _opened(self) -> OpenRecorder:
        def recorder(payload: object, _: object) -> SessionRecorder | None:
            assert isinstance(payload, dict)
            if payload["act"] in ("refuse", "foreign"):
                return None  # nothing of it is journaled by us
            return SessionRecorder(self.journal, payload["session_id"], execution=payload["execution"])

        return recorder

    def _act(self, payload: dict[str, Any]) -> dict[str, Any]:
        match payload["act"]:
            case "complete" | "late" | "fail" | "complete_then_break":
                start_background(self._work, payload["act"])
            case "break":
                raise ValueError("the question is missing")
            case "refuse":
                raise ConnectionError("not today")
            case "die":
                pass  # no task, no word
        if payload["act"] == "complete_then_break":
            recorder = SessionRecorder(self.journal, payload["session_id"], execution=payload["execution"])
            recorder.record("AGENT_BACKGROUND_TASK_COMPLETED")
            raise ConnectionError("the answer got lost")
        return {"accepted": True}

    def _work(self, act: str) -> None:
        if act == "fail":
            raise RuntimeError("out of luck")
        if act == "late":
            assert self.gate.wait(PATIENCE_SECONDS)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
