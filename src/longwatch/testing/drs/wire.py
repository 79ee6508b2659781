"""The wire protocol of an AWS service (rest-json), from botocore's own model of it.

Requests are checked against the model's input and answers against its output, so the simulator can neither
take what the service would refuse nor say what it could not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from longwatch.errors import MissingExtra

DENIED = "AccessDeniedException"


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP answer."""

    status: int
    body: bytes
    headers: Mapping[str, str]


class Refused(Exception):
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


def parsed(operation: str, body: bytes) -> dict[str, Any]:
    """The request's parameters. Raises `Refused` for what the service would not take."""
    from botocore.validate import ParamValidator

    try:
        said = json.loads(body or b"{}")
    except ValueError as error:
        raise Refused("ValidationException", f"the body is no JSON: {error}", code="400") from error
    shape = service_model().operation_model(operation).input_shape
    report = ParamValidator().validate(said, shape) if shape is not None else None
    if report is not None and report.has_errors():
        raise Refused("ValidationException", report.generate_report(), code="400")
    mistakes = mistakes_in(said, shape) if shape is not None else []
    if mistakes:
        raise Refused("ValidationException", "; ".join(mistakes), code="400")
    return dict(said)


def answered(operation: str, said: Mapping[str, Any]) -> Reply:
    """The answer on the wire. Raises AssertionError for what the service could never say."""
    model = service_model().operation_model(operation)
    mistakes = mistakes_in(said, model.output_shape)
    if mistakes:
        raise AssertionError(f"{operation} could not answer so: {'; '.join(mistakes)}")
    return Reply(int(model.http.get("responseCode", 200)), _json(said), {})


def refused(operation: str, error: Refused) -> Reply:
    """The error on the wire, as the model of the operation has it."""
    shapes = {shape.name: shape for shape in service_model().operation_model(operation).error_shapes}
    shapes[DENIED] = service_model().shape_for(DENIED)  # a common error, which no operation lists
    if error.shape not in shapes:
        raise AssertionError(f"{operation} never answers {error.shape}")
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
        return [f"{path or 'the answer'} is no structure"]
    found = [f"{path}.{name} is missing" for name in shape.required_members if name not in value]
    for name, each in value.items():
        if name not in shape.members:
            found.append(f"{path}.{name} is unknown")
        else:
            found += mistakes_in(each, shape.members[name], f"{path}.{name}")
    return found


def _text_mistakes(value: Any, shape: Any, path: str) -> list[str]:
    if not isinstance(value, str):
        return [f"{path} is no text"]
    if shape.enum and value not in shape.enum:
        return [f"{path} is {value!r}, not one of {', '.join(shape.enum)}"]
    pattern = shape.metadata.get("pattern")
    if pattern and not _matches(pattern, value):
        return [f"{path} is {value!r}, which {pattern} does not allow"]
    return []


def _matches(pattern: str, value: str) -> bool:
    try:
        return re.search(pattern, value) is not None
    except re.error:  # some models have patterns of another dialect, which nobody here can read
        return True


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value).encode()
