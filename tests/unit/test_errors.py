"""The tree of errors is the one that is drawn, and each of them comes whole out of another process."""

from __future__ import annotations

import pickle
import re

import pytest

from longwatch import errors
from longwatch.errors import (
    EventConflict,
    InvalidLine,
    InvalidSettings,
    LongwatchError,
    MissingExtra,
    NotWorthAnotherTry,
    TableProblem,
    TurnEnded,
    WorthAnotherTry,
)


def drawn_tree() -> dict[str, str | None]:
    """Class name -> name of the class it hangs from, as the module's docstring draws it."""
    assert errors.__doc__ is not None
    parents: dict[str, str | None] = {}
    path: list[str] = []
    for line in errors.__doc__.splitlines():
        drawn = re.match(r"((?:│   |    )*(?:[├└]── )?)([A-Z]\w+)(?:   *\S.*)?$", line)
        if drawn:
            level = len(drawn[1]) // 4
            parents[drawn[2]] = path[level - 1] if level else None
            path[level:] = [drawn[2]]
    return parents


def tree_of_classes() -> dict[str, str | None]:
    return {
        name: None if value is LongwatchError else value.__base__.__name__
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, LongwatchError) and value.__base__ is not None
    }


def test_the_drawing_shows_every_error_below_its_parent() -> None:
    assert drawn_tree() == tree_of_classes()


def test_every_error_states_whether_a_retry_may_help() -> None:
    undecided = {"LongwatchError", "WorthAnotherTry", "NotWorthAnotherTry"}

    for name in tree_of_classes().keys() - undecided:
        kind = getattr(errors, name)
        assert issubclass(kind, WorthAnotherTry) != issubclass(kind, NotWorthAnotherTry), name


def test_every_error_has_a_message() -> None:
    for name in tree_of_classes():
        assert getattr(errors, name).__doc__, name


@pytest.mark.parametrize(
    "error",
    [
        EventConflict(["a", "b"]),
        InvalidSettings(["one mistake", "another"]),
        MissingExtra("DynamoDB", "aws"),
        TableProblem("not_found", "Table 'x' was not found."),
        InvalidLine(3, "is not JSON", 2, 1),
        TurnEnded("turn-1", "completed", 2, 1),
        LongwatchError("plain"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_comes_whole_out_of_another_process(error: LongwatchError) -> None:
    again = pickle.loads(pickle.dumps(error))

    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)


def test_a_conflict_of_many_events_names_the_first_few() -> None:
    error = EventConflict([f"e{number}" for number in range(100)])

    assert str(error).startswith("Event ID e0, e1, e2, e3, e4, … is already in use")
    assert len(error.event_ids) == 100


def test_all_mistakes_in_the_settings_are_reported_each_on_a_line() -> None:
    error = InvalidSettings(["journal must be text", "region must be text"])

    assert str(error) == "journal must be text\nregion must be text"
    assert error.mistakes == ("journal must be text", "region must be text")


def test_a_missing_extra_names_its_install_line() -> None:
    assert str(MissingExtra("DynamoDB", "aws")).endswith("pip install '.[aws]'")


def test_a_table_problem_has_a_code_for_programs_and_a_message_for_people() -> None:
    error = TableProblem("not_found", "Table 'x' was not found.")

    assert (error.kind, str(error)) == ("not_found", "Table 'x' was not found.")
