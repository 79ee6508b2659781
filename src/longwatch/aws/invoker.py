"""The Lambda function that invokes the agent of a session and journals how that went.

The state machine calls it with `session_id`, `execution` and `payload`. It never raises because of the
agent: it returns `succeeded` or `failed`, and the state machine finds the end of the work in the journal.

Environment: LONGWATCH_TABLE_NAME and LONGWATCH_REGION name the journal; LONGWATCH_AGENT_RUNTIME_ARN or
LONGWATCH_AGENT_URL names the agent.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from functools import cache
from hashlib import sha256
from typing import Any, Protocol
from urllib.parse import quote

from longwatch.errors import AgentRefused, InvalidInput, InvalidSettings
from longwatch.journal.base import Journal
from longwatch.recording.sessions.recorder import (
    EXECUTION_VARIABLE,
    REGION_VARIABLE,
    SESSION_VARIABLE,
    TABLE_VARIABLE,
    SessionRecorder,
    SessionStatus,
    failure_text,
    open_session_journal,
)
from longwatch.storage.aws import ClientOptions, core_session, make_client, new_session
from longwatch.storage.http import HttpClient

RUNTIME_VARIABLE = "LONGWATCH_AGENT_RUNTIME_ARN"
QUALIFIER_VARIABLE = "LONGWATCH_AGENT_QUALIFIER"  # a version or endpoint of the runtime
URL_VARIABLE = "LONGWATCH_AGENT_URL"
TIMEOUT_VARIABLE = "LONGWATCH_AGENT_TIMEOUT"
DEFAULT_TIMEOUT_SECONDS = 60.0
SHORTEST_SESSION_ID, LONGEST_SESSION_ID = 33, 256  # characters that AgentCore accepts
ANSWER_BYTES = 100_000  # of a response that are read; a state machine accepts 256 KB at most


class Agent(Protocol):
    """Accepts requests. Its work is reported in the journal."""

    def invoke(self, session_id: str, payload: Mapping[str, Any]) -> object:
        """Send the request. Any exception means that the agent did not accept it."""


class AgentCoreAgent:
    """An agent in an AgentCore runtime."""

    def __init__(self, client: Any, runtime_arn: str, *, qualifier: str | None = None) -> None:
        self._client = client
        self._options = {"agentRuntimeArn": runtime_arn}
        if qualifier:
            self._options["qualifier"] = qualifier

    def invoke(self, session_id: str, payload: Mapping[str, Any]) -> object:
        sent = header_text(session_id)
        if not SHORTEST_SESSION_ID <= len(sent) <= LONGEST_SESSION_ID:
            sent = sha256(sent.encode()).hexdigest()
        response = self._client.invoke_agent_runtime(
            **self._options,
            runtimeSessionId=sent,
            contentType="application/json",
            payload=json.dumps(payload).encode(),
        )
        body = response["response"].read(ANSWER_BYTES)
        status = response.get("statusCode", 200)
        if status >= 400:
            raise AgentRefused(f"the agent returned {status}: {body[:500].decode(errors='replace')}")
        return _decode(body)


class HttpAgent:
    """An agent at a URL that accepts a POST of JSON."""

    def __init__(self, url: str, *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS) -> None:
        if not url.startswith(("http://", "https://")):
            raise InvalidSettings([f"{URL_VARIABLE} is {url!r}; it must begin with http:// or https://"])
        self._url = url
        self._timeout_seconds = timeout_seconds

    def invoke(self, session_id: str, payload: Mapping[str, Any]) -> object:
        headers = {
            "Content-Type": "application/json",
            "X-Amzn-Bedrock-AgentCore-Runtime-Session-Id": header_text(session_id),  # as AgentCore's SDK
        }
        body = json.dumps(payload).encode()
        with _http().send(
            "POST", self._url, headers=headers, body=body, timeout_seconds=self._timeout_seconds
        ) as response:
            if not 200 <= response.status < 300:
                text = response.read(500).decode(errors="replace")
                raise AgentRefused(f"the agent at {self._url} returned {response.status}: {text}")
            return _decode(response.read(ANSWER_BYTES))


def header_text(session_id: str) -> str:
    """The session id for a header: percent-encoded, unless all of it is visible ASCII.

    The payload has the id unchanged, where agents that use longwatch read it.
    """
    if all("!" <= character <= "~" for character in session_id):
        return session_id
    return quote(session_id, safe="", errors="backslashreplace")


def agent_from(environment: Mapping[str, str]) -> Agent:
    """The agent that the environment names."""
    seconds = _seconds(environment.get(TIMEOUT_VARIABLE))
    if arn := environment.get(RUNTIME_VARIABLE):
        # One attempt: a retry could start the agent twice.
        options = ClientOptions(connect_seconds=5, read_seconds=seconds, attempts=1)
        client = make_client(_session(), "bedrock-agentcore", options=options)
        return AgentCoreAgent(client, arn, qualifier=environment.get(QUALIFIER_VARIABLE))
    if url := environment.get(URL_VARIABLE):
        return HttpAgent(url, timeout_seconds=seconds)
    raise InvalidSettings([f"No agent. Set {RUNTIME_VARIABLE} or {URL_VARIABLE}"])


@cache
def _http() -> HttpClient:
    return HttpClient()


@cache
def _session() -> Any:
    """One session for the life of the container: a new one takes 60 ms to read the models of AWS."""
    return new_session(core_session("Invoking an agent on AgentCore"))


def _seconds(text: str | None) -> float:
    try:
        return float(text) if text else DEFAULT_TIMEOUT_SECONDS
    except ValueError as error:
        raise InvalidSettings([f"{TIMEOUT_VARIABLE} is {text!r}; it must be a number of seconds"]) from error


def _decode(body: bytes) -> object:
    """The response as JSON, or as text if it is not JSON."""
    try:
        return json.loads(body)
    except ValueError:
        return body.decode(errors="replace")


ERROR_CHARACTERS = 4_096  # of an error; a state machine fails at more than 256 KB


def handler(event: Mapping[str, Any], context: object = None) -> dict[str, Any]:
    """The handler."""
    session_of(event)  # before the journal is opened, whose error would hide this one
    return invoke(event, open_session_journal(), lambda: agent_from(os.environ))


def invoke(event: Mapping[str, Any], journal: Journal, agent: Callable[[], Agent]) -> dict[str, Any]:
    """Invoke the agent once, and journal STARTED, then SUCCEEDED or FAILED."""
    session_id, execution = session_of(event), event.get("execution")
    recorder = SessionRecorder(journal, session_id, execution=execution)
    recorder.try_record(SessionStatus.AGENT_INVOCATION_STARTED)
    try:
        response = agent().invoke(session_id, request(event))
    except Exception as error:  # noqa: BLE001 - reported to the state machine
        recorder.try_record(SessionStatus.AGENT_INVOCATION_FAILED, error=error)
        text = failure_text(error)[:ERROR_CHARACTERS]
        return {"session_id": session_id, "status": "failed", "error": text}
    recorder.try_record(SessionStatus.AGENT_INVOCATION_SUCCEEDED)
    return {"session_id": session_id, "status": "succeeded", "answer": response}


def session_of(event: object) -> str:
    """The session of an event. Raises `InvalidInput` with an example of an event."""
    session_id = event.get("session_id") if isinstance(event, Mapping) else None
    if isinstance(session_id, str) and session_id:
        return session_id
    raise InvalidInput(
        f"Invalid event: session_id is {session_id!r}. Start the state machine instead, or send "
        '{"session_id": "ID", "payload": {…}} with a non-empty string as the id.'
    )


def request(event: Mapping[str, Any]) -> dict[str, Any]:
    """The request for the agent: the caller's payload, the session, and variables for its environment."""
    environment = {
        SESSION_VARIABLE: event["session_id"],
        EXECUTION_VARIABLE: event.get("execution"),
        TABLE_VARIABLE: os.environ.get(TABLE_VARIABLE),
        REGION_VARIABLE: os.environ.get(REGION_VARIABLE) or os.environ.get("AWS_REGION"),
    }
    payload = event.get("payload")
    return {
        **(payload if isinstance(payload, Mapping) else {"input": payload}),
        "session_id": event["session_id"],
        "execution": event.get("execution"),
        "environment": {name: value for name, value in environment.items() if value},
    }
