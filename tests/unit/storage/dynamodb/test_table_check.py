"""The table check against a small service on the loopback that speaks DynamoDB's wire format."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from longwatch.errors import InvalidJournalUrl, MissingExtra, TableProblem
from longwatch.storage.dynamodb.table_check import TableReport, check_table
from longwatch.storage.urls import TableAddress
from tests.engines.start import free_port

Response = tuple[int, dict[str, Any] | str]

NOW_SECONDS = 1_700_000_000
WORKFLOW_KEYS = {"workflow_id": ("S", "HASH"), "timestamp": ("N", "RANGE")}
SESSION_KEYS = {"PK": ("S", "HASH"), "SK": ("S", "RANGE")}


class StoppedClock:
    """Ten seconds ahead of the service."""

    def now_ms(self) -> int:
        return (NOW_SECONDS + 10) * 1000

    def monotonic(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        raise AssertionError("a check does not wait")


class Service(ThreadingHTTPServer):
    """Responds to each operation as the test defined it."""

    responses: dict[str, Response]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Service
    wbufsize = -1  # one packet per response

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        operation = self.headers["x-amz-target"].rpartition(".")[2]
        status, body = self.server.responses[operation]
        content = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response_only(status)
        self.send_header("date", formatdate(NOW_SECONDS, usegmt=True))
        self.send_header("content-type", "application/x-amz-json-1.0")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@pytest.fixture
def service() -> Iterator[Service]:
    server = Service(("127.0.0.1", 0), Handler)
    server.responses = {"DescribeTable": table(), "DescribeTimeToLive": time_to_live()}
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def table(status: str = "ACTIVE", keys: dict[str, tuple[str, str]] = WORKFLOW_KEYS) -> Response:
    return 200, {
        "Table": {
            "TableStatus": status,
            "ItemCount": 7,
            "BillingModeSummary": {"BillingMode": "PAY_PER_REQUEST"},
            "AttributeDefinitions": [
                {"AttributeName": name, "AttributeType": type_} for name, (type_, _) in keys.items()
            ],
            "KeySchema": [{"AttributeName": name, "KeyType": kind} for name, (_, kind) in keys.items()],
        }
    }


def time_to_live(status: str = "ENABLED", attribute: str = "ttl") -> Response:
    return 200, {"TimeToLiveDescription": {"TimeToLiveStatus": status, "AttributeName": attribute}}


def refusal(code: str, message: str = "because", *, status: int = 400) -> Response:
    return status, {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": message}


def check(service: Service, *, layout: str = "workflow") -> TableReport:
    at = TableAddress(table="events", region="eu-west-1", layout=layout, endpoint=service.url)
    return check_table(at, clock=StoppedClock())


def problem_of(service: Service, *, layout: str = "workflow") -> TableProblem:
    with pytest.raises(TableProblem) as caught:
        check(service, layout=layout)
    return caught.value


def test_a_good_table_is_described(service: Service) -> None:
    report = check(service)

    assert (report.status, report.billing, report.item_count, report.ttl) == (
        "ACTIVE",
        "PAY_PER_REQUEST",
        7,
        "ENABLED",
    )
    assert report.address.region == "eu-west-1"
    assert report.warnings == ()


def test_the_difference_of_the_clocks_is_reported(service: Service) -> None:
    assert check(service).clock_skew_seconds == pytest.approx(10.0, abs=0.5)


def test_a_table_that_is_being_changed_can_be_used(service: Service) -> None:
    service.responses["DescribeTable"] = table("UPDATING")

    report = check(service)

    assert report.status == "UPDATING"
    assert "remains usable" in report.warnings[0]


@pytest.mark.parametrize(
    "status", ["CREATING", "DELETING", "ARCHIVING", "ARCHIVED", "INACCESSIBLE_ENCRYPTION_CREDENTIALS"]
)
def test_a_table_that_takes_no_events_is_a_problem_that_names_its_state(
    service: Service, status: str
) -> None:
    service.responses["DescribeTable"] = table(status)

    problem = problem_of(service)

    assert problem.kind == "not-active"
    assert f"is {status}" in str(problem)


def test_a_table_of_the_other_layout_is_recognised(service: Service) -> None:
    service.responses["DescribeTable"] = table(keys=SESSION_KEYS)

    problem = problem_of(service)

    assert problem.kind == "wrong-keys"
    assert "PK (S) and SK (S), but layout workflow needs workflow_id (S) and timestamp (N)" in str(problem)
    assert "dynamodb://events?layout=session" in str(problem)
    assert check(service, layout="session").status == "ACTIVE"


def test_a_table_of_another_program_is_refused(service: Service) -> None:
    service.responses["DescribeTable"] = table(
        keys={"workflow_id": ("S", "HASH"), "timestamp": ("S", "RANGE")}
    )

    problem = problem_of(service)

    assert problem.kind == "wrong-keys"
    assert "Choose another name" in str(problem)


def test_a_missing_table_leads_to_the_template(service: Service) -> None:
    service.responses["DescribeTable"] = refusal("ResourceNotFoundException")

    problem = problem_of(service)

    assert problem.kind == "not-found"
    assert "If it is in another region, set that: dynamodb://events?region=REGION" in str(problem)
    assert (
        "aws cloudformation deploy --template-file infrastructure/dynamodb-table.yaml --stack-name events "
        "--parameter-overrides TableName=events --region eu-west-1"
    ) in str(problem)


def test_a_missing_session_table_leads_to_its_own_command(service: Service) -> None:
    service.responses["DescribeTable"] = refusal("ResourceNotFoundException")

    problem = problem_of(service, layout="session")

    assert "aws dynamodb create-table --table-name events" in str(problem)
    assert "AttributeName=PK,KeyType=HASH AttributeName=SK,KeyType=RANGE" in str(problem)


def test_a_missing_permission_names_the_permission_and_whose_it_is(service: Service) -> None:
    service.responses["DescribeTable"] = refusal(
        "AccessDeniedException", "User: u is not authorized to perform: dynamodb:DescribeTable"
    )

    problem = problem_of(service)

    assert problem.kind == "access-denied"
    assert "not authorized to perform: dynamodb:DescribeTable" in str(problem)
    assert "the key in AWS_ACCESS_KEY_ID" in str(problem)


def test_credentials_that_aws_does_not_know_are_distinguished(service: Service) -> None:
    service.responses["DescribeTable"] = refusal("UnrecognizedClientException")

    problem = problem_of(service)

    assert problem.kind == "no-credentials"
    assert "aws sts get-caller-identity" in str(problem)


def test_expired_credentials_of_the_environment_are_named(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "old")
    service.responses["DescribeTable"] = refusal("ExpiredTokenException")

    problem = problem_of(service)

    assert problem.kind == "expired-token"
    assert "AWS_SESSION_TOKEN" in str(problem)


def test_an_expired_sign_in_names_the_profile_to_sign_in_with(
    service: Service, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = tmp_path / "aws-config"
    config.write_text(
        "[profile research]\nsso_start_url = https://example.invalid/start\nsso_region = eu-west-1\n"
        "sso_account_id = 123456789012\nsso_role_name = reader\nregion = eu-west-1\n"
    )
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_PROFILE", "research")
    monkeypatch.setenv("HOME", str(tmp_path))  # no token was ever stored there
    forget_credentials(monkeypatch)

    problem = problem_of(service)

    assert problem.kind == "expired-token"
    assert "aws sso login --profile research" in str(problem)


def test_no_credentials_at_all_is_a_problem_of_its_own(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_credentials(monkeypatch)

    problem = problem_of(service)

    assert problem.kind == "no-credentials"
    assert "aws configure" in str(problem)


def test_an_unknown_profile_is_named(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")

    problem = problem_of(service)

    assert problem.kind == "no-credentials"
    assert "nobody" in str(problem)


def test_no_region_is_a_problem_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.delenv("AWS_DEFAULT_REGION")

    with pytest.raises(TableProblem, match=r"dynamodb://events\?region=") as caught:
        check_table(TableAddress(table="events"))

    assert caught.value.kind == "no-region"


def test_a_refused_connection_is_unreachable() -> None:
    address = f"http://127.0.0.1:{free_port()}"

    with pytest.raises(TableProblem, match=address) as caught:
        check_table(TableAddress(table="events", region="eu-west-1", endpoint=address))

    assert caught.value.kind == "unreachable"


@pytest.mark.parametrize(
    "response",
    [
        refusal("InternalServerError", status=500),
        refusal("ThrottlingException"),
        (503, "<html>busy</html>"),
        (200, "<html>a page</html>"),
    ],
    ids=["internal error", "throttled", "a proxy's page", "Invalid response from DynamoDB"],
)
def test_a_service_that_can_not_respond_is_unreachable(service: Service, response: Response) -> None:
    service.responses["DescribeTable"] = response

    assert problem_of(service).kind == "unreachable"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("RequestExpired", "Request has expired."),
        ("InvalidSignatureException", "Signature expired: 20261118T1300Z is now earlier than 20261118T1325Z"),
        ("InvalidSignatureException", "Signature not yet current: 20261118T1400Z is still later than …"),
    ],
)
def test_a_wrong_clock_is_distinguished_from_wrong_credentials(
    service: Service, code: str, message: str
) -> None:
    service.responses["DescribeTable"] = refusal(code, message)

    assert problem_of(service).kind == "clock"


def test_an_unknown_refusal_keeps_the_service_s_own_message(service: Service) -> None:
    service.responses["DescribeTable"] = refusal("ValidationException", "table name is odd")

    problem = problem_of(service)

    assert problem.kind == "refused"
    assert "ValidationException: table name is odd" in str(problem)


def test_expiry_is_unknown_without_permission_to_read_it(service: Service) -> None:
    service.responses["DescribeTimeToLive"] = refusal("AccessDeniedException")

    report = check(service)

    assert report.ttl is None
    assert report.warnings == ()


def test_a_table_that_never_expires_events_is_worth_a_warning(service: Service) -> None:
    service.responses["DescribeTimeToLive"] = time_to_live("DISABLED")

    assert "TTL is disabled" in check(service).warnings[0]


def test_expiry_by_another_attribute_is_worth_a_warning(service: Service) -> None:
    service.responses["DescribeTimeToLive"] = time_to_live(attribute="expires")

    assert "'expires'" in check(service).warnings[0]


def test_an_unknown_layout_is_refused_before_any_request() -> None:
    with pytest.raises(InvalidJournalUrl, match="Use one of workflow, session"):
        check_table(TableAddress(table="events", layout="other"))


def test_a_missing_sdk_names_its_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)

    with pytest.raises(MissingExtra, match=r"pip install '\.\[aws\]'"):
        check_table(TableAddress(table="events"))


def forget_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
