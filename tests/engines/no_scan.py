"""An engine without the right to Scan: a proxy in front of it that refuses as IAM does."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

REFUSAL = {
    "__type": "com.amazon.coral.service#AccessDeniedException",
    "Message": "User is not authorized to perform: dynamodb:Scan",
}


@contextmanager
def without_scan(url: str) -> Iterator[str]:
    """The URL at which the engine of this one responds to everything but scans."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # one write for each response, or it waits for an acknowledgement

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status, answer = 400, json.dumps(REFUSAL).encode()
            if not self.headers["X-Amz-Target"].endswith(".Scan"):
                status, answer = self._passed_on(body)
            self.send_response(status)
            self.send_header("Content-Type", "application/x-amz-json-1.0")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def _passed_on(self, body: bytes) -> tuple[int, bytes]:
            request = urllib.request.Request(url, body, dict(self.headers))
            try:
                with urllib.request.urlopen(request) as response:
                    return response.status, response.read()
            except urllib.error.HTTPError as error:
                with error:
                    return error.code, error.read()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
