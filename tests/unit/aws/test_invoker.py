"""The Lambda function that invokes an agent, and the agents it can invoke."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

import boto3
import pytest
from botocore.exceptions import NoCredentialsError
from botocore.response import StreamingBody
from botocore.stub import Stubber

from longwatch.aws.agents import AgentCoreAgent, HttpAgent, agent_from
from longwatch.aws.invoker import handler, invoke, request
from longwatch.errors import AgentRefused, InvalidInput, InvalidSettings
from longwatch.journal.opening import open_journal
from longwatch.testing import FaultyJournal, MemoryJournal

SESSION = "session-0123456789-0123456789-0123"
EVENT = {"session_id": SESSION, "execution": "e-1", "payload": {"question": "why"}}
ARN = "arn:aws:bedrock-agentcore:eu-west-1:000000000000:runtime/agent-1234567890"


class Answering:
    """An agent that answers, or fails as it was told."""

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
        journal, agent = MemoryJournal(), Answering()

        answer = invoke(EVENT, journal, lambda: agent)

        assert answer == {"session_id": SESSION, "status": "succeeded", "answer": {"accepted": True}}
        assert types(journal) == ["AGENT_INVOCATION_STARTED", "AGENT_INVOCATION_SUCCEEDED"]

    def test_that_fails_is_journaled_and_answered_rather_than_raised(self) -> None:
        journal = MemoryJournal()

        answer = invoke(EVENT, journal, lambda: Answering(NoCredentialsError()))

        assert answer["status"] == "failed"
        assert answer["error"] == "NoCredentialsError: Unable to locate credentials"
        assert types(journal) == ["AGENT_INVOCATION_STARTED", "AGENT_INVOCATION_FAILED"]
        assert journal.read(SESSION).events[-1].payload["error_message"] == answer["error"]

    def test_of_an_agent_that_can_not_be_made_is_journaled_too(self) -> None:
        journal = MemoryJournal()

        answer = invoke(EVENT, journal, lambda: agent_from({}))

        assert "LONGWATCH_AGENT_URL" in answer["error"]
        assert types(journal)[-1] == "AGENT_INVOCATION_FAILED"

    def test_goes_on_where_the_journal_can_not_be_written(self, caplog: pytest.LogCaptureFixture) -> None:
        journal, agent = FaultyJournal(), Answering()
        journal.fail(error=InvalidInput("broken"))

        answer = invoke(EVENT, journal, lambda: agent)

        assert answer["status"] == "succeeded"
        assert "AGENT_INVOCATION_STARTED could not be journaled" in caplog.text

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

    def test_takes_a_payload_that_is_no_map(self) -> None:
        assert request({"session_id": SESSION, "payload": "why"})["input"] == "why"

    def test_by_lambda_itself_uses_the_journal_and_the_agent_of_the_environment(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("LONGWATCH_JOURNAL", "memory://invoker")
        monkeypatch.setenv("LONGWATCH_AGENT_URL", "http://127.0.0.1:9")  # nobody is there
        monkeypatch.delenv("LONGWATCH_AGENT_RUNTIME_ARN", raising=False)

        answer = handler(EVENT, None)

        assert answer["status"] == "failed"
        journal = open_journal("memory://invoker")
        assert [event.type for event in journal.read(SESSION).events] == [
            "AGENT_INVOCATION_STARTED",
            "AGENT_INVOCATION_FAILED",
        ]


class TestAgentCore:
    @staticmethod
    def answering(body: bytes, status: int = 200) -> tuple[Any, Stubber]:
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

    def test_is_asked_in_its_own_words(self) -> None:
        client, stub = self.answering(b'{"accepted": true}')

        answer = AgentCoreAgent(client, ARN, qualifier="live").invoke(SESSION, {"question": "why"})

        assert answer == {"accepted": True}
        stub.assert_no_pending_responses()

    def test_that_answers_with_an_error_has_refused(self) -> None:
        client, _ = self.answering(b'{"error": "no"}', status=500)

        with pytest.raises(AgentRefused, match="500"):
            AgentCoreAgent(client, ARN, qualifier="live").invoke(SESSION, {"question": "why"})

    def test_wants_long_session_ids_and_says_so(self) -> None:
        with pytest.raises(InvalidInput, match="at least 33"):
            AgentCoreAgent(None, ARN).invoke("s-1", {})


class TestTheEnvironment:
    def test_names_an_agent_behind_an_address(self) -> None:
        agent = agent_from({"LONGWATCH_AGENT_URL": "https://agent.example", "LONGWATCH_AGENT_TIMEOUT": "5"})

        assert isinstance(agent, HttpAgent)

    def test_names_an_agentcore_runtime(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")

        assert isinstance(agent_from({"LONGWATCH_AGENT_RUNTIME_ARN": ARN}), AgentCoreAgent)

    @pytest.mark.parametrize(
        ("environment", "message"),
        [
            ({}, "no agent is named"),
            ({"LONGWATCH_AGENT_URL": "agent.example"}, "must begin with http"),
            ({"LONGWATCH_AGENT_URL": "http://x", "LONGWATCH_AGENT_TIMEOUT": "soon"}, "number of seconds"),
        ],
    )
    def test_that_is_wrong_is_explained(self, environment: dict[str, str], message: str) -> None:
        with pytest.raises(InvalidSettings, match=message):
            agent_from(environment)
