"""Every AWS declaration, held against botocore's own model of the service."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from longwatch.executions.sources.aws import NO_RIGHT, NO_SUCH_ID, THROTTLING
from longwatch.executions.sources.declarations import AwsCall, Declaration, Items, normalize
from longwatch.executions.sources.expressions import parse_path
from longwatch.executions.sources.shipped import AWS
from longwatch.testing.services import service_model

DECLARATIONS = list(AWS.values())
CALLS = [
    call
    for each in DECLARATIONS
    for call in (each.call, each.items.call if each.items else None)
    if isinstance(call, AwsCall)
]
# Errors that need no word of ours: the service is at fault, and the poller backs off.
SERVER_FAULTS = {
    "ServerException",
    "InternalServiceException",
    "OperationTimeoutException",
    "KmsInvalidStateException",
}


def operation(call: AwsCall) -> Any:
    return service_model(call.service).operation_model(call.operation)


def at(shape: Any, path: str) -> Any:
    """The shape at a path, or an AssertionError that names the missing part."""
    for step in parse_path(path):
        if isinstance(step, int):
            assert shape.type_name == "list", f"{path}: {shape.name} is no list"
            shape = shape.member
        else:
            assert shape.type_name == "structure", f"{path}: {shape.name} has no members"
            assert step in shape.members, f"{path}: {shape.name} has no {step}"
            shape = shape.members[step]
    return shape


def thing(declaration: Declaration) -> Any:
    """The shape of the requested resource."""
    call = declaration.call
    assert isinstance(call, AwsCall)
    shape = at(operation(call).output_shape, call.results)
    return shape.member if call.key else shape


def item(declaration: Declaration, items: Items) -> Any:
    whole = operation(items.call).output_shape if items.call else thing(declaration)
    return at(whole, items.at).member


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
def test_the_operation_accepts_its_parameters(call: AwsCall) -> None:
    shape = operation(call).input_shape

    given = {*call.parameters, *([call.ids] if call.ids else [])}
    assert given <= set(shape.members)
    assert set(shape.required_members) <= given
    assert all(shape.members[name].type_name == "string" for name in call.parameters)
    assert call.ids is None or shape.members[call.ids].type_name == "list"
    assert (call.ids is None) == (call.key == ())


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
def test_the_permission_for_it_is_named_as_in_policies(call: AwsCall) -> None:
    assert call.name == f"{service_model(call.service).signing_name}:{call.operation}"


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
def test_the_pages_of_a_response_are_requested_where_there_are_any(call: AwsCall) -> None:
    model = operation(call)
    paged = {"NextToken", "nextToken"} & set(model.output_shape.members)

    if call.token is not None:
        assert call.token[0] in model.input_shape.members
        assert call.token[1] in model.output_shape.members
    else:
        assert not paged or call.parameters, "one page of many would be taken for all"


@pytest.mark.parametrize("declaration", DECLARATIONS, ids=lambda each: each.name)
def test_every_path_leads_to_a_value(declaration: Declaration) -> None:
    call = declaration.call
    assert isinstance(call, AwsCall)
    shape = thing(declaration)

    for path in _paths(declaration, call):
        assert at(shape, path).type_name in ("string", "timestamp", "long", "boolean"), path


@pytest.mark.parametrize("declaration", DECLARATIONS, ids=lambda each: each.name)
def test_every_status_of_the_service_is_translated_and_no_other(declaration: Declaration) -> None:
    assert declaration.status is not None

    words = at(thing(declaration), declaration.status).enum

    assert {normalize(word) for word in words} == set(declaration.statuses)


@pytest.mark.parametrize(
    "declaration", [each for each in DECLARATIONS if each.items], ids=lambda each: each.name
)
def test_every_status_of_a_step_is_translated_and_no_other(declaration: Declaration) -> None:
    items = declaration.items
    assert items is not None
    shape = item(declaration, items)

    words = at(shape, items.status).enum

    assert {normalize(word) for word in words} == set(items.statuses)
    assert at(shape, items.name).type_name == "string"
    assert items.reason is None or at(shape, items.reason).type_name == "string"
    assert items.left_out <= set(at(shape, items.name).enum)


@pytest.mark.parametrize(
    "declaration", [each for each in DECLARATIONS if each.operations], ids=lambda each: each.name
)
def test_every_status_belongs_to_one_operation(declaration: Declaration) -> None:
    statuses = [word for each in declaration.operations for word in each.statuses]

    assert sorted(statuses) == sorted(declaration.statuses)


def test_the_phases_in_which_a_build_waits_exist() -> None:
    build = AWS["codebuild"]

    phases = {normalize(word) for word in service_model("codebuild").shape_for("BuildPhaseType").enum}

    assert build.waiting <= phases


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
def test_every_error_of_the_model_is_understood_and_every_code_of_ours_exists(call: AwsCall) -> None:
    modelled = {_code(shape) for shape in operation(call).error_shapes}
    ours = {code for code, _ in call.unknown} | call.refused

    understood = ours | THROTTLING | NO_RIGHT | NO_SUCH_ID | SERVER_FAULTS
    assert modelled - understood == set()
    # DescribeStacks models no errors; its ValidationError is common to all services of the query protocol.
    assert ours - modelled <= NO_SUCH_ID


def _code(shape: Any) -> str:
    return str(shape.metadata.get("error", {}).get("code") or shape.name)


def _paths(declaration: Declaration, call: AwsCall) -> Iterator[str]:
    yield from call.key
    yield from declaration.reason
    yield from declaration.cancelled
    yield from (each.since for each in declaration.operations)
    singles = (
        declaration.status,
        declaration.stage,
        declaration.began,
        declaration.plan,
        declaration.own_id,
        declaration.since,
    )
    yield from (path for path in singles if path is not None)
