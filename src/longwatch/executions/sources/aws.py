"""Asks an AWS service by its declaration. Only the operation that is declared is ever called."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any
from xml.etree import ElementTree

from longwatch.errors import MissingExtra
from longwatch.executions.sources.base import SourceProblem
from longwatch.executions.sources.dates import bounded_seconds, parse_retry_after, sdk_date_ms
from longwatch.executions.sources.declarations import AwsCall, Declaration
from longwatch.executions.sources.declared import AwsTarget, PolledJob, run_parallel
from longwatch.executions.sources.expressions import fill_template, parse_path, value_at
from longwatch.executions.sources.mapping import RawJob
from longwatch.storage.aws import ClientOptions, core_session, make_client, new_session

MOST_PAGES = 50  # of one call: a service that never stops is a problem, not an answer
_SHOWN_BYTES = 60  # of a response that can not be read
ATTEMPTS = 2  # boto3's own, for requests without a response; the poller backs off outside
OPTIONS = ClientOptions(connect_seconds=2, read_seconds=10, attempts=ATTEMPTS)  # over long before a lease is

THROTTLING = frozenset(
    {
        "BandwidthLimitExceeded",
        "EC2ThrottledException",
        "KmsThrottlingException",
        "LimitExceededException",
        "PriorRequestNotComplete",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "SlowDown",
        "ThrottledException",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)
NO_RIGHT = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "AuthorizationError",
        "KmsAccessDeniedException",
        "NotAuthorized",
        "OptInRequired",
        "UnauthorizedOperation",
    }
)
NO_LOGIN = frozenset(
    {
        "AuthFailure",
        "ExpiredToken",
        "ExpiredTokenException",
        "IncompleteSignature",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "MissingAuthenticationToken",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
NO_SUCH_ID = frozenset({"ValidationException", "ValidationError", "InvalidParameterValue"})
LONGEST_MESSAGE = 500  # characters

ConnectClient = Callable[[str, str | None, str | None], Any]
"""A boto3 client for this service in this region, with the rights in this account."""


class AwsCaller:
    """An `Asker` by boto3, with one client for each place."""

    def __init__(self, declaration: Declaration, connect: ConnectClient | None = None) -> None:
        assert isinstance(declaration.call, AwsCall)
        self._call = declaration.call
        self._items = declaration.items
        self._connect = connect or aws_client
        self._clients: dict[AwsTarget, Any] = {}
        self._lock = threading.Lock()

    def call(self, target: AwsTarget, ids: Sequence[str]) -> Mapping[str, PolledJob]:
        if self._call.ids is None:
            return run_parallel(lambda each: self._call_batch(target, [each])[each], ids)
        found: dict[str, PolledJob] = {}
        for begin in range(0, len(ids), self._call.at_once):
            found |= self._call_batch(target, ids[begin : begin + self._call.at_once])
        return found

    def check(self) -> SourceProblem | None:
        return credentials_problem(self._call) if self._connect is aws_client else None

    def check_id(self, job_id: str) -> SourceProblem | None:
        try:
            _parameters(self._call, job_id)
        except _InvalidCall as error:
            return SourceProblem(str(error), lasting=True)
        return None

    def close(self) -> None:
        with self._lock:
            clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            client.close()

    def _call_batch(self, target: AwsTarget, ids: Sequence[str]) -> Mapping[str, PolledJob]:
        try:
            from botocore.exceptions import BotoCoreError, ClientError
            from botocore.parsers import ResponseParserError
        except ImportError:
            missing = MissingExtra(f"Asking {self._call.service}", "aws")
            return dict.fromkeys(ids, SourceProblem(str(missing), lasting=True))
        where = target[0] or "the default region"
        try:
            return self._called(target, ids)
        except ClientError as error:
            if is_unknown(error.response, self._call):
                return dict.fromkeys(ids)
            if is_invalid_id(error.response, self._call) and len(ids) > 1:
                half = len(ids) // 2  # one id that is refused must not stop the others
                return {**self._call_batch(target, ids[:half]), **self._call_batch(target, ids[half:])}
            problem = service_problem(error.response, self._call, where)
        except (BotoCoreError, ResponseParserError, MissingExtra, ValueError) as error:
            # Of what it is set up with, the SDK refuses some with a plain ValueError.
            problem = sdk_problem(error, self._call, where)
        except _InvalidCall as error:
            problem = SourceProblem(str(error), lasting=True)
        return dict.fromkeys(ids, problem)

    def _called(self, target: AwsTarget, ids: Sequence[str]) -> Mapping[str, PolledJob]:
        client, call = self._client(target), self._call
        if not call.key:
            page = next(_pages(client, call, ids))
            thing = _results(call, page)
            return {ids[0]: None if thing is None else self._thing(client, ids[0], thing, page)}
        by_key = {
            value_at(each, path): (each, page)
            for page in _pages(client, call, ids)
            for each in _results(call, page) or ()
            for path in call.key
        }
        return {each: self._thing(client, each, *by_key[each]) if each in by_key else None for each in ids}

    def _thing(self, client: Any, id_: str, fields: Any, page: Mapping[str, Any]) -> RawJob:
        from botocore.exceptions import ClientError

        items, date = self._items, sdk_date_ms(page)
        if items is None or items.call is None:
            return RawJob(fields, date=date)
        try:
            return RawJob(fields, items=_listed(client, items.call, [id_], items.at), date=date)
        except (
            ClientError,
            _InvalidCall,
        ):  # they decide nothing, so that neither a right nor an end is needed
            return RawJob(fields, items=(), date=date)

    def _client(self, target: AwsTarget) -> Any:
        with self._lock:
            if target not in self._clients:
                self._clients[target] = prepare_client(self._connect(self._call.service, *target))
            return self._clients[target]


class _InvalidCall(Exception):
    """There is no way to ask this."""


def _results(call: AwsCall, page: Mapping[str, Any]) -> Any:
    """What was asked about. A response without the member that holds it is not an answer."""
    from botocore.parsers import ResponseParserError

    if call.results and parse_path(call.results)[0] not in page:
        raise ResponseParserError(f"the response of {call.name} has no {call.results}")
    return value_at(page, call.results)


def _listed(client: Any, call: AwsCall, ids: Sequence[str], path: str) -> list[Any]:
    """What is at this path, from all pages."""
    return [each for page in _pages(client, call, ids) for each in value_at(page, path) or ()]


def _pages(client: Any, call: AwsCall, ids: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    import botocore

    method = getattr(client, botocore.xform_name(call.operation), None)
    if method is None:
        raise _InvalidCall(f"{call.service} has no operation {call.operation}")
    asked = _parameters(call, ids[0])
    if call.ids is not None:
        asked[call.ids] = list(ids)
    for _ in range(MOST_PAGES):
        answer = method(**asked)
        yield answer
        token = answer.get(call.token[1]) if call.token else None
        if call.token is None or not token:
            return
        asked[call.token[0]] = token
    raise _InvalidCall(f"{call.name} answered with more than {MOST_PAGES} pages")


def _parameters(call: AwsCall, id_: str) -> dict[str, Any]:
    try:
        return {name: fill_template(text, id_, call.divider) for name, text in call.parameters.items()}
    except ValueError as error:
        raise _InvalidCall(str(error)) from error


def aws_client(service: str, region: str | None, account: str | None = None) -> Any:
    """A client with our timeouts. Whose account it asks in is up to the credentials around it."""
    session = new_session(core_session(f"Asking {service}"))
    return make_client(session, service, region=region, options=OPTIONS)


def credentials_problem(call: AwsCall) -> SourceProblem | None:
    """What keeps AWS from being called from here: the extra is missing, or there are no credentials."""
    try:
        session = core_session(f"Asking {call.service}")
    except MissingExtra as missing:
        return SourceProblem(str(missing), lasting=True)
    from botocore.exceptions import BotoCoreError, NoCredentialsError

    try:
        found = session.get_credentials()
        if found is None:
            raise NoCredentialsError
        found.get_frozen_credentials()  # fetches those that have to be fetched
    except BotoCoreError as error:
        problem = sdk_problem(error, call, "the default region")
        return problem if problem.lasting else None  # an outage is waited out
    return None


def prepare_client(client: Any) -> Any:
    """The client, such that it retries only requests without a response, and reads no other than its own.

    A response may say how long to wait (`Retry-After`). boto3 would retry within seconds and hide it, so
    every response goes to the poller, which waits as long as the service asks. And boto3 takes a response
    that it can not read for an empty one, which would say that the service does not know the job.
    """
    if hasattr(client, "meta"):  # of boto3
        name = client.meta.service_model.service_id.hyphenize()
        client.meta.events.register_first(f"needs-retry.{name}", _leave_responses_alone)
        client.meta.events.register_first(f"before-parse.{name}", _check_response)
    return client


def _leave_responses_alone(response: object = None, **_: object) -> bool | None:
    """False stops boto3's retry; None leaves the decision to boto3."""
    return None if response is None else False


