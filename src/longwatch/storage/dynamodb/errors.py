"""Translates errors of DynamoDB and the AWS SDK to longwatch errors, for all stores.

The kinds of `TableProblem`: not-found, not-active, wrong-keys, no-credentials, expired-token, access-denied,
no-region, clock, unreachable (only from the table check; elsewhere it is retried) and refused. This module
imports the SDK only when the SDK has raised an error.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass

from longwatch.errors import JournalUnavailable, TableProblem, Throttled, Unreachable
from longwatch.storage.aws import SKEWED_SIGNATURES
from longwatch.storage.urls import TableAddress

TEMPLATE = "infrastructure/dynamodb-table.yaml"

# Partition key and sort key of each layout's table, with their types.
KEYS = {
    "workflow": (("workflow_id", "S"), ("timestamp", "N")),
    "session": (("PK", "S"), ("SK", "S")),
}

# The kind of problem behind each error code of the service.
_KINDS = {
    "ProvisionedThroughputExceededException": "throttled",
    "RequestLimitExceeded": "throttled",
    "Throttling": "throttled",
    "ThrottlingException": "throttled",
    "TooManyRequestsException": "throttled",
    "LimitExceededException": "throttled",
    "InternalFailure": "unreachable",
    "InternalServerError": "unreachable",
    "RequestTimeout": "unreachable",
    "ServiceUnavailable": "unreachable",
    "ResourceNotFoundException": "not-found",
    "TableNotFoundException": "not-found",
    "ResourceInUseException": "not-active",
    "AccessDenied": "access-denied",
    "AccessDeniedException": "access-denied",
    "KMSAccessDeniedException": "access-denied",
    "OptInRequired": "access-denied",
    "ExpiredToken": "expired-token",
    "ExpiredTokenException": "expired-token",
    "IncompleteSignature": "no-credentials",
    "InvalidClientTokenId": "no-credentials",
    "InvalidSignatureException": "no-credentials",
    "MissingAuthenticationToken": "no-credentials",
    "MissingAuthenticationTokenException": "no-credentials",
    "SignatureDoesNotMatch": "no-credentials",
    "UnrecognizedClientException": "no-credentials",
    "RequestExpired": "clock",
    "RequestTimeTooSkewed": "clock",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableShape:
    """What a store other than the journal needs of its table, and which template creates such a table."""

    holds: str  # such as documents
    keys: tuple[tuple[str, str], ...]  # partition key and sort key, each with its type
    indexes: tuple[str, ...]
    template: str
    add_index: str  # the next step for a table that lacks one of them
    optional: tuple[str, ...] = ()  # indexes that an earlier release did not create

    def deploy_advice(self, at: TableAddress) -> str:
        return f"Deploy {self.template} with TableName={at.table}, or use another table."

    def add_advice(self, problem: TableProblem, at: TableAddress) -> TableProblem:
        """The same problem; the advice for a missing or unsuitable table names this store's template."""
        match problem.kind:
            case "not-found":
                return TableProblem(
                    "not-found",
                    f"Table {at.table!r} for {self.holds} was not found in {at.where}. {other_region(at)} "
                    f"{self.deploy_advice(at)}",
                )
            case "refused":
                return TableProblem(
                    "refused", f"{problem} If it is not a table for {self.holds}: {self.deploy_advice(at)}"
                )
            case _:
                return problem


def sdk_errors() -> tuple[type[Exception], ...]:
    """The errors that the AWS SDK raises on purpose; any other exception is a bug and propagates."""
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError

    return BotoCoreError, ClientError, ResponseParserError


def translate_error(error: Exception, at: TableAddress) -> JournalUnavailable | TableProblem:
    """The longwatch error to raise for an error of the AWS SDK."""
    from botocore.exceptions import ClientError

    if isinstance(error, ClientError):
        return _from_service(error.response, at)
    return _from_sdk(error, at)


def no_such_table(at: TableAddress) -> TableProblem:
    """The error for a missing table."""
    return TableProblem(
        "not-found",
        f"Table {at.table!r} was not found in {at.where}. {other_region(at)} Otherwise create it: "
        f"{create_command(at)}",
    )


def other_region(at: TableAddress) -> str:
    """Advice for a table that exists in another region, which is as often the cause."""
    return f"If it is in another region, set that: dynamodb://{at.table}?region=REGION or LONGWATCH_REGION."


def create_command(at: TableAddress) -> str:
    """The shell command that creates a table for this layout."""
    options = _options(at)
    if at.layout == "workflow":
        return (
            f"aws cloudformation deploy --template-file {TEMPLATE} --stack-name {stack_name(at.table)} "
            f"--parameter-overrides TableName={shlex.quote(at.table)}{options}"
        )
    (partition, partition_type), (sort, sort_type) = KEYS[at.layout]
    return (
        f"aws dynamodb create-table --table-name {shlex.quote(at.table)} --billing-mode PAY_PER_REQUEST "
        f"--attribute-definitions AttributeName={partition},AttributeType={partition_type} "
        f"AttributeName={sort},AttributeType={sort_type} --key-schema AttributeName={partition},KeyType=HASH "
        f"AttributeName={sort},KeyType=RANGE{options}"
    )


