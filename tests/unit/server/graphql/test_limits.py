"""What an operation costs is known before anything is read."""

from __future__ import annotations

import pytest
from graphql import parse

from longwatch.server.graphql.limits import MAX_COST, MAX_DEPTH, Measured, find_operation, measure, too_much
from longwatch.server.graphql.schema import load_schema


def measured(text: str, **variables: object) -> Measured:
    document = parse(text)
    operation = find_operation(document, None)
    assert operation is not None
    return measure(load_schema()._schema, document, operation, variables)


@pytest.mark.parametrize(
    ("text", "depth", "cost"),
    [
        ("{ __typename }", 0, 0),
        ("{ __schema { types { fields { type { ofType { name } } } } } }", 0, 0),
        ('{ run(runId: "r") { runId status } }', 2, 12),
        ("{ runs(first: 10) { hint } }", 2, 20),
        ("{ runs { nodes { runId } } }", 3, 10 + 50 * 2),  # the default of `first`
        ("{ runs(first: 2) { nodes { calls(first: 3) { nodes { name } } } } }", 5, 10 + 2 * (1 + 10 + 3 * 2)),
        ('{ a: run(runId: "r") { runId } b: run(runId: "r") { runId } }', 2, 22),
        ('{ run(runId: "r") { ...F ... on Run { name } } } fragment F on Run { usage { cost } }', 3, 13),
        ("{ runs(first: -5) { hint } }", 2, 60),  # execution rejects it
        ("subscription { runs { run { calls(first: 5) { nodes { name } } } } }", 5, 10 + 1 + 10 + 5 * 2),
    ],
)
def test_a_field_costs_one_a_read_ten_and_a_page_its_size(text: str, depth: int, cost: int) -> None:
    assert measured(text) == Measured(depth, cost)


def test_the_size_of_a_page_may_be_a_variable_or_its_default() -> None:
    text = "query Q($n: Int = 7) { runs(first: $n) { hint } }"

    assert measured(text).cost == 10 + 7
    assert measured(text, n=3).cost == 10 + 3
    assert measured(text, n="many").cost == 10 + 50  # execution rejects it


def test_a_fragment_that_is_spread_in_many_places_is_measured_once() -> None:
    levels = 40
    fragments = "".join(f"fragment F{at} on Run {{ ...F{at + 1} ...F{at + 1} }} " for at in range(levels))

    found = measured(f'{{ run(runId: "r") {{ ...F0 }} }} {fragments} fragment F{levels} on Run {{ name }}')

    assert found.cost == 10 + 2**levels


@pytest.mark.parametrize(
    ("found", "codes"),
    [
        (Measured(MAX_DEPTH, MAX_COST), []),
        (Measured(MAX_DEPTH + 1, MAX_COST), ["too_deep"]),
        (Measured(MAX_DEPTH, MAX_COST + 1), ["too_expensive"]),
        (Measured(MAX_DEPTH + 1, MAX_COST + 1), ["too_deep", "too_expensive"]),
    ],
)
def test_beyond_a_limit_there_is_an_error_with_a_code(found: Measured, codes: list[str]) -> None:
    assert [(error.extensions or {})["code"] for error in too_much(found)] == codes


@pytest.mark.parametrize(
    ("text", "name", "is_found"),
    [
        ("{ a }", None, True),
        ("query A { a } query B { b }", "B", True),
        ("query A { a } query B { b }", None, False),
        ("query A { a }", "C", False),
    ],
)
def test_an_operation_is_found_by_its_name_or_if_it_is_the_only_one(
    text: str, name: str | None, is_found: bool
) -> None:
    assert (find_operation(parse(text), name) is not None) is is_found