def _check_response(operation_model: Any, response_dict: dict[str, Any], **_: object) -> None:
    """Raise for a response that is not one of the service: cut off, or the page of a proxy."""
    from botocore.parsers import ResponseParserError

    _put_wait_in_seconds(response_dict["headers"])
    body, protocol = response_dict["body"], operation_model.service_model.resolved_protocol
    if protocol not in ("json", "rest-json", "query"):
        return
    is_json = protocol != "query"
    if response_dict["status_code"] >= 300:
        if is_json and not _is_object(body):
            response_dict["body"] = json.dumps(
                {"message": body[:_SHOWN_BYTES].decode(errors="replace")}
            ).encode()
        return
    if not (_is_object(body) if is_json else _is_response_of(operation_model.name, body)):
        raise ResponseParserError(f"it is not one of {operation_model.name}: {body[:_SHOWN_BYTES]!r}")


def _put_wait_in_seconds(headers: MutableMapping[str, str]) -> None:
    """Models of AWS have a whole number in `Retry-After`; boto3 fails on the date that may be there."""
    said = headers.get("Retry-After")
    if said is None or said.strip().isdecimal():
        return
    seconds = parse_retry_after(said, date=headers.get("Date"))
    if seconds is None:
        del headers["Retry-After"]
    else:
        headers["Retry-After"] = str(round(seconds + 0.5))


