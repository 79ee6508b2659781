"""Queries on a short way: signed by botocore, sent by the standard library, read as plain JSON.

boto3 spends about a millisecond of CPU on a request, most of it on what a query that is asked twice a second
for every followed run does not need. Only the usual answer comes this way. Whatever else happens (a refusal,
throttling, a broken connection, a wrong checksum) is left to boto3, which asks again and knows what it means.
Where the short way keeps failing though boto3 gets its answer, it is given up.
"""

from __future__ import annotations

import http.client
import json
import ssl
import weakref
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from botocore.credentials import Credentials
    from botocore.session import Session
    from types_boto3_dynamodb import DynamoDBClient

CONNECT_TIMEOUT_SECONDS = 2
READ_TIMEOUT_SECONDS = 5
MAX_CONNECTIONS = 24  # puts in flight and the readers of an AsyncJournal
MOST_DETOURS = 10  # in a row
HEADERS = {
    "Content-Type": "application/x-amz-json-1.0",
    "User-Agent": "longwatch",
    "X-Amz-Target": "DynamoDB_20120810.Query",
}


class ShortWay:
    """One endpoint, a few connections. Safe to use from every thread."""

    def __init__(
        self, url: str, region: str, credentials: Credentials, tls: ssl.SSLContext | None = None
    ) -> None:
        self._url = f"{url.rstrip('/')}/"
        self._place = urlsplit(self._url)
        self._region = region
        self._credentials = credentials
        self._tls = tls
        self._idle: list[http.client.HTTPConnection] = []
        self._detours = 0
        self.close = weakref.finalize(self, _close_all, self._idle)

    @classmethod
    def beside(cls, client: DynamoDBClient, session: Session) -> ShortWay | None:
        """The short way to where this client goes; None if it signs or connects in a way we do not know."""
        from botocore.httpsession import get_cert_path
        from botocore.utils import get_environ_proxies

        url, credentials = client.meta.endpoint_url, session.get_credentials()
        signs = getattr(client.meta.config, "signature_version", None)
        if credentials is None or signs != "v4" or get_environ_proxies(url):
            return None
        if not url.startswith("https:"):
            return cls(url, client.meta.region_name, credentials)
        bundle = session.get_config_variable("ca_bundle") or get_cert_path(True)
        tls = ssl.create_default_context(cafile=bundle)
        return cls(url, client.meta.region_name, credentials, tls)

    def query(self, request: Mapping[str, object]) -> dict[str, Any] | None:
        """The service's answer as it is on the wire; None: ask on the long way."""
        if self._detours >= MOST_DETOURS:
            return None
        body = json.dumps(request, separators=(",", ":")).encode()
        headers = self._signed(body)
        for connection in self._connections():
            try:
                answer = self._answer(connection, body, headers)
            except TimeoutError:
                break
            except (OSError, http.client.HTTPException):  # ssl's are among these
                continue  # it was closed while it waited, more often than not
            if answer is not None:
                self._detours = 0
            return answer
        return None

    def took_a_detour(self, answer: Mapping[str, Any]) -> None:
        """boto3 got this answer. If it had to ask more than once, that says nothing against the short way."""
        if not answer.get("ResponseMetadata", {}).get("RetryAttempts"):
            self._detours += 1

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
        if self.close.alive and not response.will_close and len(self._idle) < MAX_CONNECTIONS:
            self._idle.append(connection)
        else:
            connection.close()
        return _usual(response, text)

    def _connections(self) -> Iterator[http.client.HTTPConnection]:
        """One that waits, if there is any, and a new one."""
        with suppress(IndexError):
            yield self._idle.pop()
        host, port = self._place.hostname or "", self._place.port
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


def _close_all(idle: list[http.client.HTTPConnection]) -> None:
    while idle:
        with suppress(IndexError):  # another thread was quicker
            idle.pop().close()


def _usual(response: http.client.HTTPResponse, text: bytes) -> dict[str, Any] | None:
    """The answer, if it is whole and a page of items."""
    checksum = response.headers.get("x-amz-crc32")
    if response.status != 200 or (checksum is not None and checksum != str(zlib.crc32(text))):
        return None
    try:
        answer = json.loads(text)
    except ValueError:
        return None
    return answer if isinstance(answer, dict) and isinstance(answer.get("Items"), list) else None
