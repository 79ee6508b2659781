"""How the invoker reaches an agent: Amazon Bedrock AgentCore by boto3, or any agent that speaks HTTP."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Protocol
from urllib.parse import quote

from longwatch.errors import AgentRefused, InvalidSettings

RUNTIME_VARIABLE = "LONGWATCH_AGENT_RUNTIME_ARN"
QUALIFIER_VARIABLE = "LONGWATCH_AGENT_QUALIFIER"  # a version or endpoint of the runtime
URL_VARIABLE = "LONGWATCH_AGENT_URL"
TIMEOUT_VARIABLE = "LONGWATCH_AGENT_TIMEOUT"
DEFAULT_TIMEOUT_SECONDS = 60.0
SHORTEST_SESSION_ID, LONGEST_SESSION_ID = 33, 256  # characters that AgentCore takes
ANSWER_BYTES = 100_000  # of an answer that are read; a state machine passes on 256 KB at most


class Agent(Protocol):
    """Something that takes a request and answers. What it then does is told by its journal."""

    def invoke(self, session_id: str, payload: Mapping[str, Any]) -> object:
        """Hand over the request. Any exception means that the agent did not take it."""


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
        answer = self._client.invoke_agent_runtime(
            **self._options,
            runtimeSessionId=sent,
            contentType="application/json",
            payload=json.dumps(payload).encode(),
        )
        body = answer["response"].read(ANSWER_BYTES)
        status = answer.get("statusCode", 200)
        if status >= 400:
            raise AgentRefused(f"the agent answered {status}: {body[:500].decode(errors='replace')}")
        return _decoded(body)


class HttpAgent:
    """An agent behind an address that takes a POST of JSON."""

    def __init__(self, url: str, *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS) -> None:
        if not url.startswith(("http://", "https://")):
            raise InvalidSettings([f"{URL_VARIABLE} is {url!r}; it must begin with http:// or https://"])
        self._url = url
        self._timeout_seconds = timeout_seconds

    def invoke(self, session_id: str, payload: Mapping[str, Any]) -> object:
        request = urllib.request.Request(
            self._url,
            data=json.dumps(payload).encode(),
            headers={
                "Content-Type": "application/json",
                "X-Amzn-Bedrock-AgentCore-Runtime-Session-Id": header_text(session_id),  # as AgentCore's SDK
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=self._timeout_seconds) as answer:
                return _decoded(answer.read(ANSWER_BYTES))
        except urllib.error.HTTPError as error:
            said = error.read(500).decode(errors="replace")
            raise AgentRefused(f"the agent at {self._url} answered {error.code}: {said}") from error


def header_text(session_id: str) -> str:
    """The session id as a header can hold it: percent-encoded, unless all of it is visible ASCII.

    The payload has the id unchanged, and agents that journal with longwatch take it from there.
    """
    if all("!" <= character <= "~" for character in session_id):
        return session_id
    return quote(session_id, safe="", errors="backslashreplace")


def agent_from(environment: Mapping[str, str]) -> Agent:
    """The agent that the environment names."""
    seconds = _seconds(environment.get(TIMEOUT_VARIABLE))
    if arn := environment.get(RUNTIME_VARIABLE):
        import boto3
        from botocore.config import Config

        # One try: asking an agent twice could start it twice.
        config = Config(connect_timeout=5, read_timeout=seconds, retries={"total_max_attempts": 1})
        client = boto3.client("bedrock-agentcore", config=config)
        return AgentCoreAgent(client, arn, qualifier=environment.get(QUALIFIER_VARIABLE))
    if url := environment.get(URL_VARIABLE):
        return HttpAgent(url, timeout_seconds=seconds)
    raise InvalidSettings([f"no agent is named; set {RUNTIME_VARIABLE} or {URL_VARIABLE}"])


def _seconds(text: str | None) -> float:
    try:
        return float(text) if text else DEFAULT_TIMEOUT_SECONDS
    except ValueError as error:
        raise InvalidSettings([f"{TIMEOUT_VARIABLE} is {text!r}; it must be a number of seconds"]) from error


def _decoded(body: bytes) -> object:
    """The answer as JSON, or as text where it is none."""
    try:
        return json.loads(body)
    except ValueError:
        return body.decode(errors="replace")
