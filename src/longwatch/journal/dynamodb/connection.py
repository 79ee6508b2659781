"""One client for one table: made when it is first used, anew in a forked process, its errors in our words."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from longwatch.errors import LongwatchError
from longwatch.journal.dynamodb.failures import TableAddress, sdk_errors, translated

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

CONNECT_TIMEOUT_SECONDS = 2
READ_TIMEOUT_SECONDS = 5
ATTEMPTS = 3  # boto3's own, within a second or two; callers back off outside
MAX_CONNECTIONS = 24  # puts in flight and the readers of an AsyncJournal


class Connected:
    """What talks to one table through boto3's low-level client. Safe to use from every thread."""

    def __init__(self, address: TableAddress) -> None:
        self.address = address
        self._forget()

    def _forget(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._made: DynamoDBClient | None = None

    def connect(self) -> DynamoDBClient:
        """A new client, with our timeouts and retries."""
        import boto3
        from botocore.config import Config

        try:
            return boto3.Session().client(  # the shared default session would keep yesterday's credentials
                "dynamodb",
                region_name=self.address.region,
                endpoint_url=self.address.endpoint,
                config=Config(
                    connect_timeout=CONNECT_TIMEOUT_SECONDS,
                    read_timeout=READ_TIMEOUT_SECONDS,
                    retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
                    max_pool_connections=MAX_CONNECTIONS,
                ),
            )
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

    def _problem(self, error: Exception) -> LongwatchError:
        """This error in our words."""
        return translated(error, self.address)

    def close(self) -> None:
        """Let go of the connections."""
        made, self._made = self._made, None
        if made is not None and self._process == os.getpid():
            made.close()
