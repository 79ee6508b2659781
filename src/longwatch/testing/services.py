"""A simulated AWS service: the wire protocol of botocore's model, with the responses that a test defines.

    with AwsService("codebuild") as service:
        service.answer("BatchGetBuilds", {"builds": [{"id": "demo:1", "buildStatus": "IN_PROGRESS"}]})
        client = boto3.client("codebuild", endpoint_url=service.url, region_name="eu-west-1")

Responses are checked against the model, so that a test cannot return what the service never would.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl
from xml.etree import ElementTree

from longwatch.clock import SYSTEM_CLOCK, Clock, iso_from_ms
from longwatch.errors import MissingExtra

DENIED = "AccessDeniedException"


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP response."""

    status: int
    body: bytes
    headers: Mapping[str, str]


class ServiceError(Exception):
    """An error of the service, by the name of its shape."""

    def __init__(self, shape: str, message: str, **members: Any) -> None:
        super().__init__(shape, message)
        self.shape = shape
        self.members = {"message": message, **members}


@cache
def service_model(service: str = "drs") -> Any:
    """botocore's model of the service."""
    try:
        import botocore.session
    except ImportError as error:
        raise MissingExtra("Simulating an AWS service", "aws") from error
    return botocore.session.get_session().get_service_model(service)


@cache
def routes(service: str = "drs") -> Mapping[tuple[str, str], str]:
    """Operation names by method and path."""
    model = service_model(service)
    found = {}
    for name in model.operation_names:
        http = model.operation_model(name).http
        found[http["method"], http["requestUri"].partition("?")[0]] = name
    return found


def parse_request(operation: str, body: bytes) -> dict[str, Any]:
    """The request's parameters. Raises `ServiceError` for a request that the service would reject."""
    from botocore.validate import ParamValidator

    try:
        parameters = json.loads(body or b"{}")
    except ValueError as error:
        raise ServiceError("ValidationException", f"the body is not JSON: {error}", code="400") from error
    shape = service_model().operation_model(operation).input_shape
    report = ParamValidator().validate(parameters, shape) if shape is not None else None
    if report is not None and report.has_errors():
        raise ServiceError("ValidationException", report.generate_report(), code="400")
    mistakes = mistakes_in(parameters, shape) if shape is not None else []
    if mistakes:
        raise ServiceError("ValidationException", "; ".join(mistakes), code="400")
    return dict(parameters)


def render_response(operation: str, response: Mapping[str, Any]) -> Reply:
    """The response on the wire. Raises AssertionError for one that the service could never return."""
    model = service_model().operation_model(operation)
    mistakes = mistakes_in(response, model.output_shape)
    if mistakes:
        raise AssertionError(f"{operation} cannot return this: {'; '.join(mistakes)}")
    return Reply(int(model.http.get("responseCode", 200)), _json(response), {})


def render_error(operation: str, error: ServiceError) -> Reply:
    """The error on the wire, as the model of the operation defines it."""
    shapes = {shape.name: shape for shape in service_model().operation_model(operation).error_shapes}
    shapes[DENIED] = service_model().shape_for(DENIED)  # a common error, which no operation lists
    if error.shape not in shapes:
        raise AssertionError(f"{operation} never returns {error.shape}")
    shape = shapes[error.shape]
    headers, body = {"x-amzn-ErrorType": error.shape}, {}
    for name, value in error.members.items():
        where = shape.members[name].serialization
        if where.get("location") == "header":
            headers[where["name"]] = str(value)
        else:
            body[name] = value
    return Reply(int(shape.metadata["error"]["httpStatusCode"]), _json(body), headers)


def mistakes_in(value: Any, shape: Any, path: str = "") -> list[str]:
    """Everything in a value that its shape does not allow."""
    match shape.type_name:
        case "structure":
            return _structure_mistakes(value, shape, path)
        case "list":
            return [
                mistake
                for number, each in enumerate(value)
                for mistake in mistakes_in(each, shape.member, f"{path}[{number}]")
            ]
        case "map":
            return [
                mistake
                for key, each in value.items()
                for mistake in mistakes_in(each, shape.value, f"{path}.{key}")
            ]
        case "string":
            return _text_mistakes(value, shape, path)
    return []


def _structure_mistakes(value: Any, shape: Any, path: str) -> list[str]:
    if not isinstance(value, Mapping):
        return [f"{path or 'the response'} is not a structure"]
    found = [f"{path}.{name} is missing" for name in shape.required_members if name not in value]
    for name, each in value.items():
        if name not in shape.members:
            found.append(f"{path}.{name} is unknown")
        else:
            found += mistakes_in(each, shape.members[name], f"{path}.{name}")
    return found


def _text_mistakes(value: Any, shape: Any, path: str) -> list[str]:
    if not isinstance(value, str):
        return [f"{path} is not a string"]
    if shape.enum and value not in shape.enum:
        return [f"{path} is {value!r}, not one of {', '.join(shape.enum)}"]
    pattern = shape.metadata.get("pattern")
    if pattern and not _matches(pattern, value):
        return [f"{path} is {value!r}, which {pattern} does not allow"]
    return []


def _matches(pattern: str, value: str) -> bool:
    try:
        return re.search(pattern, value) is not None
    except re.error:  # some models have patterns of another dialect, which Python cannot compile
        return True


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value).encode()


ServiceReply = Mapping[str, Any]
Answering = Callable[[ServiceReply], ServiceReply]


