"""SNS through boto3, to a queue that subscribes to a topic of a local engine."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from longwatch.notifications.channels.base import ChannelContext, DeliveryError
from longwatch.notifications.channels.sns import KIND, SnsChannel, publication, subject
from longwatch.notifications.message import Message, Notice, compose
from longwatch.notifications.rules import Trigger
from longwatch.settings import Settings
from tests.stack.deployment import client

TOPIC = "arn:aws:sns:eu-west-1:123456789012:alerts"


def message(name: str = "import") -> Message:
    notice = Notice(run_id="wf-1", run_name=name, trigger=Trigger.FAILED, text="failed: boom", occurred_at=1)
    return compose("msg_1", "failures", [notice], page_url="http://127.0.0.1:8321/")


@pytest.mark.needs_ministack
class TestWithEngine:
    @pytest.fixture
    def topic(self, ministack_url: str) -> str:
        return str(client("sns", ministack_url).create_topic(Name=f"t-{uuid.uuid4().hex[:8]}")["TopicArn"])

    @pytest.fixture
    def queue(self, ministack_url: str, topic: str) -> Iterator[str]:
        sqs = client("sqs", ministack_url)
        url = sqs.create_queue(QueueName=f"q-{uuid.uuid4().hex[:8]}")["QueueUrl"]
        about = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]
        client("sns", ministack_url).subscribe(TopicArn=topic, Protocol="sqs", Endpoint=about["QueueArn"])
        yield url
        sqs.delete_queue(QueueUrl=url)

    @pytest.fixture
    def credentials(self, monkeypatch: pytest.MonkeyPatch, ministack_url: str) -> None:
        monkeypatch.setenv("AWS_ENDPOINT_URL_SNS", ministack_url)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")

    def test_a_subscriber_gets_the_cloud_event(
        self, ministack_url: str, topic: str, queue: str, credentials: None
    ) -> None:
        KIND.check({"topic": topic})
        channel = KIND.open({"topic": topic}, ChannelContext(settings=Settings(journal="memory://")))

        receipt = channel.send(message())

        sqs = client("sqs", ministack_url)
        (received,) = sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=5)["Messages"]
        body = json.loads(json.loads(received["Body"])["Message"])
        body = json.loads(body["default"]) if "default" in body else body  # some engines keep the structure
        assert receipt.status.startswith("SNS ")
        assert (body["id"], body["type"]) == ("msg_1", "longwatch.notification")

    def test_a_topic_that_does_not_exist_is_retried(self, credentials: None) -> None:
        channel = KIND.open({"topic": TOPIC}, ChannelContext(settings=Settings(journal="memory://")))

        with pytest.raises(DeliveryError, match="SNS returned NotFound") as raised:
            channel.send(message())

        assert raised.value.is_retryable


def test_people_and_programs_get_their_own_form() -> None:
    request = publication(TOPIC, message("naïve\nimport"))
    bodies = json.loads(request["Message"])

    assert request["Subject"] == "longwatch: na?ve import failed"
    assert json.loads(bodies["default"])["data"]["rule"] == "failures"
    assert bodies["email"].startswith("naïve import failed\n\nnaïve import (wf-1): failed: boom\nhttp://")
    assert request["MessageAttributes"]["delivery_id"]["StringValue"] == "msg_1"
    assert "MessageGroupId" not in request


def test_a_fifo_topic_drops_repeated_messages_itself() -> None:
    request = publication(f"{TOPIC}.fifo", message())

    assert (request["MessageGroupId"], request["MessageDeduplicationId"]) == ("failures", "msg_1")


def test_a_long_subject_is_cut() -> None:
    assert len(subject(message("x" * 300))) == 100


@pytest.mark.parametrize("topic", [None, "", "alerts", "arn:aws:sqs:eu-west-1:123456789012:alerts"])
def test_anything_but_the_arn_of_a_topic_is_a_mistake(topic: object) -> None:
    with pytest.raises(ValueError, match="topic must be an ARN such as"):
        KIND.check({"topic": topic})


def test_an_invalid_message_is_given_up_and_an_outage_is_not() -> None:
    from botocore.exceptions import ClientError, EndpointConnectionError

    def failing(error: Exception) -> Any:
        class Client:
            def publish(self, **_: object) -> None:
                raise error

        return lambda region: Client()

    invalid = ClientError({"Error": {"Code": "InvalidParameter", "Message": "too long"}}, "Publish")
    outage = EndpointConnectionError(endpoint_url="https://sns")

    for error, is_retryable in ((invalid, False), (outage, True)):
        with pytest.raises(DeliveryError) as raised:
            SnsChannel({"topic": TOPIC}, make=failing(error)).send(message())
        assert raised.value.is_retryable is is_retryable


def test_a_variable_is_read_for_each_message(monkeypatch: pytest.MonkeyPatch) -> None:
    regions: list[str] = []

    class Client:
        def publish(self, **request: Any) -> dict[str, str]:
            return {"MessageId": request["TopicArn"]}

    def make(region: str) -> Client:
        regions.append(region)
        return Client()

    channel = SnsChannel({"topic": "${ALERTS}"}, make=make)
    with pytest.raises(DeliveryError, match="ALERTS is not set"):
        channel.send(message())
    monkeypatch.setenv("ALERTS", TOPIC)

    assert channel.send(message()).status == f"SNS {TOPIC}"
    assert regions == ["eu-west-1"]
