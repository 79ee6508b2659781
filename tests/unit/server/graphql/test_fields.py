"""Pages, arguments and errors of GraphQL."""

from __future__ import annotations

import logging

import pytest
from graphql import GraphQLError

from longwatch.errors import InvalidInput, RunNotFound
from longwatch.server.errors import ApiError
from longwatch.server.graphql.fields import INTERNAL, checked, checked_first, connection, error_of, slice_of
from longwatch.server.graphql.routes import RESPONSE_TYPE, choose_type
from longwatch.server.graphql.socket import is_message, token_of
from longwatch.server.responses import JSON_TYPE

LETTERS = ["a", "b", "c"]


@pytest.mark.parametrize(
    ("after", "first", "nodes", "end", "more"),
    [
        (None, 2, ["a", "b"], "b", True),
        ("b", 2, ["c"], "c", False),
        ("c", 2, [], "c", False),
        ("", 3, ["a", "b", "c"], "c", False),
    ],
)
def test_a_page_begins_after_its_cursor(
    after: str | None, first: int, nodes: list[str], end: str, more: bool
) -> None:
    page = slice_of(LETTERS, LETTERS, after, first)

    assert page["nodes"] == nodes
    assert page["page_info"] == {"has_next_page": more, "end_cursor": end}
    assert [edge["cursor"] for edge in page["edges"]] == nodes


def test_an_unknown_cursor_is_an_error_instead_of_another_page() -> None:
    with pytest.raises(InvalidInput, match="Unknown cursor 'x'"):
        slice_of(LETTERS, LETTERS, "x", 2)


def test_a_page_of_the_journal_has_one_cursor_at_its_end() -> None:
    assert [edge["cursor"] for edge in connection(["a", "b"], "42", more=True)["edges"]] == [None, "42"]
    assert connection([], "42", more=False)["edges"] == []


@pytest.mark.parametrize("first", [0, -1, 201])
def test_a_page_has_a_size_within_the_limits(first: int) -> None:
    with pytest.raises(InvalidInput, match=f"Invalid first: {first}. Use 1 to 200."):
        checked_first(first, 200)


def test_a_text_is_short_and_valid_unicode() -> None:
    assert checked(None, "text") == ""
    for text in ("x" * 5, "\ud800"):
        with pytest.raises(InvalidInput, match="Invalid text"):
            checked(text, "text", most=4)


def test_an_error_of_ours_has_its_code_and_any_other_is_hidden_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    own = GraphQLError("own")

    assert error_of(own) is own
    assert error_of(RunNotFound("gone")).extensions == {"code": "run_not_found", "status": 404}
    assert error_of(ApiError(422, "bad", "why", details=[("a", "b")])).extensions == {
        "code": "bad",
        "status": 422,
        "details": [{"field": "a", "message": "b"}],
    }
    with caplog.at_level(logging.ERROR, "longwatch.server"):
        hidden = error_of(KeyError("/etc/secret"))
    assert (hidden.message, (hidden.extensions or {})["code"]) == (INTERNAL, "internal_error")
    assert "/etc/secret" in caplog.text


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        ("", JSON_TYPE),
        ("*/*", JSON_TYPE),
        ("application/json;q=0.9", JSON_TYPE),
        ("application/graphql-response+json, application/json;q=0.9", RESPONSE_TYPE),
    ],
)
def test_a_client_that_names_the_type_of_graphql_gets_it(accept: str, chosen: str) -> None:
    assert choose_type(accept) == chosen


def test_a_client_that_accepts_neither_type_gets_an_error() -> None:
    with pytest.raises(ApiError) as raised:
        choose_type("text/html")

    assert raised.value.status == 406


@pytest.mark.parametrize(
    ("payload", "token"),
    [
        ({}, None),
        ({"token": 7}, None),
        ({"token": "secret"}, b"secret"),
        ({"Authorization": "Bearer secret"}, b"secret"),
        ({"authorization": "bearer  secret"}, b"secret"),
        ({"Authorization": "Basic secret"}, b""),
    ],
)
def test_the_payload_of_a_connection_may_have_the_token(
    payload: dict[str, object], token: bytes | None
) -> None:
    assert token_of(payload) == token


SUBSCRIBE = {"type": "subscribe", "id": "1", "payload": {"query": "{ a }"}}


@pytest.mark.parametrize(
    ("message", "is_valid"),
    [
        ({"type": "ping"}, True),
        ({"type": "complete", "id": "1"}, True),
        (SUBSCRIBE, True),
        ([], False),
        ("ping", False),
        ({"type": 1}, False),
        ({"type": "complete", "id": []}, False),
        ({**SUBSCRIBE, "id": {}}, False),
        ({**SUBSCRIBE, "payload": []}, False),
        ({**SUBSCRIBE, "payload": {"query": 1}}, False),
        ({**SUBSCRIBE, "payload": {"query": ""}}, False),
        ({**SUBSCRIBE, "payload": {"query": "{ a }", "variables": []}}, False),
        ({**SUBSCRIBE, "payload": {"query": "{ a }", "operationName": 1}}, False),
    ],
)
def test_a_message_of_another_shape_is_invalid(message: object, is_valid: bool) -> None:
    assert is_message(message) is is_valid
