"""What the responses of a server, and of the proxies before it, mean to a program that blocks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from longwatch.errors import RequestRefused, Throttled, Unreachable
from longwatch.remote.blocking_client import BlockingClient

ANSWERS: dict[str, tuple[int, bytes, dict[str, str]]] = {
    "/json": (200, b'{"a": 1}', {"ETag": '"t"', "Content-Length": "8"}),
    "/same": (304, b"", {"ETag": '"t"'}),
    "/page": (200, b"<html>", {}),
    "/cut-off": (200, b'{"a": 1', {"Content-Length": "8"}),
    "/bare": (401, b"", {}),  # without a length: it ends with the connection
    "/cut-off-refusal": (403, b"{", {"Content-Length": "80"}),
    "/refused": (409, b'{"error": {"code": "turn_ended", "message": "It has ended."}}', {}),
    "/moved": (307, b"", {"Location": "/json"}),
    "/throttled": (429, b'{"error": {"code": "x", "message": "Later."}}', {}),
    "/gateway": (502, b"<html>", {}),
    "/early": (425, b"", {}),
}


class Scripted(BaseHTTPRequestHandler):
    """Responds to a path as scripted, and closes the connection."""

    def do_GET(self) -> None:
        status, body, headers = ANSWERS[self.path]
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Scripted) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_response_has_its_status_tag_and_value(url: str) -> None:
    calls = BlockingClient(url)

    response, same = calls.get("/json"), calls.get("/same", etag='"t"')

    assert (response.status, response.etag, response.value) == (200, '"t"', {"a": 1})
    assert (same.status, same.etag, same.value) == (304, '"t"', None)


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy"])
def test_no_proxy_is_used_for_this_machine(url: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "http://127.0.0.1:9")

    assert BlockingClient(url).get("/json").value == {"a": 1}


@pytest.mark.parametrize(
    ("path", "status", "code", "message"),
    [
        ("/refused", 409, "turn_ended", "It has ended."),
        ("/bare", 401, "http_error", "the response was 401 Unauthorized"),
        ("/cut-off-refusal", 403, "http_error", "the response was 403 Forbidden"),
        ("/moved", 307, "http_error", "the response was 307 Temporary Redirect"),
    ],
)
def test_a_refusal_counts_by_its_status_even_without_a_body(
    url: str, path: str, status: int, code: str, message: str
) -> None:
    with pytest.raises(RequestRefused) as refused:
        BlockingClient(url).get(path)

    assert refused.value.args == (status, code, message)


@pytest.mark.parametrize(
    ("path", "error", "message"),
    [
        ("/throttled", Throttled, "Later"),
        ("/gateway", Unreachable, "the response was 502 Bad Gateway"),
        ("/early", Unreachable, "the response was 425"),
        ("/page", Unreachable, "No response from"),
        ("/cut-off", Unreachable, "No response from"),
    ],
)
def test_a_temporary_refusal_is_a_retryable_error(
    url: str, path: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        BlockingClient(url).get(path)


def test_a_refused_connection_is_unreachable() -> None:
    with pytest.raises(Unreachable, match=r"No response from .*Connection refused"):
        BlockingClient("http://127.0.0.1:9").get("/json")
