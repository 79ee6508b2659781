"""infrastructure/executions.yaml with a topic, deployed: an execution that fails is published."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from longwatch.model.event import Event, new_event_id
from longwatch.testing.drs import DrsSimulator
from tests.engines.start import EngineMissing
from tests.patience import PATIENCE_SECONDS
from tests.stack.deployment import client
from tests.stack.executions import Deployed, GuardedMiniStack, deployed, until


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    engine = GuardedMiniStack()
    try:
        engine.start()
    except EngineMissing as error:
        pytest.skip(str(error))
    yield engine.url
    engine.stop()


@pytest.fixture(scope="module")
def topic(engine: str) -> str:
    return str(client("sns", engine).create_topic(Name=f"alerts-{uuid.uuid4().hex[:8]}")["TopicArn"])


@pytest.fixture(scope="module")
def stack(engine: str, topic: str) -> Iterator[Deployed]:
    with DrsSimulator() as drs, deployed(engine, drs, NotifyTopicArn=topic) as it:
        yield it


def notify(stack: Deployed) -> dict[str, Any]:
    """Call the notifier as its rule does, and wait for its response."""
    response = stack.client("lambda").invoke(FunctionName=f"{stack.name}-notifier", Payload=b"{}")
    result: dict[str, Any] = json.loads(response["Payload"].read())
    assert "FunctionError" not in response, result
    return result


def append(stack: Deployed, type_: str, **payload: object) -> None:
    at = int(time.time() * 1000)
    event = Event(run_id="plan/x-1", event_id=new_event_id(at), type=type_, occurred_at=at, payload=payload)
    stack.journal.append([event])


def notified(stack: Deployed) -> list[Event]:
    return [each for each in stack.journal.read("plan/x-1").events if each.type == "notified"]


def test_a_failed_execution_is_published_once_and_recorded(stack: Deployed) -> None:
    notify(stack)  # from now on its rule reports
    append(stack, "execution_started", name="drill", kind="execution")
    append(stack, "execution_ended", status="failed", error_message="server s-1 failed to launch")

    def published() -> list[Event] | None:
        notify(stack)
        return notified(stack) or None

    (event,) = until(published, within=PATIENCE_SECONDS, what="a message was published")
    again = notify(stack)

    assert again == {"delivered": 0, "given_up": 0, "queued": 0}
    assert (event.payload["rule"], event.payload["trigger"]) == ("executions", "failed")
    assert str(event.payload["response"]).startswith("SNS ")
    assert notified(stack) == [event]
