"""Asks an AWS service by its declaration. Only the operation that is declared is ever called."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from longwatch.errors import MissingExtra
from longwatch.watching.sources.asking import side_by_side
from longwatch.watching.sources.base import SourceProblem
from longwatch.watching.sources.dates import sdk_date_ms
from longwatch.watching.sources.declarations import AwsCall, Declaration
from longwatch.watching.sources.declared import Found, Place
from longwatch.watching.sources.failures import is_refused_id, is_unknown, refusal, sdk_problem
from longwatch.watching.sources.filling import filled
from longwatch.watching.sources.paths import value_at
from longwatch.watching.sources.translating import Thing

if TYPE_CHECKING:
    from botocore.config import Config

MOST_PAGES = 50  # of one call: a service that never stops is a problem, not an answer
CONNECT_TIMEOUT_SECONDS, READ_TIMEOUT_SECONDS = 2, 10
ATTEMPTS = 2  # boto3's own, for requests without a response; the poller backs off outside

Connect = Callable[[str, str | None, str | None], Any]
"""A boto3 client for this service in this region, with the rights in this account."""


class AwsAsker:
    """An `Asker` by boto3, with one client for each place."""

    def __init__(self, declaration: Declaration, connect: Connect | None = None) -> None:
        assert isinstance(declaration.call, AwsCall)
        self._call = declaration.call
        self._items = declaration.items
        self._connect = connect or aws_client
        self._clients: dict[Place, Any] = {}
        self._lock = threading.Lock()

    def ask(self, place: Place, ids: Sequence[str]) -> Mapping[str, Found]:
        if self._call.ids is None:
            return side_by_side(lambda each: self._ask_some(place, [each])[each], ids)
        found: dict[str, Found] = {}
        for begin in range(0, len(ids), self._call.at_once):
            found |= self._ask_some(place, ids[begin : begin + self._call.at_once])
        return found

    def check(self) -> SourceProblem | None:
        return credentials_problem(self._call) if self._connect is aws_client else None

    def close(self) -> None:
        with self._lock:
            clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            client.close()

    def _ask_some(self, place: Place, ids: Sequence[str]) -> Mapping[str, Found]:
        try:
            from botocore.exceptions import BotoCoreError, ClientError
            from botocore.parsers import ResponseParserError
        except ImportError:
            missing = MissingExtra(f"Asking {self._call.service}", "aws")
            return dict.fromkeys(ids, SourceProblem(str(missing), lasting=True))
        where = place[0] or "the default region"
        try:
            return self._called(place, ids)
        except ClientError as error:
            if is_unknown(error.response, self._call):
                return dict.fromkeys(ids)
            if is_refused_id(error.response, self._call) and len(ids) > 1:
                half = len(ids) // 2  # one id that is refused must not stop the others
                return {**self._ask_some(place, ids[:half]), **self._ask_some(place, ids[half:])}
            problem = refusal(error.response, self._call, where)
        except (BotoCoreError, ResponseParserError, MissingExtra, ValueError) as error:
            # Of what it is set up with, the SDK refuses some with a plain ValueError.
            problem = sdk_problem(error, self._call, where)
        except _NotAsked as error:
            problem = SourceProblem(str(error), lasting=True)
        return dict.fromkeys(ids, problem)

    def _called(self, place: Place, ids: Sequence[str]) -> Mapping[str, Found]:
        client, call = self._client(place), self._call
        if not call.key:
            page = next(_pages(client, call, ids))
            thing = value_at(page, call.results)
            return {ids[0]: None if thing is None else self._thing(client, ids[0], thing, page)}
        by_key = {
            value_at(each, path): (each, page)
            for page in _pages(client, call, ids)
            for each in value_at(page, call.results) or ()
            for path in call.key
        }
        return {each: self._thing(client, each, *by_key[each]) if each in by_key else None for each in ids}

    def _thing(self, client: Any, id_: str, fields: Any, page: Mapping[str, Any]) -> Thing:
        from botocore.exceptions import ClientError

        items, date = self._items, sdk_date_ms(page)
        if items is None or items.call is None:
            return Thing(fields, date=date)
        try:
            return Thing(fields, items=_listed(client, items.call, [id_], items.at), date=date)
        except (ClientError, _NotAsked):  # they decide nothing, so that neither a right nor an end is needed
            return Thing(fields, items=(), date=date)

    def _client(self, place: Place) -> Any:
        with self._lock:
            if place not in self._clients:
                self._clients[place] = self._connect(self._call.service, *place)
            return self._clients[place]


class _NotAsked(Exception):
    """There is no way to ask this."""


def _listed(client: Any, call: AwsCall, ids: Sequence[str], path: str) -> list[Any]:
    """What is at this path, from all pages."""
    return [each for page in _pages(client, call, ids) for each in value_at(page, path) or ()]


def _pages(client: Any, call: AwsCall, ids: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    import botocore

    method = getattr(client, botocore.xform_name(call.operation), None)
    if method is None:
        raise _NotAsked(f"{call.service} has no operation {call.operation}")
    try:
        asked: dict[str, Any] = {
            name: filled(text, ids[0], call.divider) for name, text in call.parameters.items()
        }
    except ValueError as error:
        raise _NotAsked(str(error)) from error
    if call.ids is not None:
        asked[call.ids] = list(ids)
    for _ in range(MOST_PAGES):
        answer = method(**asked)
        yield answer
        token = answer.get(call.token[1]) if call.token else None
        if call.token is None or not token:
            return
        asked[call.token[0]] = token
    raise _NotAsked(f"{call.name} answered with more than {MOST_PAGES} pages")


def aws_client(service: str, region: str | None, account: str | None = None) -> Any:
    """A client with our timeouts. Whose account it asks in is up to the credentials around it."""
    try:
        import boto3
    except ImportError as error:
        raise MissingExtra(f"Asking {service}", "aws") from error
    return client_of(boto3.Session(), service, region)


def credentials_problem(call: AwsCall) -> SourceProblem | None:
    """What keeps AWS from being called from here: the extra is missing, or there are no credentials."""
    try:
        import boto3
        from botocore.exceptions import BotoCoreError, NoCredentialsError
    except ImportError:
        return SourceProblem(str(MissingExtra(f"Asking {call.service}", "aws")), lasting=True)
    try:
        found = boto3.Session().get_credentials()
        if found is None:
            raise NoCredentialsError
        found.get_frozen_credentials()  # fetches those that have to be fetched
    except BotoCoreError as error:
        problem = sdk_problem(error, call, "the default region")
        return problem if problem.lasting else None  # an outage is waited out
    return None


def client_of(session: Any, service: str, region: str | None) -> Any:
    """A client of a boto3 session that retries only requests without a response.

    A response may say how long to wait (`Retry-After`). boto3 would retry within seconds and hide it, so
    every response goes to the poller, which waits as long as the service asks.
    """
    client = session.client(service, region_name=region, config=client_config())
    name = client.meta.service_model.service_id.hyphenize()
    client.meta.events.register_first(f"needs-retry.{name}", _leave_responses_alone)
    return client


def client_config() -> Config:
    """Timeouts and attempts that are over long before a lease is."""
    from botocore.config import Config

    return Config(
        connect_timeout=CONNECT_TIMEOUT_SECONDS,
        read_timeout=READ_TIMEOUT_SECONDS,
        retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
    )


def _leave_responses_alone(response: object = None, **_: object) -> bool | None:
    """False stops boto3's retry; None leaves the decision to boto3."""
    return None if response is None else False