class SimulatedService:
    """An HTTP server on this machine that answers as a service would. Subclasses define `reply`."""

    content_type: str | None = None

    def __init__(self, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        """The URL to pass as `endpoint_url`, or to set in AWS_ENDPOINT_URL_…."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def now_ms(self) -> int:
        """The time of the service, which dates its responses."""
        return self._clock.now_ms()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def reply(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Reply | None:
        """The response to a request; None closes the connection without one."""
        raise NotImplementedError


class AwsService(SimulatedService):
    """One service of the protocols json, rest-json or query. `calls` has the requests it received."""

    def __init__(self, service: str) -> None:
        self._protocol = service_model(service).metadata["protocol"]
        if self._protocol not in ("json", "rest-json", "query"):
            raise ValueError(f"{service} uses {self._protocol}; only json and query are simulated")
        super().__init__()
        self.calls: list[tuple[str, ServiceReply]] = []
        self._service = service
        self._answers: dict[str, list[ServiceReply | Answering]] = {}
        self._faults: list[Reply | None] = []

    def answer(self, operation: str, *responses: ServiceReply | Answering) -> None:
        """Return these from now on, one after the other; the last one is repeated."""
        shape = service_model(self._service).operation_model(operation).output_shape
        for each in responses:
            mistakes = [] if callable(each) else mistakes_in(each, shape)
            if mistakes:
                raise AssertionError(f"{operation} cannot return this: {'; '.join(mistakes)}")
        with self._lock:
            self._answers[operation] = list(responses)

    def fail(
        self,
        code: str,
        message: str = "by the test",
        *,
        times: int = 1,
        status: int = 400,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Return this error for the next calls."""
        self.send(self._error(code, message), status=status, headers=headers, times=times)

    def send(
        self, body: bytes, *, status: int = 200, headers: Mapping[str, str] | None = None, times: int = 1
    ) -> None:
        """Return these bytes for the next calls, as a proxy or a broken connection would."""
        with self._lock:
            self._faults += [Reply(status, body, headers or {})] * times

    def lose_answers(self, times: int = 1) -> None:
        """Close the connection of the next calls without a response."""
        with self._lock:
            self._faults += [None] * times

    def reply(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Reply | None:
        operation, parameters = self._parse(method, path, headers, body)
        with self._lock:
            self.calls.append((operation, parameters))
            if self._faults:
                return self._faults.pop(0)
            answers = self._answers.get(operation)
            if not answers:
                return Reply(
                    400, self._error("UnknownOperationException", f"{operation} is not simulated"), {}
                )
            response = answers.pop(0) if len(answers) > 1 else answers[0]
        return Reply(200, self._body(operation, response(parameters) if callable(response) else response), {})

    def _parse(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[str, ServiceReply]:
        if self._protocol == "query":
            form = dict(parse_qsl(body.decode()))
            form.pop("Version", None)
            return form.pop("Action"), form
        if self._protocol == "json":
            return headers["X-Amz-Target"].rpartition(".")[2], json.loads(body or b"{}")
        return routes(self._service)[method, path], json.loads(body or b"{}")

    def _body(self, operation: str, response: ServiceReply) -> bytes:
        shape = service_model(self._service).operation_model(operation).output_shape
        if self._protocol != "query":
            return json.dumps(response, default=lambda value: value.timestamp()).encode()
        root = ElementTree.Element(f"{operation}Response")
        _fill(ElementTree.SubElement(root, f"{operation}Result"), response, shape)
        return ElementTree.tostring(root)

    def _error(self, code: str, message: str) -> bytes:
        if self._protocol != "query":
            return json.dumps({"__type": code, "message": message}).encode()
        root = ElementTree.Element("ErrorResponse")
        error = ElementTree.SubElement(root, "Error")
        ElementTree.SubElement(error, "Code").text = code
        ElementTree.SubElement(error, "Message").text = message
        return ElementTree.tostring(root)


def _fill(element: ElementTree.Element, value: Any, shape: Any) -> None:
    """Write a value as the query protocol does: names as elements, lists as `member`s."""
    match shape.type_name:
        case "structure":
            for name, each in value.items():
                member = shape.members[name]
                _fill(ElementTree.SubElement(element, member.serialization.get("name", name)), each, member)
        case "list":
            for each in value:
                name = shape.member.serialization.get("name", "member")
                _fill(ElementTree.SubElement(element, name), each, shape.member)
        case "timestamp":
            moment = round(value.timestamp() * 1000) if isinstance(value, datetime) else round(value * 1000)
            element.text = iso_from_ms(moment)
        case "boolean":
            element.text = str(value).lower()
        case _:
            element.text = str(value)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, service: SimulatedService) -> None:
        self.service = service
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one packet for head and body: else each response waits 40 ms for an acknowledgement
    server: _Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        reply = self.server.service.reply("POST", self.path.partition("?")[0], dict(self.headers), body)
        if reply is None:
            self.close_connection = True
            return
        self.send_response(reply.status)
        if self.server.service.content_type is not None:
            self.send_header("Content-Type", self.server.service.content_type)
        self.send_header("Content-Length", str(len(reply.body)))
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.body)

    def date_time_string(self, timestamp: float | None = None) -> str:
        """The `Date` of a response, by the clock of the service."""
        return super().date_time_string(self.server.service.now_ms() / 1000)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""
