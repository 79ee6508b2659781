"""Webhooks: a POST with a CloudEvent in JSON, signed as Standard Webhooks defines, or a body for Slack."""

from __future__ import annotations

import base64
import binascii
import hmac
import json
from collections.abc import Mapping
from hashlib import sha256
from http.client import HTTPException
from urllib.parse import urlsplit

from longwatch.executions.sources.http import expand_headers, retry_after
from longwatch.executions.sources.http_url import expand_variables, fill_defaults, validate_url
from longwatch.notifications.channels.base import (
    Channel,
    ChannelContext,
    ChannelKind,
    DeliveryError,
    DeliveryReceipt,
    Options,
)
from longwatch.notifications.message import Message
from longwatch.storage.http import post
from longwatch.storage.outgoing import ForbiddenAddress, OutgoingAddresses

FORMATS = ("cloudevents", "slack")
PREFIX = "whsec_"
SECRET_BYTES = range(24, 65)  # as Standard Webhooks recommends
# The receiver rejects the message itself; every other status may be temporary.
_FINAL = frozenset({400, 405, 406, 410, 413, 414, 415, 422})


def check(options: Options) -> None:
    """Raises ValueError for options that can never work."""
    url = options.get("url")
    if not isinstance(url, str) or not url:
        raise ValueError(f"url must be text such as https://example.org/hook or ${{HOOK_URL}}, not {url!r}")
    try:
        validate_url(fill_defaults(url))
    except ValueError as error:
        raise ValueError(f"url: {error}") from error
    if options.get("format", FORMATS[0]) not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, not {options['format']!r}")
    secret = options.get("secret")
    if secret is not None:
        if not isinstance(secret, str):
            raise ValueError("secret must be text such as ${HOOK_SECRET}")
        if "${" not in secret:
            parse_secret(secret)
    headers = options.get("headers", {})
    if not isinstance(headers, Mapping) or not all(isinstance(each, str) for each in headers.values()):
        raise ValueError(f"headers must be a table of texts, not {headers!r}")


def parse_secret(text: str) -> bytes:
    """The key in `whsec_` and base64. Raises ValueError, without the secret."""
    try:
        key = base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not text.startswith(PREFIX) or len(key) not in SECRET_BYTES:
        raise ValueError(
            f"secret must be {PREFIX} and the base64 of 24 to 64 random bytes, as "
            "`python -c 'import base64, os; print(\"whsec_\" + base64.b64encode(os.urandom(32)).decode())'` "
            "prints"
        )
    return key


def signature(key: bytes, delivery_id: str, timestamp: int, body: bytes) -> str:
    """The value of `webhook-signature`."""
    signed = b".".join((delivery_id.encode(), str(timestamp).encode(), body))
    return f"v1,{base64.b64encode(hmac.digest(key, signed, sha256)).decode()}"


def slack_text(message: Message) -> str:
    """The message in Slack's markup, with the link behind the title."""
    title, body = (
        text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        for text in (message.title, message.body)
    )
    head = f"<{message.url}|{title}>" if message.url else title
    return f"*{head}*\n{body}"


class WebhookChannel:
    """Sends to one URL. Its variables are read for each message, so a change needs no restart of a rule."""

    def __init__(self, options: Options, context: ChannelContext) -> None:
        self._url = str(options["url"])
        self._secret = options.get("secret")
        self._is_slack = options.get("format") == "slack"
        headers = options.get("headers")
        self._headers = dict(headers) if isinstance(headers, Mapping) else {}
        self._clock = context.clock
        self._addresses = OutgoingAddresses(context.settings.notification_addresses)

    def send(self, message: Message) -> DeliveryReceipt:
        try:
            url = validate_url(expand_variables(self._url).strip())
            body = self._body(message)
            headers = self._signed(message, body)
        except ValueError as error:  # a variable may be set before the next attempt
            raise DeliveryError(str(error), is_retryable=True) from error
        host = urlsplit(url).netloc
        try:
            response = post(url, headers, body, addresses=self._addresses)
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            if isinstance(reason, ForbiddenAddress):
                raise DeliveryError(str(reason), is_retryable=False) from error
            raise DeliveryError(f"{host} is unreachable ({reason})", is_retryable=True) from error
        if 200 <= response.code < 300:
            return DeliveryReceipt(f"HTTP {response.code}")
        if 300 <= response.code < 400:
            problem = (
                f"{host} redirects (HTTP {response.code}), which is not followed. Use the URL it leads to"
            )
            raise DeliveryError(problem, is_retryable=False)
        raise DeliveryError(
            f"{host} returned HTTP {response.code}",
            is_retryable=response.code not in _FINAL,
            retry_after_seconds=retry_after(response.headers),
        )

    def _body(self, message: Message) -> bytes:
        fields = {"text": slack_text(message)} if self._is_slack else message.cloud_event()
        return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()

    def _signed(self, message: Message, body: bytes) -> dict[str, str]:
        kind = "application/json" if self._is_slack else "application/cloudevents+json"
        timestamp = self._clock.now_ms() // 1000
        headers = {
            "Content-Type": f"{kind}; charset=utf-8",
            "webhook-id": message.delivery_id,
            "webhook-timestamp": str(timestamp),
        }
        if isinstance(self._secret, str):
            key = parse_secret(expand_variables(self._secret).strip())
            headers["webhook-signature"] = signature(key, message.delivery_id, timestamp, body)
        return {**expand_headers(self._headers), **headers}


def _open(options: Options, context: ChannelContext) -> Channel:
    return WebhookChannel(options, context)


KIND = ChannelKind(
    name="webhook", options=frozenset({"url", "secret", "format", "headers"}), check=check, open=_open
)
