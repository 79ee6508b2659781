"""What errors of AWS mean for whoever asked: wait, mend something, or take it that there is no such thing."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from longwatch.errors import MissingExtra
from longwatch.executions.sources.base import SourceProblem
from longwatch.executions.sources.dates import date_ms
from longwatch.executions.sources.declarations import AwsCall

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
LONGEST_WISH_SECONDS = 86_400.0
LONGEST_MESSAGE = 500  # characters


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


def parse_retry_after(said: str | None, *, date: str | None = None) -> float | None:
    """The seconds that a `Retry-After` means. A time in it is compared with the server's own `date`."""
    until = date_seconds(said)
    return (
        bounded_seconds(said)
        if until is None
        else bounded_seconds(until - (date_seconds(date) or time.time()))
    )


def date_seconds(said: str | None) -> float | None:
    """The epoch seconds of an HTTP date."""
    ms = date_ms(said)
    return None if ms is None else ms / 1000


def bounded_seconds(said: object) -> float | None:
    """A number of seconds to wait, if it is one that can be meant; at most a day."""
    try:
        seconds = float(said)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return min(seconds, LONGEST_WISH_SECONDS) if seconds > 0 else None


def _said(response: Mapping[str, Any]) -> tuple[str, str]:
    error = response.get("Error", {})
    message = " ".join(str(error.get("Message", "")).split())  # a proxy may answer with a whole page
    return str(error.get("Code", "unknown")), message[:LONGEST_MESSAGE]
