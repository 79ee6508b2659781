"""Calls AWS services by their declarations and classifies their errors."""

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
from longwatch.storage.aws import SKEWED_SIGNATURES, ClientOptions, core_session, make_client, new_session

MAX_PAGES = 50  # of one call
_SHOWN_BYTES = 60  # of a response that cannot be parsed
ATTEMPTS = 2  # boto3's own, for requests without a response; the poller backs off outside
OPTIONS = ClientOptions(
    connect_seconds=2, read_seconds=10, attempts=ATTEMPTS
)  # done long before a lease expires

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
"""Makes a boto3 client for a service, a region and an account."""


class AwsCaller:
    """A `Caller` with boto3, which keeps one client for each target."""

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
            missing = MissingExtra(f"Polling {self._call.service}", "aws")
            return dict.fromkeys(ids, SourceProblem(str(missing), lasting=True))
        where = target[0] or "the default region"
        try:
            return self._call_once(target, ids)
        except ClientError as error:
            if is_unknown(error.response, self._call):
                return dict.fromkeys(ids)
            if is_invalid_id(error.response, self._call) and len(ids) > 1:
                half = len(ids) // 2  # one invalid id must not stop the others
                return {**self._call_batch(target, ids[:half]), **self._call_batch(target, ids[half:])}
            problem = service_problem(error.response, self._call, where)
        except (BotoCoreError, ResponseParserError, MissingExtra, ValueError) as error:
            # The SDK raises a plain ValueError for some invalid settings.
            problem = sdk_problem(error, self._call, where)
        except _InvalidCall as error:
            problem = SourceProblem(str(error), lasting=True)
        return dict.fromkeys(ids, problem)

    def _call_once(self, target: AwsTarget, ids: Sequence[str]) -> Mapping[str, PolledJob]:
        client, call = self._client(target), self._call
        if not call.key:
            page = next(_pages(client, call, ids))
            result = _results(call, page)
            return {ids[0]: None if result is None else self._raw_job(client, ids[0], result, page)}
        by_key = {
            value_at(each, path): (each, page)
            for page in _pages(client, call, ids)
            for each in _results(call, page) or ()
            for path in call.key
        }
        return {each: self._raw_job(client, each, *by_key[each]) if each in by_key else None for each in ids}

    def _raw_job(self, client: Any, id_: str, fields: Any, page: Mapping[str, Any]) -> RawJob:
        from botocore.exceptions import ClientError

        items, date = self._items, sdk_date_ms(page)
        if items is None or items.call is None:
            return RawJob(fields, date=date)
        try:
            return RawJob(fields, items=_list_values(client, items.call, [id_], items.at), date=date)
        except (ClientError, _InvalidCall):  # items decide nothing, so they need no permission
            return RawJob(fields, items=(), date=date)

    def _client(self, target: AwsTarget) -> Any:
        with self._lock:
            if target not in self._clients:
                self._clients[target] = prepare_client(self._connect(self._call.service, *target))
            return self._clients[target]


class _InvalidCall(Exception):
    """The declared call cannot be made."""


def _results(call: AwsCall, page: Mapping[str, Any]) -> Any:
    """The polled results. Raises for a response without the member that contains them."""
    from botocore.parsers import ResponseParserError

    if call.results and parse_path(call.results)[0] not in page:
        raise ResponseParserError(f"the response of {call.name} has no {call.results}")
    return value_at(page, call.results)


def _list_values(client: Any, call: AwsCall, ids: Sequence[str], path: str) -> list[Any]:
    """The values at this path, from all pages."""
    return [each for page in _pages(client, call, ids) for each in value_at(page, path) or ()]


