"""AWS CLI commands in the pages exist: the service, the operation, and every option.

Nothing here can run them, so this is what keeps them from drifting; botocore has the services' own models.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import botocore.session
import pytest
from botocore import xform_name

from tests.docs.pages import ROOT, Page, all_pages

GLOBAL_OPTIONS = frozenset({"region", "query", "output", "profile", "endpoint-url", "no-cli-pager"})
PAGING_OPTIONS = frozenset({"max-items", "page-size", "starting-token"})
OF_THE_CLI_ITSELF = {  # no operations of a service, so no model has them
    ("cloudformation", "deploy"): frozenset(
        {"template-file", "stack-name", "parameter-overrides", "capabilities"}
    ),
    ("logs", "tail"): frozenset({"since", "follow", "filter-pattern", "format"}),
}

PAGES = [page for page in (*all_pages(), Page(ROOT / "infrastructure" / "README.md")) if "aws " in page.text]

_COMMAND = re.compile(r"\baws ([a-z0-9]+) ([a-z][a-z0-9-]+)((?:\\\n|[^\n|)])*)")
_OPTION = re.compile(r"(?<=\s)--([a-z][a-z0-9-]*)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_aws_command_of_a_page_exists_with_its_options(page: Page) -> None:
    wrong = [
        f"aws {service} {operation}: {', '.join(sorted(unknown))}"
        for service, operation, options in aws_commands(page)
        if (unknown := options - options_of(service, operation))
    ]

    assert wrong == []


def test_the_pages_have_such_commands() -> None:
    found = {command[:2] for page in PAGES for command in aws_commands(page)}

    assert ("dynamodb", "update-table") in found
    assert len(found) >= 10


def test_the_options_on_continued_lines_are_read() -> None:
    found = [command for page in PAGES for command in aws_commands(page)]

    assert any({"template-file", "stack-name", "parameter-overrides"} <= options for *_, options in found)


def test_a_command_that_does_not_exist_is_noticed() -> None:
    with pytest.raises(AssertionError, match="aws dynamodb has no update-tables"):
        options_of("dynamodb", "update-tables")
    assert "table" not in options_of("dynamodb", "update-table")


def aws_commands(page: Page) -> Iterator[tuple[str, str, frozenset[str]]]:
    """Service, operation and options of each command in the page's blocks."""
    for block in page.blocks():
        if block.language in ("sh", "console"):
            for service, operation, rest in _COMMAND.findall(block.text):
                yield service, operation, frozenset(_OPTION.findall(rest))


@cache
def options_of(service: str, operation: str) -> frozenset[str]:
    """What the AWS CLI takes for this operation: it makes its words from the service's model."""
    if (service, operation) in OF_THE_CLI_ITSELF:
        return OF_THE_CLI_ITSELF[service, operation] | GLOBAL_OPTIONS
    model = botocore.session.get_session().get_service_model(service)
    operations = {_word(name): name for name in model.operation_names}
    assert operation in operations, f"aws {service} has no {operation}"
    shape = model.operation_model(operations[operation]).input_shape
    members = [] if shape is None else [_word(name) for name in shape.members]
    switches = [f"no-{name}" for name in members]
    return GLOBAL_OPTIONS | PAGING_OPTIONS | {*members, *switches}


def _word(name: str) -> str:
    return xform_name(name, "-")
