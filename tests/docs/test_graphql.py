"""The reference of GraphQL names every root field and every limit as it is."""

from __future__ import annotations

import re

from longwatch.server.graphql import executions, projects, runs
from longwatch.server.graphql.limits import MAX_COST, MAX_DEPTH, MAX_TOKENS
from longwatch.server.graphql.routes import MAX_QUERY
from longwatch.server.graphql.schema import load_schema
from longwatch.server.graphql.socket import MAX_MESSAGE, MAX_OPERATIONS
from tests.docs.pages import page

TEXT = page("reference/graphql.md").text


def named_in(section: str) -> set[str]:
    """The names in the first column of a section's table."""
    rows = re.findall(r"^\| (`[^|]+) \|", TEXT.partition(f"\n## {section}")[2].partition("\n## ")[0], re.M)
    return set(re.findall(r"`(\w+)`", " ".join(rows)))


def test_every_query_and_every_subscription_is_in_the_reference() -> None:
    schema = load_schema()._schema

    assert named_in("Queries") == set(schema.query_type.fields)
    assert named_in("Subscriptions") == set(schema.subscription_type.fields)


def test_the_limits_are_those_of_the_server() -> None:
    limits = TEXT.partition("## Limits")[2]
    numbers = [int(found.replace(",", "")) for found in re.findall(r"^\| [^|]+ \| ([\d,]+) \|", limits, re.M)]
    pages = {
        200: (
            *(runs.MAX_RUNS, executions.MAX_EXECUTIONS, projects.MAX_PROJECTS),
            *(projects.MAX_SESSIONS, projects.MAX_TURNS),
        ),
        1_000: (runs.MAX_EVENTS, runs.MAX_CALLS, projects.MAX_BLOCKS, projects.MAX_FILES),
    }

    assert numbers == [
        *(MAX_DEPTH, MAX_COST, MAX_TOKENS, MAX_QUERY, MAX_MESSAGE, MAX_OPERATIONS),
        *pages,
    ]
    assert all(set(sizes) == {most} for most, sizes in pages.items())


def test_every_kind_of_update_is_in_the_reference() -> None:
    kinds = load_schema()._schema.get_type("UpdateKind").values

    assert all(f"`{kind}`" in TEXT for kind in kinds)
