"""DynamoDB queries signed by botocore, sent by the standard library and parsed as plain JSON.

boto3 spends about a millisecond of CPU on a request, most of it on features that a query sent twice a second
for every followed run does not need. `FastQuery` returns a page of items or nothing: after an error,
throttling, a broken connection or a wrong checksum the caller repeats the query with boto3, which retries and
raises the right error. After a failure `FastQuery` pauses for a second; for up to a minute after several.
"""

from __future__ import annotations

import http.client
import json
import os
import ssl
import weakref
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from longwatch.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from botocore.credentials import Credentials
    from botocore.session import Session
    from types_boto3_dynamodb import DynamoDBClient

CONNECT_TIMEOUT_SECONDS = 2
READ_TIMEOUT_SECONDS = 5
MAX_CONNECTIONS = 24  # puts in flight and the readers of an AsyncJournal
MAX_IDLE_SECONDS = 20.0  # an older connection may have been dropped without notice
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 60.0
HEADERS = {
    "Content-Type": "application/x-amz-json-1.0",
    "User-Agent": "longwatch",
    "X-Amz-Target": "DynamoDB_20120810.Query",
}


class FastQuery:
    """Sends queries to one endpoint over a few connections. Thread-safe."""

    def __init__(
        self, url: str, region: str, credentials: Credentials, tls: ssl.SSLContext | None = None
    ) -> None:
        self._url = url
        self._endpoint = urlsplit(url)
        self._region = region
        self._credentials = credentials
        self._tls = tls
        self._clock = SYSTEM_CLOCK
        self._idle: list[tuple[http.client.HTTPConnection, float]] = []  # and since when
        self._failures = 0  # in a row
        self._paused_until = 0.0
        self.close = weakref.finalize(self, _close_all, self._idle)

    @classmethod
    def beside(cls, client: DynamoDBClient, session: Session) -> FastQuery | None:
        """Queries to the endpoint of this client; None where its endpoint or signature is not supported."""
        from botocore.utils import get_environ_proxies

        credentials = session.get_credentials()
        if credentials is None:
            return None
        # Only the client knows the endpoint that account, region and settings result in.
        example = {"TableName": "any", "KeyConditionExpression": "#a = :a"}
        signed = urlsplit(client.generate_presigned_url("query", Params=example))
        signature = parse_qs(signed.query)
        url = f"{signed.scheme}://{signed.netloc}{signed.path or '/'}"
        if signature.get("X-Amz-Algorithm") != ["AWS4-HMAC-SHA256"] or get_environ_proxies(url):
            return None
        region = signature["X-Amz-Credential"][0].split("/")[-3]
        if _is_intercepted(client, url):
            return None
        try:
            return cls(url, region, credentials, _tls_context(session) if signed.scheme == "https" else None)
        except (OSError, ValueError):  # unreadable certificates: boto3 has the better message
            return None

    def query(self, request: Mapping[str, object]) -> dict[str, Any] | None:
        """The response as it is on the wire; None: repeat the query with boto3."""
        if self._paused_until and self._clock.monotonic() < self._paused_until:
            return None
        body = json.dumps(request, separators=(",", ":")).encode()
        headers = self._signed(body)
        page = None
        for connection in self._connections():
            try:
                page = self._send(connection, body, headers)
            except TimeoutError:
                _close_all(self._idle)  # the others may be dead too
            except (OSError, http.client.HTTPException):  # ssl's are among these
                continue  # usually the server closed it while it was idle
            except ValueError:  # credentials that no header can hold
                pass
            break
        if page is None:
            self._pause()
        elif self._failures:
            self._failures, self._paused_until = 0, 0.0
        return page

    def _pause(self) -> None:
        """Leave queries to boto3, longer after each failure.

        A throttled table should not get every query twice, nor a blocked endpoint every query.
        """
        now = self._clock.monotonic()
        if now >= self._paused_until:  # else it was in flight when another query failed
            seconds = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** min(self._failures, 10))
            self._failures, self._paused_until = self._failures + 1, now + seconds

    def _send(
        self, connection: http.client.HTTPConnection, body: bytes, headers: Mapping[str, str]
    ) -> dict[str, Any] | None:
        try:
            connection.request("POST", self._endpoint.path, body, headers)
            connection.sock.settimeout(READ_TIMEOUT_SECONDS)
            response = connection.getresponse()
            text = response.read()
        except BaseException:
            connection.close()
            raise
        if not response.will_close and len(self._idle) < MAX_CONNECTIONS:
            self._idle.append((connection, self._clock.monotonic()))
            if not self.close.alive:
                _close_all(self._idle)
        else:
            connection.close()
        return _parse_page(response, text)

    def _connections(self) -> Iterator[http.client.HTTPConnection]:
        """One that waits, if there is any, and a new one."""
        with suppress(IndexError):
            connection, since = self._idle.pop()
            if self._clock.monotonic() - since < MAX_IDLE_SECONDS:
                yield connection
            else:
                connection.close()
                _close_all(self._idle)  # the others are older
        host, port = self._endpoint.hostname or "", self._endpoint.port or (80 if self._tls is None else 443)
        if self._tls is None:
            yield http.client.HTTPConnection(host, port, timeout=CONNECT_TIMEOUT_SECONDS)
        else:
            yield http.client.HTTPSConnection(host, port, timeout=CONNECT_TIMEOUT_SECONDS, context=self._tls)

    def _signed(self, body: bytes) -> dict[str, str]:
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest

        request = AWSRequest("POST", self._url, headers=HEADERS, data=body)
        # Read each time: this renews credentials that expire.
        SigV4Auth(self._credentials.get_frozen_credentials(), "dynamodb", self._region).add_auth(request)
        return dict(request.headers.items())


def _tls_context(session: Session) -> ssl.SSLContext:
    """Trusts the certificates that boto3 trusts."""
    from botocore.httpsession import get_cert_path

    bundle = session.get_config_variable("ca_bundle") or os.environ.get("REQUESTS_CA_BUNDLE")
    context = ssl.create_default_context(cafile=bundle or get_cert_path(True))
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # newer versions of Python add it, and botocore does not
    return context


def _is_intercepted(client: DynamoDBClient, url: str) -> bool:
    """Whether a handler in this process responds in place of AWS, as test tools do."""
    from botocore.awsrequest import AWSRequest

    example = AWSRequest("POST", url, headers=HEADERS, data=b"{}").prepare()
    responses = client.meta.events.emit("before-send.dynamodb.Query", request=example)
    return any(response is not None for _, response in responses)


def _close_all(idle: list[tuple[http.client.HTTPConnection, float]]) -> None:
    while idle:
        with suppress(IndexError):  # another thread was quicker
            idle.pop()[0].close()


def _parse_page(response: http.client.HTTPResponse, text: bytes) -> dict[str, Any] | None:
    """The response, if it is complete and a page of items."""
    checksum = response.headers.get("x-amz-crc32")
    if response.status != 200 or (checksum is not None and checksum != str(zlib.crc32(text))):
        return None
    try:
        page = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return page if isinstance(page, dict) and isinstance(page.get("Items"), list) else None
