"""How the client handles wrong responses, from a server that returns the same one to every request."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from longwatch.errors import LongwatchError, TableProblem, Throttled, Unreachable
from longwatch.journal.base import Journal
from longwatch.journal.dynamodb.journal import open_dynamodb
from longwatch.model.event import Event
from longwatch.storage.urls import TableAddress

EVENT = Event(run_id="wf-1", event_id="e", type="workflow_start", occurred_at=1_794_736_800_000)


@contextmanager
def journal_against(status: int, body: object) -> Iterator[tuple[Journal, list[str]]]:
    """A journal whose every request gets this response, and the operations that were requested."""
    requests: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            requests.append(self.headers["X-Amz-Target"].rpartition(".")[2])
            text = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        endpoint = f"http://127.0.0.1:{server.server_port}"
        try:
            with open_dynamodb(
                TableAddress(table="events", region="eu-west-1", layout="workflow", endpoint=endpoint)
            ) as journal:
                yield journal, requests
        finally:
            server.shutdown()
            thread.join()


def refusal(code: str) -> dict[str, str]:
    return {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": "so says the test"}


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (400, "ProvisionedThroughputExceededException", Throttled),
        (400, "RequestLimitExceeded", Throttled),
        (400, "ThrottlingException", Throttled),
        (500, "InternalServerError", Unreachable),
        (503, "ServiceUnavailable", Unreachable),
    ],
)
def test_a_retryable_response_is_retried_three_times_and_then_reported(
    status: int, code: str, error: type[LongwatchError]
) -> None:
    with journal_against(status, refusal(code)) as (journal, requests):
        with pytest.raises(error):
            journal.append([EVENT])
        with pytest.raises(error):
            journal.read("wf-1")

    assert requests == ["PutItem"] * 3 + ["Query"] * (1 + 3)  # one fast query, then boto3's attempts


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("ResourceNotFoundException", "not-found"),
        ("AccessDeniedException", "access-denied"),
        ("ExpiredTokenException", "expired-token"),
        ("UnrecognizedClientException", "no-credentials"),
        ("ValidationException", "refused"),
    ],
)
def test_a_permanent_error_is_reported_at_once(code: str, kind: str) -> None:
    with journal_against(400, refusal(code)) as (journal, requests), pytest.raises(TableProblem) as caught:
        journal.append([EVENT])

    assert caught.value.kind == kind
    assert requests == ["PutItem"]


def test_a_refused_connection_is_unreachable() -> None:
    with (
        open_dynamodb(
            TableAddress(table="events", region="eu-west-1", layout="workflow", endpoint="http://127.0.0.1:9")
        ) as journal,
        pytest.raises(Unreachable, match=r"127\.0\.0\.1:9"),
    ):
        journal.append([EVENT])


def test_appending_sends_only_puts() -> None:
    with journal_against(200, {}) as (journal, requests):
        journal.append([EVENT])

    assert requests == ["PutItem"] * 3  # the event, the claim and the entry
