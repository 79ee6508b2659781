"""The Lambda function that invokes an agent, and the agents it can invoke."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator, Mapping
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.compat import HTTPHeaders
from botocore.exceptions import NoCredentialsError
from botocore.response import StreamingBody
from botocore.stub import Stubber

from longwatch.aws.invoker import AgentCoreAgent, HttpAgent, agent_from, handler, invoke, request
from longwatch.errors import AgentRefused, InvalidInput, InvalidSettings
from longwatch.journal.factory import open_journal
from longwatch.testing import FaultyJournal, MemoryJournal

SESSION = "session-0123456789-0123456789-0123"
EVENT = {"session_id": SESSION, "execution": "e-1", "payload": {"question": "why"}}
ARN = "arn:aws:bedrock-agentcore:eu-west-1:000000000000:runtime/agent-1234567890"


class ScriptedAgent:
    """An agent that responds, or fails on demand."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.asked: list[tuple[str, Mapping[str, Any]]] = []

    def invoke(self, session_id: str, payload: Mapping[str, Any]) -> object:
        self.asked.append((session_id, payload))
        if self.error is not None:
            raise self.error
        return {"accepted": True}


def types(journal: MemoryJournal) -> list[str]:
    return [event.type for event in journal.read(SESSION).events]


class TestAnInvocation:
    def test_that_succeeds_is_journaled(self) -> None:
        journal, agent = MemoryJournal(), ScriptedAgent()

        response = invoke(EVENT, journal, lambda: agent)

        assert response == {"session_id": SESSION, "status": "succeeded", "answer": {"accepted": True}}
        assert types(journal) == ["AGENT_INVOCATION_STARTED", "AGENT_INVOCATION_SUCCEEDED"]

    def test_that_fails_is_journaled_and_returned_rather_than_raised(self) -> None:
        journal = MemoryJournal()

        response = invoke(EVENT, journal, lambda: ScriptedAgent(NoCredentialsError()))

        assert response["status"] == "failed"
        assert response["error"] == "NoCredentialsError: Unable to locate credentials"
        assert types(journal) == ["AGENT_INVOCATION_STARTED", "AGENT_INVOCATION_FAILED"]
        assert journal.read(SESSION).events[-1].payload["error_message"] == response["error"]

    def test_of_an_agent_that_can_not_be_created_is_journaled_too(self) -> None:
        journal = MemoryJournal()

        response = invoke(EVENT, journal, lambda: agent_from({}))

        assert "LONGWATCH_AGENT_URL" in response["error"]
        assert types(journal)[-1] == "AGENT_INVOCATION_FAILED"

    def test_continues_where_the_journal_can_not_be_written(self, caplog: pytest.LogCaptureFixture) -> None:
        journal, agent = FaultyJournal(), ScriptedAgent()
        journal.fail(error=InvalidInput("broken"))

        response = invoke(EVENT, journal, lambda: agent)

        assert response["status"] == "succeeded"
        assert "cannot journal AGENT_INVOCATION_STARTED" in caplog.text

    def test_passes_on_the_payload_the_session_and_the_environment(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("LONGWATCH_TABLE_NAME", "journal")
        monkeypatch.setenv("LONGWATCH_REGION", "eu-west-1")

        assert request(EVENT) == {
            "question": "why",
            "session_id": SESSION,
            "execution": "e-1",
            "environment": {
                "LONGWATCH_SESSION_ID": SESSION,
                "LONGWATCH_EXECUTION": "e-1",
                "LONGWATCH_TABLE_NAME": "journal",
                "LONGWATCH_REGION": "eu-west-1",
            },
        }

    @pytest.mark.parametrize("event", [{}, {"session_id": ""}, {"session_id": 5}, {"payload": {}}, [], "s-1"])
    def test_without_a_session_id_names_what_to_send(
        self, event: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("LONGWATCH_JOURNAL", "nonsense://")  # which must not hide the cause
        agent = ScriptedAgent()

        with pytest.raises(InvalidInput, match=r'session_id is .* send \{"session_id": "ID"'):
            handler(event, None)
        with pytest.raises(InvalidInput, match="session_id"):
            invoke(event, MemoryJournal(), lambda: agent)

        assert not agent.asked

    def test_returns_the_beginning_of_a_long_error(self) -> None:
        response = invoke(EVENT, MemoryJournal(), lambda: ScriptedAgent(RuntimeError("x" * 1_000_000)))

        assert len(response["error"]) == 4_096

    def test_accepts_a_payload_that_is_not_a_map(self) -> None:
        assert request({"session_id": SESSION, "payload": "why"})["input"] == "why"

    def test_by_lambda_itself_uses_the_journal_and_the_agent_of_the_environment(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("LONGWATCH_JOURNAL", "memory://invoker")
        monkeypatch.setenv("LONGWATCH_AGENT_URL", "http://127.0.0.1:9")  # no server is there
        monkeypatch.delenv("LONGWATCH_AGENT_RUNTIME_ARN", raising=False)

        response = handler(EVENT, None)

        assert response["status"] == "failed"
        journal = open_journal("memory://invoker")
        assert [event.type for event in journal.read(SESSION).events] == [
            "AGENT_INVOCATION_STARTED",
            "AGENT_INVOCATION_FAILED",
        ]


class TestAgentCore:
    @staticmethod
    def stubbed(body: bytes, status: int = 200) -> tuple[Any, Stubber]:
        client = boto3.client(
            "bedrock-agentcore",
            region_name="eu-west-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )
        stub = Stubber(client)
        stub.add_response(
            "invoke_agent_runtime",
            {
                "contentType": "application/json",
                "statusCode": status,
                "response": StreamingBody(io.BytesIO(body), len(body)),
            },
            {
                "agentRuntimeArn": ARN,
                "qualifier": "live",
                "runtimeSessionId": SESSION,
                "contentType": "application/json",
                "payload": json.dumps({"question": "why"}).encode(),
            },
        )
        stub.activate()
        return client, stub

    def test_is_called_with_its_own_parameters(self) -> None:
        client, stub = self.stubbed(b'{"accepted": true}')

        response = AgentCoreAgent(client, ARN, qualifier="live").invoke(SESSION, {"question": "why"})

        assert response == {"accepted": True}
        stub.assert_no_pending_responses()

    def test_that_responds_with_an_error_has_refused(self) -> None:
        client, _ = self.stubbed(b'{"error": "no"}', status=500)

        with pytest.raises(AgentRefused, match="500"):
            AgentCoreAgent(client, ARN, qualifier="live").invoke(SESSION, {"question": "why"})

    @pytest.mark.parametrize(
        ("session_id", "sent"),
        [
            ("sitzung-münchen-0123456789-0123456789", "sitzung-m%C3%BCnchen-0123456789-0123456789"),
            ("セッション-東京", "%E3%82%BB%E3%83%83%E3%82%B7%E3%83%A7%E3%83%B3-%E6%9D%B1%E4%BA%AC"),
            ("two words and a tab\t, 0123456789", "two%20words%20and%20a%20tab%09%2C%200123456789"),
            ("s-1", sha256(b"s-1").hexdigest()),  # it takes at least 33 characters
            ("sitzung-ä", sha256(b"sitzung-%C3%A4").hexdigest()),
            ("東" * 100, sha256(b"%E6%9D%B1" * 100).hexdigest()),  # it takes at most 256 characters
        ],
    )
    def test_gets_any_session_id_in_a_form_that_a_header_holds(self, session_id: str, sent: str) -> None:
        client = boto3.client(
            "bedrock-agentcore",
            region_name="eu-west-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )
        requests: list[Any] = []

        def response(request: AWSPreparedRequest, **_: object) -> AWSResponse:
            requests.append(request)
            return AWSResponse(request.url, 200, HTTPHeaders(), io.BytesIO(b"{}"))

        client.meta.events.register("before-send", response)

        AgentCoreAgent(client, ARN).invoke(session_id, {"session_id": session_id})

        header = requests[0].headers["X-Amzn-Bedrock-AgentCore-Runtime-Session-Id"]
        assert (header.decode() if isinstance(header, bytes) else header) == sent
        assert json.loads(requests[0].body)["session_id"] == session_id


class Posted(BaseHTTPRequestHandler):
    """Returns each request in its response, `/long` at length, and refuses every other path."""

    def do_POST(self) -> None:
        if self.path == "/long":
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"long" * 250_000)
            return
        if self.path != "/invocations":
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response({"/refused": 503, "/moved": 302}.get(self.path, 307))
            self.send_header("Location", "/elsewhere")
            self.end_headers()
            self.wfile.write(b"no " * 1_000)
            return
        got = {
            "header": self.headers["X-Amzn-Bedrock-AgentCore-Runtime-Session-Id"],
            "payload": json.loads(self.rfile.read(int(self.headers["Content-Length"]))),
        }
        body = json.dumps(got).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:  # where a redirect that is followed would lead
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Posted)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/invocations"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("session_id", "header"),
    [("s-1", "s-1"), ("größe", "gr%C3%B6%C3%9Fe"), ("東京\n", "%E6%9D%B1%E4%BA%AC%0A")],
)
def test_an_agent_behind_http_gets_any_session_id(url: str, session_id: str, header: str) -> None:
    response = invoke({"session_id": session_id}, MemoryJournal(), lambda: HttpAgent(url))

    assert response["status"] == "succeeded"
    assert response["answer"]["header"] == header
    assert response["answer"]["payload"]["session_id"] == session_id


@pytest.mark.parametrize(("path", "status"), [("refused", 503), ("moved", 302), ("kept", 307)])
def test_an_agent_behind_http_that_responds_otherwise_has_refused(url: str, path: str, status: int) -> None:
    agent = HttpAgent(url.replace("invocations", path))

    with pytest.raises(AgentRefused, match=rf"/{path} returned {status}: (no )+") as refused:
        agent.invoke(SESSION, {})

    assert str(refused.value).count("no ") == 166  # 500 bytes: the beginning is enough


def test_of_a_long_response_the_beginning_is_read(url: str) -> None:
    response = HttpAgent(url.replace("invocations", "long")).invoke(SESSION, {})

    assert response == "long" * 25_000


class TestTheEnvironment:
    def test_names_an_agent_behind_a_url(self) -> None:
        agent = agent_from({"LONGWATCH_AGENT_URL": "https://agent.example", "LONGWATCH_AGENT_TIMEOUT": "5"})

        assert isinstance(agent, HttpAgent)

    def test_names_an_agentcore_runtime(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")

        assert isinstance(agent_from({"LONGWATCH_AGENT_RUNTIME_ARN": ARN}), AgentCoreAgent)

    @pytest.mark.parametrize(
        ("environment", "message"),
        [
            ({}, "No agent. Set"),
            ({"LONGWATCH_AGENT_URL": "agent.example"}, "must begin with http"),
            ({"LONGWATCH_AGENT_URL": "http://x", "LONGWATCH_AGENT_TIMEOUT": "soon"}, "number of seconds"),
        ],
    )
    def test_that_is_wrong_is_explained(self, environment: dict[str, str], message: str) -> None:
        with pytest.raises(InvalidSettings, match=message):
            agent_from(environment)
