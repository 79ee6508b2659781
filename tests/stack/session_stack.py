"""The deployed stack of infrastructure/session-journal.yaml, and how a test starts sessions on it."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import Any

from longwatch.journal.base import Journal
from longwatch.model.event import Event
from tests.stack.agent import ScriptedAgent
from tests.stack.deployment import client, configure, ended


@dataclass
class Deployed:
    """The stack on the engine, and the agent that it invokes."""

    url: str
    name: str
    outputs: dict[str, str]
    journal: Journal
    agent: ScriptedAgent

    def start(
        self, session_id: str, act: str, *, execution: str | None = None, machine: str | None = None
    ) -> str:
        arn: str = self.sfn.start_execution(
            stateMachineArn=machine or self.outputs["StateMachineArn"],
            name=execution or f"{session_id}-{uuid.uuid4().hex[:6]}",
            input=json.dumps({"session_id": session_id, "payload": {"act": act}}),
        )["executionArn"]
        return arn

    def put_foreign(self, session_id: str, at: str) -> None:
        """A completion as an agent writes it that knows the session journal requirements alone."""
        self.dynamodb.put_item(
            TableName=self.outputs["TableName"],
            Item={
                "PK": {"S": f"SESSION#{session_id}"},
                "SK": {"S": f"EVENT#{at}"},
                "Status": {"S": "AGENT_BACKGROUND_TASK_COMPLETED"},
                "Timestamp": {"S": at},
            },
        )

    def play(self, act: str) -> tuple[dict[str, Any], list[Event]]:
        """One session to its end: the execution and the journal."""
        session_id = new_session()
        execution = ended(self.sfn, self.start(session_id, act))
        return execution, list(self.journal.read(session_id).events)

    def play_with(
        self,
        act: str,
        state: str,
        visits: str,
        error: str,
        *,
        session_id: str | None = None,
        returns: dict[str, object] | None = None,
    ) -> tuple[dict[str, Any], list[Event]]:
        """One session in which these visits to a state end in this error."""
        session_id = session_id or new_session()
        machine = self.outputs["StateMachineArn"]
        responses: dict[str, dict[str, Any]] = {
            name: {"0": {"Return": value}} for name, value in (returns or {}).items()
        }
        # The engine counts only visits that were reported to it.
        first: dict[str, Any] = {} if visits.startswith("0") else {"0": {"Return": {}}}
        responses[state] = {**first, visits: {"Throw": {"Error": error, "Cause": "as the test asked"}}}
        case = {name: name for name in responses}
        mocked = {
            "StateMachines": {machine.rsplit(":", 1)[1]: {"TestCases": {"case": case}}},
            "MockedResponses": responses,
        }
        configure(self.url, _sfn_mock_config=mocked)
        try:
            started = self.sfn.start_execution(
                stateMachineArn=f"{machine}#case",
                name=session_id,
                input=json.dumps({"session_id": session_id, "payload": {"act": act}}),
            )
            execution = ended(self.sfn, started["executionArn"])
        finally:
            configure(self.url, _sfn_mock_config={})
        return execution, list(self.journal.read(session_id).events)

    @property
    def sfn(self) -> Any:
        return client("stepfunctions", self.url)

    @property
    def dynamodb(self) -> Any:
        return client("dynamodb", self.url)

    @property
    def journal_url(self) -> str:
        return self.journal.url


def new_session() -> str:
    return f"session-{uuid.uuid4()}"  # AgentCore wants 33 characters and more
