"""Amazon SNS: the title and the text for people, the CloudEvent for programs that subscribe to the topic."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from longwatch.errors import MissingExtra
from longwatch.executions.sources.http_url import expand_variables
from longwatch.notifications.channels.base import (
    Channel,
    ChannelContext,
    ChannelKind,
    DeliveryError,
    DeliveryReceipt,
    Options,
)
from longwatch.notifications.message import Message
from longwatch.storage.aws import ClientOptions, core_session, make_client, new_session

TOPIC = re.compile(r"arn:aws[a-z-]*:sns:(?P<region>[a-z0-9-]+):\d{12}:[A-Za-z0-9_-]{1,256}(?P<fifo>\.fifo)?")
OPTIONS = ClientOptions(connect_seconds=3, read_seconds=10, attempts=2)
SUBJECT_CHARACTERS = 100
SMS_CHARACTERS = 140
# The message or the topic itself is wrong; what else is refused, an operator can change.
_FINAL = frozenset({"InvalidParameter", "InvalidParameterValue", "ValidationError"})

MakeClient = Callable[[str], Any]


def check(options: Options) -> None:
    """Raises ValueError for options that can never work."""
    topic = options.get("topic")
    if not isinstance(topic, str) or not ("${" in topic or TOPIC.fullmatch(topic)):
        raise ValueError(
            "topic must be an ARN such as arn:aws:sns:eu-west-1:123456789012:alerts, or ${NAME}, "
            f"not {topic!r}"
        )


def subject(message: Message) -> str:
    """The title as the subject of an e-mail: printable ASCII, limited in length."""
    text = "".join(each if " " <= each <= "~" else "?" for each in f"longwatch: {message.title}")
    return text[:SUBJECT_CHARACTERS]


def publication(topic: str, message: Message) -> dict[str, Any]:
    """The parameters of `Publish`."""
    text = f"{message.body}\n{message.url}" if message.url else message.body
    bodies = {
        "default": json.dumps(message.cloud_event(), ensure_ascii=False),
        "email": f"{message.title}\n\n{text}\n",
        "sms": f"longwatch: {message.title}"[:SMS_CHARACTERS],
    }
    attributes = {"rule": message.rule, "trigger": message.trigger.value, "delivery_id": message.delivery_id}
    request: dict[str, Any] = {
        "TopicArn": topic,
        "Subject": subject(message),
        "Message": json.dumps(bodies, ensure_ascii=False),
        "MessageStructure": "json",
        "MessageAttributes": {
            name: {"DataType": "String", "StringValue": value} for name, value in attributes.items()
        },
    }
    if topic.endswith(".fifo"):
        request |= {"MessageGroupId": message.rule, "MessageDeduplicationId": message.delivery_id}
    return request


class SnsChannel:
    """Publishes to one topic, with the credentials of the process."""

    def __init__(self, options: Options, *, make: MakeClient) -> None:
        self._topic = str(options["topic"])
        self._make = make
        self._clients: dict[str, Any] = {}

    def send(self, message: Message) -> DeliveryReceipt:
        try:
            from botocore.exceptions import BotoCoreError, ClientError
        except ImportError as error:
            raise DeliveryError(str(MissingExtra("SNS", "aws")), is_retryable=True) from error
        try:
            topic = expand_variables(self._topic).strip()
        except ValueError as error:  # it may be set before the next attempt
            raise DeliveryError(str(error), is_retryable=True) from error
        found = TOPIC.fullmatch(topic)
        if found is None:
            raise DeliveryError(f"{topic[:100]!r} is not the ARN of an SNS topic", is_retryable=True)
        try:
            response = self._client(found["region"]).publish(**publication(topic, message))
        except ClientError as error:
            problem: Any = error.response.get("Error", {})
            code = str(problem.get("Code", "unknown error"))
            text = f"SNS returned {code}: {problem.get('Message', '')}"
            raise DeliveryError(text, is_retryable=code not in _FINAL) from error
        except BotoCoreError as error:
            raise DeliveryError(f"SNS is unreachable: {error}", is_retryable=True) from error
        return DeliveryReceipt(f"SNS {response['MessageId']}")

    def _client(self, region: str) -> Any:
        if region not in self._clients:
            self._clients[region] = self._make(region)
        return self._clients[region]


def sns_client(region: str) -> Any:
    """A client of SNS in this region."""
    return make_client(new_session(core_session("Sending to SNS")), "sns", region=region, options=OPTIONS)


def _open(options: Options, context: ChannelContext) -> Channel:
    return SnsChannel(options, make=sns_client)


KIND = ChannelKind(name="sns", options=frozenset({"topic"}), check=check, open=_open)
