"""The executions API: what it lists and shows, how cheap repeated requests are, and its empty states."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import fields
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from longwatch.cli.demo.drill import new_drill, record_past_drills
from longwatch.clock import SYSTEM_CLOCK
from longwatch.errors import TableProblem
from longwatch.executions.model import Execution, JobState, Mode
from longwatch.executions.stores.memory import MemoryExecutionStore
from longwatch.executions.stores.sqlite import SqliteExecutionStore
from longwatch.executions.views import ExecutionDetails, ExecutionList
from longwatch.journal.memory import MemoryJournal
from longwatch.server.cache.execution_cache import ExecutionCache, ExecutionQuery, cursor_at
from longwatch.settings import Settings
from longwatch.testing.clock import FakeClock
from tests.browser.boards import Board
from tests.contract.tables import REGION
from tests.integration.server.execution_stories import (
    FAILED,
    GOING,
    LAUNCHED,
    PENDING,
    Watched,
    fresh,
    wave_job,
)
from tests.integration.server.stores import Served, Stores, dynamodb_stores, served


@pytest.fixture
def store(sqlite_stores: Stores) -> Iterator[SqliteExecutionStore]:
    assert sqlite_stores.file is not None
    store = SqliteExecutionStore(sqlite_stores.file)
    yield store
    store.close()


@pytest.fixture
async def server(sqlite_stores: Stores, store: SqliteExecutionStore) -> AsyncIterator[Served]:
    async with served(sqlite_stores, executions=store) as running:
        yield running


def ids(page: dict[str, list[dict[str, str]]]) -> list[str]:
    return [each["execution_id"] for each in page["executions"]]


async def test_an_execution_is_listed_with_the_progress_of_its_waves(
    server: Served, store: SqliteExecutionStore
) -> None:
    watched = Watched(store, server.context.journal, fresh("x-1", "databases", "front", name="east"))
    watched.receive(
        wave_job(0, LAUNCHED, FAILED, state=JobState.FINISHED), wave_job(1, GOING, PENDING, PENDING)
    )

    page = (await server.http.get("/api/executions")).json()

    (line,) = page["executions"]
    assert (line["name"], line["mode"], line["status"], line["phase"]) == (
        "east",
        "DRILL",
        "running",
        "in_progress",
    )
    assert (line["servers_ended"], line["servers"], line["closed"]) == (2, 5, False)
    assert line["progress"] == [
        {"name": "databases", "status": "partial", "servers": 2, "states": {"launched": 1, "failed": 1}},
        {"name": "front", "status": "running", "servers": 3, "states": {"in_progress": 1, "pending": 2}},
    ]
    assert (page["cursor"], page["hint"]) == (None, None)


async def test_an_execution_is_shown_with_servers_verdict_and_evidence(
    server: Served, store: SqliteExecutionStore
) -> None:
    watched = Watched(store, server.context.journal, fresh("x-1"))
    watched.receive(wave_job(0, LAUNCHED, FAILED, state=JobState.FINISHED))

    shown = (await server.http.get("/api/executions/x-1")).json()

    assert [each["state"] for each in shown["waves"][0]["servers"]] == ["launched", "failed"]
    assert shown["verdict"]["status"] == "partial"
    assert shown["verdict"]["evidence"][0]["call"] == "drs:DescribeJobs"
    assert shown["verdict"]["evidence"][0]["fields"]["jobs"]["job-0"]["servers"]["s-01"] == "LAUNCHED"
    assert shown["explained"][0]["about"] == "verdict"
    assert shown["run_id"] == "plan-east/x-1"
    assert (await server.http.get("/api/runs/plan-east%2Fx-1")).json()["kind"] == "execution"


async def test_filters_choose_by_status_mode_source_and_text(
    server: Served, store: SqliteExecutionStore
) -> None:
    journal = server.context.journal
    Watched(store, journal, fresh("x-drill", ago_ms=3000, name="East coast"))
    Watched(store, journal, fresh("x-recovery", ago_ms=2000, mode=Mode.RECOVERY))
    build = Watched(store, journal, fresh("x-build", ago_ms=1000, mode=Mode.JOB, source="codebuild"))
    build.receive(wave_job(0, LAUNCHED, state=JobState.FINISHED))

    found = {
        query: ids((await server.http.get(f"/api/executions?{query}")).json())
        for query in (
            "",
            "status=succeeded",
            "status=running",
            "mode=RECOVERY",
            "source=codebuild",
            "text=COAST",
        )
    }

    assert found == {
        "": ["x-build", "x-recovery", "x-drill"],
        "status=succeeded": ["x-build"],
        "status=running": ["x-recovery", "x-drill"],
        "mode=RECOVERY": ["x-recovery"],
        "source=codebuild": ["x-build"],
        "text=COAST": ["x-drill"],
    }


@pytest.mark.parametrize("query", ["", "&mode=DRILL"])
async def test_pages_join_without_a_gap_where_several_began_in_the_same_second(
    server: Served, store: SqliteExecutionStore, query: str
) -> None:
    for number in range(7):
        store.add(fresh(f"x-{number}", ago_ms=10_000 if number < 5 else 5_000))

    seen, cursor = [], ""
    while True:
        page = (await server.http.get(f"/api/executions?limit=2{query}&after={cursor}")).json()
        seen += ids(page)
        cursor = page["cursor"]
        if cursor is None:
            break

    assert seen == ["x-6", "x-5", "x-4", "x-3", "x-2", "x-1", "x-0"]


@pytest.mark.parametrize("path", ["/api/executions", "/api/executions/x-1"])
async def test_a_repeated_request_costs_no_body_until_something_has_happened(
    server: Served, store: SqliteExecutionStore, path: str
) -> None:
    watched = Watched(store, server.context.journal, fresh("x-1"))
    first = await server.http.get(path)
    headers = {"If-None-Match": first.headers["etag"]}

    same = await server.http.get(path, headers=headers)
    watched.change(lease_holder="poller-1", lease_until=watched.now.started_at + 1)
    other = await server.http.get(path, headers=headers)

    assert (first.status_code, same.status_code, other.status_code) == (200, 304, 200)
    assert same.content == b""
    assert other.headers["etag"] != first.headers["etag"]


async def test_two_servers_give_the_same_tags(sqlite_stores: Stores, store: SqliteExecutionStore) -> None:
    async with (
        served(sqlite_stores, executions=store) as one,
        served(sqlite_stores, executions=store) as two,
    ):
        Watched(store, one.context.journal, fresh("x-1")).receive(wave_job(0, LAUNCHED, GOING))

        tags = [
            (await each.http.get(path)).headers["etag"]
            for path in ("/api/executions", "/api/executions/x-1")
            for each in (one, two)
        ]

    assert tags[0] == tags[1]
    assert tags[2] == tags[3]


async def test_passing_time_is_not_a_change_and_becoming_overdue_is_one(
    sqlite_stores: Stores, store: SqliteExecutionStore
) -> None:
    clock = FakeClock(time.time_ns() // 1_000_000)
    async with served(sqlite_stores, executions=store, clock=clock) as server:
        store.add(fresh("x-1", ago_ms=0, deadline_ms=60_000))
        first = (await server.http.get("/api/executions/x-1")).headers["etag"]
        clock.advance(30)
        same = await server.http.get("/api/executions/x-1", headers={"If-None-Match": first})
        clock.advance(31)
        other = await server.http.get("/api/executions/x-1", headers={"If-None-Match": first})

    assert (same.status_code, other.status_code) == (304, 200)
    assert [each["name"] for each in other.json()["conditions"]] == ["overdue"]


async def test_an_id_may_hold_any_character(server: Served, store: SqliteExecutionStore) -> None:
    store.add(fresh("arn:aws/x 1?#ø"))

    response = await server.http.get("/api/executions/arn%3Aaws%2Fx%201%3F%23%C3%B8")

    assert response.json()["execution_id"] == "arn:aws/x 1?#ø"


@pytest.mark.parametrize(
    "address", ["x-1?plan=plan%2Fb", "plan%2Fb/x-1", "plan%252Fb%2Fx-1"], ids=["query", "path", "key"]
)
async def test_of_two_plans_with_one_id_the_plan_decides(
    server: Served, store: SqliteExecutionStore, address: str
) -> None:
    store.add(fresh("x-1", plan_id="plan-a", name="a"))
    store.add(fresh("x-1", plan_id="plan/b", name="b"))

    response = await server.http.get(f"/api/executions/{address}")

    assert response.json()["name"] == "b"


async def test_an_id_that_two_plans_have_is_a_conflict_that_names_the_plans(
    server: Served, store: SqliteExecutionStore
) -> None:
    store.add(fresh("x-1", plan_id="plan-a"))
    only = await server.http.get("/api/executions/x-1")
    store.add(fresh("x-1", plan_id="plan/b"))

    response = await server.http.get("/api/executions/x-1")

    assert only.json()["plan_id"] == "plan-a"
    assert response.status_code == 409
    error = response.json()["error"]
    assert error["code"] == "ambiguous_execution"
    assert [each["message"] for each in error["details"]] == ["plan-a", "plan/b"]
    assert "plan-a/x-1 or plan%2Fb/x-1" in error["message"]


async def test_a_failed_execution_is_not_shown_as_its_namesake_that_succeeded(
    server: Served, store: SqliteExecutionStore
) -> None:
    for plan_id, state in (("plan-a", LAUNCHED), ("plan-b", FAILED)):
        watched = Watched(store, server.context.journal, fresh("x-1", plan_id=plan_id))
        watched.receive(wave_job(0, state, state=JobState.FINISHED))

    found = {}
    for plan_id in ("plan-a", "plan-b"):
        shown = (await server.http.get(f"/api/executions/{plan_id}/x-1")).json()
        run = (await server.http.get(f"/api/runs/{plan_id}%2Fx-1")).json()
        found[plan_id] = (shown["status"], run["status"])

    assert found == {"plan-a": ("succeeded", "succeeded"), "plan-b": ("failed", "failed")}


async def test_a_missing_execution_or_an_invalid_cursor_is_an_error_with_a_message(server: Served) -> None:
    missing = await server.http.get("/api/executions/x-none")
    half = cursor_at((1, "\ud800", "p"))  # half a character, which JSON can name
    cursors = [
        await server.http.get(f"/api/executions?after={each}")
        for each in ("x", "W10", "%C3%B8", "bnVsbA", half)
    ]

    assert missing.status_code == 404
    assert missing.json()["error"]["code"] == "execution_not_found"
    assert "GET /api/executions" in missing.json()["error"]["message"]
    assert {each.status_code for each in cursors} == {400}
    assert {each.json()["error"]["code"] for each in cursors} == {"invalid_cursor"}


async def test_an_empty_journal_shows_how_to_add_an_execution(server: Served) -> None:
    page = (await server.http.get("/api/executions")).json()

    assert page["executions"] == []
    assert "longwatch executions add" in page["hint"]
    assert (await server.http.get("/api/executions?status=failed")).json()["hint"] is None


class NoTable(MemoryExecutionStore):
    """A store in an account without the table."""

    def find(self, **_: object) -> list[Execution]:
        raise TableProblem("not-found", "There is no table 'longwatch-executions'. Deploy it.")

    def get(self, execution_id: str, plan_id: str | None = None) -> Execution | None:
        raise TableProblem("not-found", "There is no table 'longwatch-executions'. Deploy it.")


async def test_an_invalid_record_is_an_error_with_a_message(
    server: Served, store: SqliteExecutionStore, sqlite_stores: Stores
) -> None:
    store.add(fresh("x-1"))
    connection = sqlite3.connect(sqlite_stores.file or "")
    with connection:
        connection.execute("UPDATE executions SET record = json_set(record, '$.Deadline', 'soon')")
    connection.close()

    response = await server.http.get("/api/executions/x-1")

    assert response.status_code == 503
    assert response.json()["error"]["code"] == "journal_unusable"
    assert "is invalid" in response.json()["error"]["message"]


async def test_an_account_without_the_table_is_an_empty_list_with_what_to_deploy(
    sqlite_stores: Stores,
) -> None:
    async with served(sqlite_stores, executions=NoTable()) as server:
        listed = await server.http.get("/api/executions")
        shown = await server.http.get("/api/executions/x-1")

    assert (listed.status_code, shown.status_code) == (200, 404)
    assert listed.json()["hint"] == "There is no table 'longwatch-executions'. Deploy it."


async def test_estimates_from_the_history_are_returned_for_open_executions_only(
    server: Served, store: SqliteExecutionStore
) -> None:
    record_past_drills(store, server.context.journal, SYSTEM_CLOCK)
    # In the future: it has been in its phase for no time, however slow the machine is.
    store.add(new_drill("drill-now", SYSTEM_CLOCK.now_ms() + 600_000))

    listed = (await server.http.get("/api/executions")).json()["executions"]
    shown = (await server.http.get("/api/executions/drill-now")).json()

    assert [line["execution_id"] for line in listed if line["eta"]] == ["drill-now"]
    assert shown["eta"]["samples"] == 10
    assert shown["eta"]["earliest_at"] <= shown["eta"]["expected_at"] <= shown["eta"]["latest_at"]
    assert 5_000 < shown["eta"]["usual_low_ms"] <= shown["eta"]["usual_high_ms"] < 9_000


async def test_every_kind_of_execution_conforms_to_the_schema(tmp_path: Path) -> None:
    board = Board(tmp_path / "server.db")
    board.everything()
    board.close()
    settings = Settings(journal=f"sqlite:///{tmp_path / 'server.db'}")

    async with served(Stores(file=tmp_path / "server.db"), settings=settings) as server:
        page = (await server.http.get("/api/executions")).json()
        all_shown = [(await server.http.get(f"/api/executions/{each}")).json() for each in ids(page)]

    TypeAdapter(ExecutionList).validate_python(page)
    details = TypeAdapter(ExecutionDetails)
    for shown in all_shown:
        assert shown.keys() == {field.name for field in fields(ExecutionDetails)}
        assert details.dump_python(details.validate_python(shown)) == shown
    assert {shown["status"] for shown in all_shown} == {"running", "partial", "succeeded"}


@pytest.mark.needs_java
async def test_a_server_over_tables_reads_the_one_of_executions_or_names_what_is_missing(
    dynamodb_local_url: str,
) -> None:
    with dynamodb_stores(dynamodb_local_url) as stores:
        journal = f"dynamodb://{stores.table}?region={REGION}&endpoint={dynamodb_local_url}"
        async with served(stores, settings=Settings(journal=journal)) as server:
            page = (await server.http.get("/api/executions")).json()
            feed = (await server.http.get("/api/feed?topic=executions")).json()

    assert page["executions"] == []
    assert "Table 'longwatch-executions' for executions was not found" in page["hint"]
    assert [message["event"] for message in feed["messages"]] == ["caught_up"]


async def test_executions_are_read_from_the_store_of_the_settings(tmp_path: Path) -> None:
    stores = Stores(file=tmp_path / "server.db")
    store = SqliteExecutionStore(tmp_path / "server.db")
    store.add(fresh("x-1"))
    store.close()

    async with served(stores, settings=Settings(journal=f"sqlite:///{tmp_path / 'server.db'}")) as server:
        page = (await server.http.get("/api/executions")).json()

    assert ids(page) == ["x-1"]


async def test_nothing_can_be_written(server: Served) -> None:
    responses = [
        await server.http.request(method, path, json={})
        for method in ("POST", "PUT", "PATCH", "DELETE")
        for path in ("/api/executions", "/api/executions/x-1")
    ]

    assert {each.status_code for each in responses} == {405}


def test_a_read_is_not_repeated_until_something_is_written() -> None:
    reads = []

    class Counting(MemoryExecutionStore):
        def find(self, **filters: object) -> list[Execution]:
            reads.append(filters)
            return list(super().find(**filters))  # type: ignore[arg-type]

    store = Counting()
    executions = ExecutionCache(lambda: store, MemoryJournal(), SYSTEM_CLOCK)
    first = executions.find(ExecutionQuery(), limit=5)

    same = executions.find(ExecutionQuery(), limit=5)
    store.add(fresh("x-1"))
    other = executions.find(ExecutionQuery(), limit=5)

    assert same is first
    assert [each.execution_id for each in other.executions] == ["x-1"]
    assert len(reads) == 2


def test_a_search_that_finds_little_resumes_where_it_stopped() -> None:
    store = MemoryExecutionStore()
    for number in range(30):
        store.add(fresh(f"x-{number:02}", ago_ms=100_000 - number * 1000, mode=Mode.JOB))
    executions = ExecutionCache(lambda: store, MemoryJournal(), SYSTEM_CLOCK)

    page = executions.find(ExecutionQuery(text="x-00"), limit=5)

    assert [each.execution_id for each in page.executions] == ["x-00"]
    assert page.cursor is None
    assert cursor_at((1, "ø", "p")).isascii()
