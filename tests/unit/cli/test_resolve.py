"""Which execution a name on the command line means."""

from __future__ import annotations

import pytest

from longwatch.cli.resolve import find_execution
from longwatch.errors import AmbiguousExecution, ExecutionNotFound, InvalidInput
from longwatch.executions.model import Execution
from longwatch.executions.stores.memory import MemoryExecutionStore


@pytest.fixture
def store() -> MemoryExecutionStore:
    store = MemoryExecutionStore()
    for at, name in enumerate(["drill-1", "drill-12", "recovery-7"]):
        store.add(Execution(execution_id=name, plan_id="plan", started_at=at * 1000))
    return store


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("drill-1", "drill-1"),  # though another one begins so
        ("drill-12", "drill-12"),
        ("rec", "recovery-7"),
        ("latest", "recovery-7"),
        ("-", "recovery-7"),
    ],
)
def test_an_execution_is_named_by_its_id_a_prefix_or_as_the_latest(
    store: MemoryExecutionStore, wanted: str, found: str
) -> None:
    assert find_execution(store, wanted).execution_id == found


def test_an_ambiguous_prefix_is_refused_with_the_matching_names(store: MemoryExecutionStore) -> None:
    with pytest.raises(InvalidInput, match="is ambiguous: plan/drill-12, plan/drill-1"):
        find_execution(store, "dri")


@pytest.mark.parametrize("wanted", ["", "nobody"])
def test_an_unknown_name_is_refused_with_where_to_find_one(store: MemoryExecutionStore, wanted: str) -> None:
    with pytest.raises(ExecutionNotFound, match="longwatch executions list"):
        find_execution(store, wanted)


def test_the_latest_of_no_executions_is_refused_with_how_to_add_one() -> None:
    with pytest.raises(ExecutionNotFound, match="longwatch executions add"):
        find_execution(MemoryExecutionStore(), "latest")


@pytest.mark.parametrize("wanted", ["shop/x-1", "shop/x", "sho"])
def test_a_plan_and_an_id_name_one_of_two_executions_with_the_same_id(wanted: str) -> None:
    store = in_two_plans()

    assert find_execution(store, wanted).plan_id == "shop"


def test_an_id_that_two_plans_have_is_refused_with_what_to_type() -> None:
    with pytest.raises(AmbiguousExecution, match=r"shop/x-1 or web%2Feu/x-1"):
        find_execution(in_two_plans(), "x-1")


def in_two_plans() -> MemoryExecutionStore:
    store = MemoryExecutionStore()
    for plan_id in ("shop", "web/eu"):
        store.add(Execution(execution_id="x-1", plan_id=plan_id, started_at=0))
    return store
