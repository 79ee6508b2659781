"""The documented configuration under a real nginx: with buffering off, and right even with it on."""

from __future__ import annotations

import json
import os
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest
from websockets.sync.client import connect

from tests.docs.pages import page
from tests.integration.server.processes import ServeProcess, serving
from tests.patience import PATIENCE_SECONDS

NAME = "longwatch.example.org"
TOKEN = "a-token-for-the-proxy"
PROXY = ("--trusted-proxy", "127.0.0.1")


@dataclass(frozen=True, slots=True)
class Proxied:
    """A longwatch behind an nginx."""

    server: ServeProcess
    port: int

    def client(self) -> httpx2.Client:
        """A client that uses the proxy's name."""
        headers = {"Host": f"{NAME}:{self.port}", "Authorization": f"Bearer {TOKEN}"}
        return httpx2.Client(
            base_url=f"https://127.0.0.1:{self.port}", headers=headers, verify=False, timeout=40
        )


def documented_configuration() -> str:
    (block,) = [each for each in page("how-to/serve-behind-nginx.md").blocks() if "proxy_pass" in each.text]
    return block.text


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def proxied(folder: Path, *, buffering: bool) -> Iterator[Proxied]:
    nginx = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    openssl = shutil.which("openssl")
    if nginx is None or openssl is None:
        pytest.skip("nginx and openssl are needed")
    certificate, key = folder / "longwatch.crt", folder / "longwatch.key"
    subprocess.run(
        [
            *(openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={NAME}"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    port = free_port()
    arguments = ("--journal", f"sqlite:///{folder / 'runs.db'}", "--token", "--allow-host", NAME, *PROXY)
    with serving(*arguments, LONGWATCH_TOKEN=TOKEN) as server:
        text = (
            documented_configuration()
            .replace("127.0.0.1:8321", f"127.0.0.1:{server.port}")
            .replace("listen 443 ssl", f"listen 127.0.0.1:{port} ssl")
            .replace("/etc/ssl/longwatch.crt", str(certificate))
            .replace("/etc/ssl/longwatch.key", str(key))
        )
        if buffering:
            text = text.replace(
                "proxy_buffering off;", "proxy_buffering on; proxy_ignore_headers X-Accel-Buffering;"
            )
        with running_nginx(nginx, folder, text, port):
            yield Proxied(server, port)


@contextmanager
def running_nginx(nginx: str, folder: Path, servers: str, port: int) -> Iterator[None]:
    paths = " ".join(
        f"{name}_temp_path {folder / name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    configuration = folder / "nginx.conf"
    user = "user root; " if os.geteuid() == 0 else ""  # else its worker may not write to the test's folder
    configuration.write_text(
        f"{user}daemon off; worker_processes 1; pid {folder / 'nginx.pid'}; error_log stderr;\n"
        f"events {{}}\nhttp {{\naccess_log off; {paths}\n{servers}\n}}\n"
    )
    command = [nginx, "-p", str(folder), "-c", str(configuration), "-e", "stderr"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            until = time.monotonic() + PATIENCE_SECONDS
            while not _listens(port):
                if process.poll() is not None or time.monotonic() > until:
                    process.kill()
                    assert process.stderr is not None
                    raise AssertionError(process.stderr.read())
            yield
        finally:
            process.terminate()


def _listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


def append(http: httpx2.Client, *numbers: int) -> None:
    events = [{"type": "note", "payload": {"n": number}} for number in numbers]
    response = http.post("/api/runs/wf%2F1/events", json={"events": events})
    assert response.status_code == 200, response.text


def streamed(lines: Iterator[str]) -> Iterator[tuple[str, str | None, dict[str, object]]]:
    """The messages of a stream: their name, cursor and data."""
    name, cursor = "", None
    for line in lines:
        field, _, value = line.partition(": ")
        if field == "event":
            name = value
        elif field == "id":
            cursor = value
        elif field == "data":
            yield name, cursor, json.loads(value)


def test_the_documented_proxy_passes_everything_on_at_once(tmp_path: Path) -> None:
    with proxied(tmp_path, buffering=False) as proxy, proxy.client() as http, proxy.client() as writer:
        append(writer, 0)
        seen = []
        with http.stream("GET", "/api/stream", params={"topic": "run:wf/1"}) as response:
            for name, _, data in streamed(response.iter_lines()):
                if name == "caught_up":
                    append(writer, 1)
                elif name == "event":
                    seen.append(data["event"]["payload"]["n"])  # type: ignore[index]
                if seen == [0, 1]:
                    break
        page = http.get("/api/runs/wf%2F1/events")
        tag = page.headers["etag"]
        same = http.get("/api/runs/wf%2F1/events", headers={"If-None-Match": tag, "Accept-Encoding": "gzip"})
        foreign = http.get("/api/runs", headers={"Origin": "https://evil.example"})
        own = http.get("/api/runs", headers={"Origin": f"https://{NAME}:{proxy.port}"})
        stranger = http.get("/api/runs", headers={"Host": "other.example"})
        login = http.post("/api/login", json={"token": TOKEN})

    assert seen == [0, 1]
    assert same.status_code == 304
    assert [response.status_code for response in (foreign, own, stranger)] == [403, 200, 403]
    assert "Secure" in login.headers["set-cookie"]


def test_the_documented_proxy_lets_sockets_through(tmp_path: Path) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    with proxied(tmp_path, buffering=False) as proxy, proxy.client() as http:
        append(http, 7)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        with connect(
            f"wss://{NAME}:{proxy.port}/api/socket",
            sock=socket.create_connection(("127.0.0.1", proxy.port)),
            ssl=context,
            additional_headers=headers,
        ) as peer:
            peer.send(json.dumps({"follow": "run:wf/1"}))
            message = json.loads(peer.recv(timeout=PATIENCE_SECONDS))

    assert (message["event"], message["data"]["event"]["payload"]) == ("event", {"n": 7})


def test_a_proxy_that_buffers_delays_a_stream_and_loses_nothing(tmp_path: Path) -> None:
    with proxied(tmp_path, buffering=True) as proxy, proxy.client() as http, proxy.client() as writer:
        append(writer, *range(5))
        seen: list[int] = []
        cursor = ""

        while len(seen) < 10:
            query = {"topic": "run:wf/1", "after": cursor, "wait": "20"}
            response = http.get("/api/feed", params=query).json()
            seen += [
                message["data"]["event"]["payload"]["n"]
                for message in response["messages"]
                if message["event"] == "event"
            ]
            cursor = response["cursor"]
            if len(seen) == 5:
                append(writer, *range(5, 10))

        append(
            writer, *range(10, 1500)
        )  # enough to fill every buffer on the way, which holds back headers too
        rest: list[object] = []
        with http.stream(
            "GET", "/api/stream", params={"topic": "run:wf/1", "after": cursor}
        ) as streamed_response:
            for name, _, data in streamed(streamed_response.iter_lines()):
                if name == "event":
                    rest.append(data["event"]["payload"]["n"])  # type: ignore[index]
                if len(rest) >= 1000:
                    break

    assert seen == list(range(10))
    assert rest == list(range(10, 1010))