def _pages(client: Any, call: AwsCall, ids: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    import botocore

    method = getattr(client, botocore.xform_name(call.operation), None)
    if method is None:
        raise _InvalidCall(f"{call.service} has no operation {call.operation}")
    parameters = _parameters(call, ids[0])
    if call.ids is not None:
        parameters[call.ids] = list(ids)
    for _ in range(MAX_PAGES):
        response = method(**parameters)
        yield response
        token = response.get(call.token[1]) if call.token else None
        if call.token is None or not token:
            return
        parameters[call.token[0]] = token
    raise _InvalidCall(f"{call.name} returned more than {MAX_PAGES} pages")


def _parameters(call: AwsCall, id_: str) -> dict[str, Any]:
    try:
        return {name: fill_template(text, id_, call.divider) for name, text in call.parameters.items()}
    except ValueError as error:
        raise _InvalidCall(str(error)) from error


def aws_client(service: str, region: str | None, account: str | None = None) -> Any:
    """A client with the timeouts of polling. The credentials of the environment decide the account."""
    session = new_session(core_session(f"Polling {service}"))
    return make_client(session, service, region=region, options=OPTIONS)


def credentials_problem(call: AwsCall) -> SourceProblem | None:
    """Why AWS cannot be called from this machine: the extra or the credentials are missing."""
    try:
        session = core_session(f"Polling {call.service}")
    except MissingExtra as missing:
        return SourceProblem(str(missing), lasting=True)
    from botocore.exceptions import BotoCoreError, NoCredentialsError

    try:
        found = session.get_credentials()
        if found is None:
            raise NoCredentialsError
        found.get_frozen_credentials()  # fetches temporary credentials
    except BotoCoreError as error:
        problem = sdk_problem(error, call, "the default region")
        return problem if problem.lasting else None  # an outage passes
    return None


def prepare_client(client: Any) -> Any:
    """Make the client retry only requests without a response, and reject invalid responses.

    boto3 would retry within seconds and hide the `Retry-After` of a response, so every response goes to the
    poller, which waits as long as the service requests. boto3 also reads a response that it cannot parse as
    an empty one, which would mean that the service does not have the job.
    """
    if hasattr(client, "meta"):  # of boto3
        name = client.meta.service_model.service_id.hyphenize()
        client.meta.events.register_first(f"needs-retry.{name}", _skip_retry)
        client.meta.events.register_first(f"before-parse.{name}", _check_response)
    return client


def _skip_retry(response: object = None, **_: object) -> bool | None:
    """False stops boto3's retry; None leaves the decision to boto3."""
    return None if response is None else False


def _check_response(operation_model: Any, response_dict: dict[str, Any], **_: object) -> None:
    """Raise for a response that the service did not send whole: truncated, or the page of a proxy."""
    from botocore.parsers import ResponseParserError

    _normalize_retry_after(response_dict["headers"])
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
        raise ResponseParserError(f"not a response of {operation_model.name}: {body[:_SHOWN_BYTES]!r}")


def _normalize_retry_after(headers: MutableMapping[str, str]) -> None:
    """Replace a date in `Retry-After` by whole seconds: boto3 fails on a date there."""
    header = headers.get("Retry-After")
    if header is None or header.strip().isdecimal():
        return
    seconds = parse_retry_after(header, date=headers.get("Date"))
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
    """Whether this is the XML of a response in the protocol `query`."""
    try:
        return ElementTree.fromstring(body).tag.rpartition("}")[2] == f"{operation}Response"
    except ElementTree.ParseError:
        return False


def is_unknown(response: Mapping[str, Any], call: AwsCall) -> bool:
    """Whether the error means that the service has no such job."""
    code, message = _code_and_message(response)
    return any(code == wanted and part in message for wanted, part in call.unknown)


def is_invalid_id(response: Mapping[str, Any], call: AwsCall) -> bool:
    """Whether the error means that an id is malformed."""
    code, _ = _code_and_message(response)
    return code in NO_SUCH_ID or code in call.refused


def service_problem(response: Mapping[str, Any], call: AwsCall, where: str) -> SourceProblem:
    """The problem for an error of the service, with what to do."""
    code, message = _code_and_message(response)
    metadata = response.get("ResponseMetadata", {})
    summary = f"{call.service} in {where} returned {code}" + (f": {message}" if message else "")
    if code in NO_RIGHT:
        return SourceProblem(f"{summary}. Allow {call.name} for these credentials", lasting=True)
    if message.startswith(SKEWED_SIGNATURES):
        return SourceProblem(f"{summary}. Set the clock of this machine", lasting=True)
    if code in NO_LOGIN:
        return SourceProblem(f"{summary}. Renew the AWS credentials", lasting=True)
    throttled = code in THROTTLING or metadata.get("HTTPStatusCode") == 429
    retry_after = response_retry_after(response)
    return SourceProblem(
        summary, retry_after, throttled, lasting=not throttled and is_invalid_id(response, call)
    )


def sdk_problem(error: Exception, call: AwsCall, where: str) -> SourceProblem:
    """The problem for an error of the SDK, without a response."""
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
            f"No region to poll {call.service} in. Pass --region, or set AWS_DEFAULT_REGION",
            lasting=True,
        )
    if isinstance(error, InvalidRegionError):
        return SourceProblem(f"Invalid region {where!r}. Pass another with --region", lasting=True)
    no_login = (
        NoCredentialsError,
        PartialCredentialsError,
        CredentialRetrievalError,
        ProfileNotFound,
        UnauthorizedSSOTokenError,
    )
    if isinstance(error, no_login):
        return SourceProblem(
            f"No AWS credentials to poll {call.service} with ({error}). Set AWS_PROFILE, or log in",
            lasting=True,
        )
    if isinstance(error, ParamValidationError | UnknownServiceError | MissingExtra):
        return SourceProblem(str(error), lasting=True)
    if not isinstance(error, BotoCoreError | ResponseParserError):
        return SourceProblem(
            f"{call.service} cannot be polled ({error}). Fix the settings of the AWS SDK, such as "
            "AWS_ENDPOINT_URL",
            lasting=True,
        )
    if isinstance(error, ResponseParserError):
        return SourceProblem(f"{call.service} in {where} sent an invalid response ({error})")
    return SourceProblem(f"{call.service} in {where} is unreachable ({error})")


def response_retry_after(response: Mapping[str, Any]) -> float | None:
    """How long an AWS service requests to wait, in a field or a header. The longest counts."""
    headers = response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    milliseconds = bounded_seconds(headers.get("x-amz-retry-after"))
    found = (
        bounded_seconds(response.get("retryAfterSeconds")),
        parse_retry_after(headers.get("retry-after"), date=headers.get("date")),
        None if milliseconds is None else milliseconds / 1000,
    )
    return max((each for each in found if each is not None), default=None)


def _code_and_message(response: Mapping[str, Any]) -> tuple[str, str]:
    error = response.get("Error", {})
    message = " ".join(str(error.get("Message", "")).split())  # a proxy may send a whole page
    return str(error.get("Code", "unknown")), message[:LONGEST_MESSAGE]
