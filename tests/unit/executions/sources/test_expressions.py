from __future__ import annotations

import pytest

from longwatch.errors import InvalidInput
from longwatch.executions.sources.expressions import parse_path, value_at

RESPONSE = {"job": {"steps": [{"name": "a"}, {"name": "b"}], "a.b": 1, "done": False, "none": None}}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("", RESPONSE),
        ("job.steps[0].name", "a"),
        ("job.steps[-1].name", "b"),
        ('job."a.b"', 1),
        ("job.done", False),
        ("job.none", None),
        ("job.steps[2].name", None),
        ("job.missing.name", None),
        ("job.steps.name", None),
        ("job[0]", None),
        ("job.done.name", None),
    ],
)
def test_a_path_leads_to_a_value_or_to_nothing(path: str, value: object) -> None:
    assert value_at(RESPONSE, path) == value


def test_the_first_item_of_a_response_that_is_a_list_has_no_name_before_it() -> None:
    assert value_at([{"state": "done"}], "[0].state") == "done"


@pytest.mark.parametrize("path", ["a..b", ".a", "a[", "a[x]", "a]", 'a."', "a.[0]", "a[0]b"])
def test_an_invalid_path_is_refused_with_the_part_that_is_not_understood(path: str) -> None:
    with pytest.raises(InvalidInput, match="Invalid path"):
        parse_path(path)
