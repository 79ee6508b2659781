"""A client for one table: created on first use and again in a forked process; raises longwatch errors."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from longwatch.errors import LongwatchError, MissingExtra, TableProblem
from longwatch.storage.aws import ClientOptions, core_session, make_client, new_session
from longwatch.storage.dynamodb.errors import TableShape, sdk_errors, translate_error
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
    """Sends the requests of one store to its table through boto3's low-level client. Thread-safe."""

    shape: TableShape | None = None  # of stores other than the journal

    def __init__(self, address: TableAddress) -> None:
        if find_spec("boto3") is None:
            raise MissingExtra("DynamoDB", "aws")
        self.address = address
        self._reset()

    def _reset(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._made: DynamoDBClient | None = None
        self._session: Session | None = None  # that created the client
        self._fast: tuple[DynamoDBClient | None, FastQuery | None] = (None, None)

    def connect(self) -> DynamoDBClient:
        """A new client with the timeouts and retries in `OPTIONS`."""
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
        """The client, for a call whose errors are raised as longwatch errors."""
        client = self._client()
        try:
            yield client
        except sdk_errors() as error:
            raise self._problem(error) from error

    def _client(self) -> DynamoDBClient:
        if self._process != os.getpid():
            # The connections, and the lock if it was held, belong to the parent process.
            self._reset()
        if self._made is not None:
            return self._made
        with self._lock:
            if self._made is None:
                self._made = self.connect()
            return self._made

    def _query_page(self, request: dict[str, Any]) -> Mapping[str, Any]:
        """The response to a Query, by `FastQuery` where possible: then bytes are base64 text."""
        with self._translation() as client:
            fast = self._fast_query(client)
            response = None if fast is None else fast.query(request)
            return client.query(**request) if response is None else response

    def _fast_query(self, client: DynamoDBClient) -> FastQuery | None:
        if not self.address.fast_query:
            return None
        owner, fast = self._fast
        if owner is client:
            return fast
        with self._lock:
            if self._fast[0] is not client and self._made is client and self._session is not None:
                self._fast = client, FastQuery.beside(client, self._session)
            owner, fast = self._fast
        return fast if owner is client else None

    def _problem(self, error: Exception) -> LongwatchError:
        """The error to raise for an error of the AWS SDK.

        A client keeps the credentials that it was created with, even after the file that contained them has
        new ones. So the next call after AWS rejected them creates a new client.
        """
        problem = translate_error(error, self.address)
        if not isinstance(problem, TableProblem):
            return problem
        if problem.kind in ("expired-token", "no-credentials"):
            self._made = None
        return problem if self.shape is None else self.shape.add_advice(problem, self.address)

    def close(self) -> None:
        """Close the connections."""
        if self._process != os.getpid():
            self._reset()  # the connections belong to the parent process
            return
        with self._lock:
            made, self._made = self._made, None
            (_, fast), self._fast = self._fast, (None, None)
        if made is not None:
            made.close()
        if fast is not None:
            fast.close()