def _is_object(body: bytes) -> bool:
    try:
        return isinstance(json.loads(body), dict)
    except (ValueError, RecursionError):
        return False


def _is_response_of(operation: str, body: bytes) -> bool:
    """Whether this is the XML of a response, as the protocol `query` has it."""
    try:
        return ElementTree.fromstring(body).tag.rpartition("}")[2] == f"{operation}Response"
    except ElementTree.ParseError:
        return False


def is_unknown(response: Mapping[str, Any], call: AwsCall) -> bool:
    """Whether the service says that it has no such thing."""
    code, message = _said(response)
    return any(code == wanted and part in message for wanted, part in call.unknown)


def is_invalid_id(response: Mapping[str, Any], call: AwsCall) -> bool:
    """Whether the service takes one of the ids for none."""
    code, _ = _said(response)
    return code in NO_SUCH_ID or code in call.refused


def service_problem(response: Mapping[str, Any], call: AwsCall, where: str) -> SourceProblem:
    """The problem that an error of the service is."""
    code, message = _said(response)
    metadata = response.get("ResponseMetadata", {})
    told = f"{call.service} in {where} answered {code}" + (f": {message}" if message else "")
    if code in NO_RIGHT:
        return SourceProblem(f"{told}. The credentials need the right to {call.name}", lasting=True)
    if code in NO_LOGIN:
        return SourceProblem(f"{told}. Renew the AWS credentials", lasting=True)
    throttled = code in THROTTLING or metadata.get("HTTPStatusCode") == 429
    wish = response_retry_after(response)
    return SourceProblem(told, wish, throttled, lasting=not throttled and is_invalid_id(response, call))


def sdk_problem(error: Exception, call: AwsCall, where: str) -> SourceProblem:
    """The problem that the SDK had before there was any answer."""
    from botocore.exceptions import (
        BotoCoreError,
        CredentialRetrievalError,
        InvalidRegionError,
        NoCredentialsError,
        NoRegionError,
        ParamValidationError,
        PartialCredentialsError,
        ProfileNotFound,
        UnauthorizedSSOTokenError,
        UnknownServiceError,
    )
    from botocore.parsers import ResponseParserError

    if isinstance(error, NoRegionError):
        return SourceProblem(
            f"There is no region to ask {call.service} in. Pass --region, or set AWS_DEFAULT_REGION",
            lasting=True,
        )
    if isinstance(error, InvalidRegionError):
        return SourceProblem(f"{where!r} is no region. Pass another with --region", lasting=True)
    no_login = (
        NoCredentialsError,
        PartialCredentialsError,
        CredentialRetrievalError,
        ProfileNotFound,
        UnauthorizedSSOTokenError,
    )
    if isinstance(error, no_login):
        return SourceProblem(
            f"There are no AWS credentials to ask {call.service} with ({error}). Set AWS_PROFILE, or log in",
            lasting=True,
        )
    if isinstance(error, ParamValidationError | UnknownServiceError | MissingExtra):
        return SourceProblem(str(error), lasting=True)
    if not isinstance(error, BotoCoreError | ResponseParserError):
        return SourceProblem(
            f"{call.service} can not be asked ({error}). Mend the settings of the AWS SDK, such as "
            "AWS_ENDPOINT_URL",
            lasting=True,
        )
    if isinstance(error, ResponseParserError):
        return SourceProblem(f"{call.service} in {where} sent a response that can not be read ({error})")
    return SourceProblem(f"{call.service} in {where} can not be reached ({error})")


def response_retry_after(response: Mapping[str, Any]) -> float | None:
    """How long an AWS service asks to wait: as its errors model it, or in a header. The longest counts."""
    headers = response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    milliseconds = bounded_seconds(headers.get("x-amz-retry-after"))
    found = (
        bounded_seconds(response.get("retryAfterSeconds")),
        parse_retry_after(headers.get("retry-after"), date=headers.get("date")),
        None if milliseconds is None else milliseconds / 1000,
    )
    return max((each for each in found if each is not None), default=None)


def _said(response: Mapping[str, Any]) -> tuple[str, str]:
    error = response.get("Error", {})
    message = " ".join(str(error.get("Message", "")).split())  # a proxy may answer with a whole page
    return str(error.get("Code", "unknown")), message[:LONGEST_MESSAGE]
