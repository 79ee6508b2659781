"""Webhooks over a real connection: CloudEvents, signatures that `standardwebhooks` accepts, and refusals."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from standardwebhooks import Webhook

from longwatch.clock import SYSTEM_CLOCK
from longwatch.notifications.channels.base import ChannelContext, DeliveryError, DeliveryReceipt
from longwatch.notifications.channels.webhook import KIND
from longwatch.notifications.message import Message, Notice, compose
from longwatch.notifications.rules import Trigger
from longwatch.settings import Settings

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()


class Receiver:
    """A server on loopback, and what it received."""

    def __init__(self) -> None:
        self.received: list[tuple[dict[str, str], bytes]] = []
        self.code, self.headers = 204, dict[str, str]()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.received.append(({k.lower(): v for k, v in self.headers.items()}, body))
                self.send_response(receiver.code)
                for name, value in {**receiver.headers, "Content-Length": "0"}.items():
                    self.send_header(name, value)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/hook"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    thread = threading.Thread(target=receiver.server.serve_forever, args=(0.05,))
    thread.start()
    yield receiver
    receiver.server.shutdown()
    thread.join()
    receiver.server.server_close()


def message(text: str = "failed: no space") -> Message:
    at = SYSTEM_CLOCK.now_ms()
    notice = Notice(run_id="wf-1", run_name="a<b>&c", trigger=Trigger.FAILED, text=text, occurred_at=at)
    return compose("msg_1", "failures", [notice], page_url="http://127.0.0.1:8321/")


def send(options: dict[str, Any], **settings: Any) -> DeliveryReceipt:
    KIND.check(options)
    context = ChannelContext(settings=Settings(journal="memory://", **settings))
    return KIND.open(options, context).send(message())


def test_a_receiver_gets_a_cloud_event_and_verifies_its_signature(receiver: Receiver) -> None:
    receipt = send({"url": receiver.url, "secret": SECRET})

    ((headers, body),) = receiver.received
    verified = Webhook(SECRET).verify(body, headers)
    assert receipt == DeliveryReceipt("HTTP 204")
    assert headers["content-type"] == "application/cloudevents+json; charset=utf-8"
    assert (verified["specversion"], verified["id"], verified["type"]) == (
        "1.0",
        "msg_1",
        "longwatch.notification",
    )
    assert verified["data"]["title"] == "a<b>&c failed"
    assert datetime.fromisoformat(verified["time"]).tzinfo is UTC


def test_an_altered_body_fails_the_verification(receiver: Receiver) -> None:
    send({"url": receiver.url, "secret": SECRET})
    ((headers, body),) = receiver.received

    with pytest.raises(Exception, match="No matching signature"):
        Webhook(SECRET).verify(body.replace(b"failed", b"passed"), headers)


def test_the_secret_and_the_url_may_come_from_the_environment(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    monkeypatch.setenv("HOOK_URL", receiver.url)

    send({"url": "${HOOK_URL}", "secret": "${HOOK_SECRET}", "headers": {"X-Team": "ops"}})

    ((headers, body),) = receiver.received
    assert Webhook(SECRET).verify(body, headers)["id"] == "msg_1"
    assert headers["x-team"] == "ops"


def test_a_variable_that_is_not_set_may_be_set_later() -> None:
    with pytest.raises(DeliveryError, match="HOOK_MISSING is not set") as raised:
        send({"url": "${HOOK_MISSING}"})

    assert raised.value.is_retryable


def test_slack_gets_text_with_a_link(receiver: Receiver) -> None:
    send({"url": receiver.url, "format": "slack"})

    ((headers, body),) = receiver.received
    assert headers["content-type"].startswith("application/json")
    assert json.loads(body) == {
        "text": "*<http://127.0.0.1:8321/runs/wf-1|a&lt;b&gt;&amp;c failed>*\n"
        "a&lt;b&gt;&amp;c (wf-1): failed: no space"
    }


@pytest.mark.parametrize(
    ("code", "is_retryable"),
    [(400, False), (401, True), (404, True), (410, False), (429, True), (500, True), (503, True)],
)
def test_a_refusal_is_retried_unless_the_message_itself_is_rejected(
    receiver: Receiver, code: int, is_retryable: bool
) -> None:
    receiver.code, receiver.headers = code, {"Retry-After": "120"}

    with pytest.raises(DeliveryError, match=rf"^127.0.0.1:\d+ returned HTTP {code}$") as raised:
        send({"url": receiver.url + "?key=hidden"})

    assert raised.value.is_retryable is is_retryable
    assert raised.value.retry_after_seconds == 120


def test_a_redirect_is_not_followed(receiver: Receiver) -> None:
    receiver.code, receiver.headers = 302, {"Location": "http://169.254.169.254/"}

    with pytest.raises(DeliveryError, match="redirects"):
        send({"url": receiver.url})

    assert len(receiver.received) == 1


def test_a_receiver_that_is_down_is_retried(receiver: Receiver) -> None:
    with pytest.raises(DeliveryError, match="is unreachable") as raised:
        send({"url": "http://127.0.0.1:1/"})

    assert raised.value.is_retryable


def test_an_address_that_is_not_allowed_is_never_called(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As a name that resolves to a metadata service, which no machine of a test has.
    monkeypatch.setattr("longwatch.storage.outgoing._is_sensitive", lambda address: address.is_loopback)

    with pytest.raises(DeliveryError, match=r"not allowed; add the address") as raised:
        send({"url": receiver.url})
    allowed = send({"url": receiver.url}, notification_addresses=("127.0.0.0/8",))

    assert not raised.value.is_retryable
    assert allowed.status == "HTTP 204"
    assert len(receiver.received) == 1


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "url must be text"),
        ({"url": "ftp://host"}, "url: Invalid URL"),
        ({"url": "http://user:pw@host"}, "url: The URL contains a password"),
        ({"url": "http://host", "format": "xml"}, "format must be one of cloudevents, slack, not 'xml'"),
        ({"url": "http://host", "secret": "hunter2"}, "secret must be whsec_ and the base64"),
        ({"url": "http://host", "secret": 1}, "secret must be text"),
        ({"url": "http://host", "headers": ["a"]}, "headers must be a table"),
    ],
)
def test_a_mistake_in_the_options_names_the_key(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as raised:
        KIND.check(options)

    assert "hunter2" not in str(raised.value)
