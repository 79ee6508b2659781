"""One client for one table: made when it is first used, anew in a forked process, its errors in our words."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from longwatch.errors import LongwatchError, MissingExtra, TableProblem
from longwatch.storage.aws import ClientOptions, core_session, make_client, new_session
from longwatch.storage.dynamodb.errors import TableShape, sdk_errors, translated
from longwatch.storage.dynamodb.fast_query import (
    CONNECT_TIMEOUT_SECONDS,
    MAX_CONNECTIONS,
    READ_TIMEOUT_SECONDS,
    FastQuery,
)
from longwatch.storage.dynamodb.responses import check_responses
from longwatch.storage.urls import TableAddress

if TYPE_CHECKING:
    from botocore.session import Session
    from types_boto3_dynamodb import DynamoDBClient

OPTIONS = ClientOptions(
    connect_seconds=CONNECT_TIMEOUT_SECONDS,
    read_seconds=READ_TIMEOUT_SECONDS,
    attempts=3,  # within a second or two
    connections=MAX_CONNECTIONS,
)


class DynamoClient:
    """What talks to one table through boto3's low-level client. Safe to use from every thread."""

    shape: TableShape | None = None  # of stores other than the journal

    def __init__(self, address: TableAddress) -> None:
        if find_spec("boto3") is None:
            raise MissingExtra("DynamoDB", "aws")
        self.address = address
        self._forget()

    def _forget(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._made: DynamoDBClient | None = None
        self._session: Session | None = None  # that the client was made by
        self._short: tuple[DynamoDBClient | None, FastQuery | None] = (None, None)

    def connect(self) -> DynamoDBClient:
        """A new client, with our timeouts and retries."""
        self._session = core_session("A table of DynamoDB")
        try:
            client: DynamoDBClient = make_client(
                new_session(self._session),
                "dynamodb",
                region=self.address.region,
                endpoint=self.address.endpoint,
                options=OPTIONS,
            )
            return check_responses(client)
        except sdk_errors() as error:
            raise self._problem(error) from error

    @contextmanager
    def _translation(self) -> Iterator[DynamoDBClient]:
        """The client, for a call whose errors are raised as ours."""
        client = self._client()
        try:
            yield client
        except sdk_errors() as error:
            raise self._problem(error) from error

    def _client(self) -> DynamoDBClient:
        if self._process != os.getpid():
            # After a fork the parent's connections, and its lock if it was held, are not ours to use.
            self._forget()
        if self._made is not None:
            return self._made
        with self._lock:
            if self._made is None:
                self._made = self.connect()
            return self._made

    def _queried(self, request: dict[str, Any]) -> Mapping[str, Any]:
        """The answer to a Query, on the short way if it can be; bytes may be text, as the wire has them."""
        with self._translation() as client:
            short = self._short_way(client)
            quick = None if short is None else short.query(request)
            return client.query(**request) if quick is None else quick

    def _short_way(self, client: DynamoDBClient) -> FastQuery | None:
        if not self.address.short_way:
            return None
        of, short = self._short
        if of is client:
            return short
        with self._lock:
            if self._short[0] is not client and self._made is client and self._session is not None:
                self._short = client, FastQuery.beside(client, self._session)
            of, short = self._short
        return short if of is client else None

    def _problem(self, error: Exception) -> LongwatchError:
        """The error to raise for an error of the AWS SDK.

        A client keeps the credentials that it was created with, even after the file that contained them has
        new ones. So the next call after AWS rejected them creates a new client.
        """
        problem = translated(error, self.address)
        if not isinstance(problem, TableProblem):
            return problem
        if problem.kind in ("expired-token", "no-credentials"):
            self._made = None
        return problem if self.shape is None else self.shape.add_advice(problem, self.address)

    def close(self) -> None:
        """Let go of the connections."""
        if self._process != os.getpid():
            self._forget()  # they are those of the process that was forked
            return
        with self._lock:
            made, self._made = self._made, None
            (_, short), self._short = self._short, (None, None)
        if made is not None:
            made.close()
        if short is not None:
            short.close()