def stack_name(table: str) -> str:
    """A valid CloudFormation name: letters, digits and hyphens, starting with a letter."""
    plain = "".join(character if character.isalnum() else "-" for character in table).strip("-")
    return plain if plain[:1].isalpha() else f"longwatch-{plain}"


def _from_service(response: object, at: TableAddress) -> JournalUnavailable | TableProblem:
    body = response if isinstance(response, dict) else {}
    code = str(body.get("Error", {}).get("Code", ""))
    message = str(body.get("Error", {}).get("Message", ""))
    status = body.get("ResponseMetadata", {}).get("HTTPStatusCode")
    kind = "clock" if message.startswith(SKEWED_SIGNATURES) else _KINDS.get(code)
    if kind is None:
        kind = "unreachable" if isinstance(status, int) and status >= 500 else "refused"
    reason = f"{code}: {message}" if message else code
    match kind:
        case "throttled":
            return Throttled(f"Table {at.table!r} in {at.where} is throttling requests ({reason}).")
        case "unreachable":
            return Unreachable(f"DynamoDB in {at.where} is temporarily unavailable ({reason}).")
        case "not-found":
            return no_such_table(at)
        case "not-active":
            return TableProblem(
                "not-active",
                f"Table {at.table!r} in {at.where} is not ready ({reason}). {_status_command(at)}",
            )
        case "access-denied":
            return TableProblem(
                kind,
                f"{_credentials_owner()} is not authorized for table {at.table!r} in {at.where} ({reason}). "
                "Request the missing permission, or use another profile: AWS_PROFILE=NAME.",
            )
        case "expired-token":
            return TableProblem(kind, _expired_text())
        case "no-credentials":
            return TableProblem(
                kind,
                f"AWS rejected the credentials of {_credentials_owner()} ({reason}). Check them: aws sts "
                "get-caller-identity",
            )
        case "clock":
            return TableProblem(
                kind,
                f"AWS rejected the request because the clock of this machine is wrong ({reason}). Set the "
                "clock, then try again.",
            )
        case _:
            return TableProblem(
                kind, f"DynamoDB rejected a request for table {at.table!r} in {at.where} ({reason})."
            )


def _from_sdk(error: Exception, at: TableAddress) -> JournalUnavailable | TableProblem:
    from botocore import exceptions as sdk
    from botocore.parsers import ResponseParserError

    match error:
        case sdk.SSOError() | sdk.TokenRetrievalError() | sdk.LoginError():
            return TableProblem("expired-token", _expired_text(login=isinstance(error, sdk.LoginError)))
        case sdk.ProfileNotFound():
            return TableProblem(
                "no-credentials", f"{error}. List the configured profiles: aws configure list-profiles"
            )
        case sdk.NoCredentialsError() | sdk.PartialCredentialsError() | sdk.CredentialRetrievalError():
            return TableProblem(
                "no-credentials",
                f"No usable AWS credentials for table {at.table!r} ({error}). Choose a profile "
                "(AWS_PROFILE=NAME), sign in (aws sso login --profile NAME) or configure credentials: "
                "aws configure",
            )
        case sdk.NoRegionError():
            return TableProblem(
                "no-region",
                f"No AWS region is set for table {at.table!r}. Use dynamodb://{at.table}?region=REGION, "
                "or set LONGWATCH_REGION or AWS_REGION.",
            )
        case sdk.ConnectionError() | sdk.HTTPClientError():
            return Unreachable(
                f"Cannot reach DynamoDB in {at.where} ({error}). Check the network, and the region or "
                "endpoint."
            )
        case ResponseParserError():
            return Unreachable(
                f"Invalid response from DynamoDB in {at.where} ({error}). Check the endpoint, and any "
                "proxy in front of it."
            )
        case _:
            return TableProblem(
                "refused", f"The AWS SDK rejected a request for table {at.table!r} in {at.where} ({error})."
            )


def _credentials_owner() -> str:
    """Whose credentials these are, as far as the environment shows."""
    if os.environ.get("AWS_ACCESS_KEY_ID") and not os.environ.get("AWS_PROFILE"):
        return "the key in AWS_ACCESS_KEY_ID"
    return f"profile {_profile()!r}"


def _profile() -> str:
    return os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE") or "default"


def _expired_text(*, login: bool = False) -> str:
    if os.environ.get("AWS_SESSION_TOKEN") and not os.environ.get("AWS_PROFILE"):
        return (
            "The temporary AWS credentials in AWS_SESSION_TOKEN have expired. Set new ones, "
            "or unset them and choose a profile: AWS_PROFILE=NAME."
        )
    profile, command = _profile(), "aws login" if login else "aws sso login"
    return f"The AWS sign-in of profile {profile!r} has expired. Sign in again: {command} --profile {profile}"


def _status_command(at: TableAddress) -> str:
    return f"Check its status: aws dynamodb describe-table --table-name {shlex.quote(at.table)}{_options(at)}"


def _options(at: TableAddress) -> str:
    region = f" --region {at.region}" if at.region else ""
    return region + (f" --endpoint-url {at.endpoint}" if at.endpoint else "")
