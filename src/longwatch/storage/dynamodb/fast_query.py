"""Queries on a short way: signed by botocore, sent by the standard library, read as plain JSON.

boto3 spends about a millisecond of CPU on a request, most of it on what a query that is asked twice a second
for every followed run does not need. Only the usual answer comes this way. Whatever else happens (a refusal,
throttling, a broken connection, a wrong checksum) is left to boto3, which asks again and knows what it means.
After a failure the short way rests, for a second at first and for a minute at last.
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
MAX_IDLE_SECONDS = 20.0  # a connection that has waited longer may be dead without having said so
FIRST_REST_SECONDS, LONGEST_REST_SECONDS = 1.0, 60.0
HEADERS = {
    "Content-Type": "application/x-amz-json-1.0",
    "User-Agent": "longwatch",
    "X-Amz-Target": "DynamoDB_20120810.Query",
}


class FastQuery:
    """One endpoint, a few connections. Safe to use from every thread."""

    def __init__(
        self, url: str, region: str, credentials: Credentials, tls: ssl.SSLContext | None = None
    ) -> None:
        self._url = url
        self._place = urlsplit(url)
        self._region = region
        self._credentials = credentials
        self._tls = tls
        self._clock = SYSTEM_CLOCK
        self._idle: list[tuple[http.client.HTTPConnection, float]] = []  # and since when
        self._failures = 0  # in a row
        self._rests_until = 0.0
        self.close = weakref.finalize(self, _close_all, self._idle)

    @classmethod
    def beside(cls, client: DynamoDBClient, session: Session) -> FastQuery | None:
        """The short way to where this client goes; None if it goes there in a way that we do not know."""
        from botocore.utils import get_environ_proxies

        credentials = session.get_credentials()
        if credentials is None:
            return None
        # What an account, a region or a setting makes of the address, only the client knows.
        example = {"TableName": "any", "KeyConditionExpression": "#a = :a"}
        signed = urlsplit(client.generate_presigned_url("query", Params=example))
        said = parse_qs(signed.query)
        url = f"{signed.scheme}://{signed.netloc}{signed.path or '/'}"
        if said.get("X-Amz-Algorithm") != ["AWS4-HMAC-SHA256"] or get_environ_proxies(url):
            return None
        region = said["X-Amz-Credential"][0].split("/")[-3]
        if _is_answered_here(client, url):
            return None
        try:
            return cls(url, region, credentials, _trusting(session) if signed.scheme == "https" else None)
        except (OSError, ValueError):  # certificates that cannot be read: boto3 says so best
            return None

    def query(self, request: Mapping[str, object]) -> dict[str, Any] | None:
        """The service's answer as it is on the wire; None: ask on the long way."""
        if self._rests_until and self._clock.monotonic() < self._rests_until:
            return None
        body = json.dumps(request, separators=(",", ":")).encode()
        headers = self._signed(body)
        answer = None
        for connection in self._connections():
            try:
                answer = self._answer(connection, body, headers)
            except TimeoutError:
                _close_all(self._idle)  # they may have died in the same way
            except (OSError, http.client.HTTPException):  # ssl's are among these
                continue  # it was closed while it waited, more often than not
            except ValueError:  # credentials that no header can hold
                pass
            break
        if answer is None:
            self._rest()
        elif self._failures:
            self._failures, self._rests_until = 0, 0.0
        return answer

    def _rest(self) -> None:
        """Leave it to boto3 for a while, the longer the more often it failed: a table that is throttled need
        not be asked twice, and a way that is closed need not be tried with every query."""
        now = self._clock.monotonic()
        if now >= self._rests_until:  # else it was under way when another one failed
            seconds = min(LONGEST_REST_SECONDS, FIRST_REST_SECONDS * 2 ** min(self._failures, 10))
            self._failures, self._rests_until = self._failures + 1, now + seconds

    def _answer(
        self, connection: http.client.HTTPConnection, body: bytes, headers: Mapping[str, str]
    ) -> dict[str, Any] | None:
        try:
            connection.request("POST", self._place.path, body, headers)
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
        return _usual(response, text)

    def _connections(self) -> Iterator[http.client.HTTPConnection]:
        """One that waits, if there is any, and a new one."""
        with suppress(IndexError):
            connection, since = self._idle.pop()
            if self._clock.monotonic() - since < MAX_IDLE_SECONDS:
                yield connection
            else:
                connection.close()
                _close_all(self._idle)  # the others have waited for longer
        host, port = self._place.hostname or "", self._place.port or (80 if self._tls is None else 443)
        if self._tls is None:
            yield http.client.HTTPConnection(host, port, timeout=CONNECT_TIMEOUT_SECONDS)
        else:
            yield http.client.HTTPSConnection(host, port, timeout=CONNECT_TIMEOUT_SECONDS, context=self._tls)

    def _signed(self, body: bytes) -> dict[str, str]:
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest

        request = AWSRequest("POST", self._url, headers=HEADERS, data=body)
        # Asked for anew each time: this is where credentials that end are renewed.
        SigV4Auth(self._credentials.get_frozen_credentials(), "dynamodb", self._region).add_auth(request)
        return dict(request.headers.items())


def _trusting(session: Session) -> ssl.SSLContext:
    """Trusts what boto3 trusts."""
    from botocore.httpsession import get_cert_path

    bundle = session.get_config_variable("ca_bundle") or os.environ.get("REQUESTS_CA_BUNDLE")
    context = ssl.create_default_context(cafile=bundle or get_cert_path(True))
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # newer versions of Python add it, and botocore does not
    return context


def _is_answered_here(client: DynamoDBClient, url: str) -> bool:
    """Whether something in this process answers in place of AWS, as the tools for tests do."""
    from botocore.awsrequest import AWSRequest

    example = AWSRequest("POST", url, headers=HEADERS, data=b"{}").prepare()
    answers = client.meta.events.emit("before-send.dynamodb.Query", request=example)
    return any(answer is not None for _, answer in answers)


def _close_all(idle: list[tuple[http.client.HTTPConnection, float]]) -> None:
    while idle:
        with suppress(IndexError):  # another thread was quicker
            idle.pop()[0].close()


def _usual(response: http.client.HTTPResponse, text: bytes) -> dict[str, Any] | None:
    """The answer, if it is whole and a page of items."""
    checksum = response.headers.get("x-amz-crc32")
    if response.status != 200 or (checksum is not None and checksum != str(zlib.crc32(text))):
        return None
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) and isinstance(answer.get("Items"), list) else None
