"""GraphQL returns what the other routes return, within its limits, to those who may read it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import hypothesis_graphql
import pytest
from graphql import get_introspection_query
from hypothesis import HealthCheck, given, settings

from longwatch.executions.model import JobState
from longwatch.executions.stores.sqlite import SqliteExecutionStore
from longwatch.server.access.tokens import Access, Tokens
from longwatch.server.graphql.limits import MAX_COST, MAX_TOKENS
from longwatch.server.graphql.routes import RESPONSE_TYPE
from longwatch.server.graphql.schema import load_schema
from longwatch.testing.clock import FakeClock
from tests.integration.server.execution_stories import FAILED, GOING, LAUNCHED, Watched, fresh, wave_job
from tests.integration.server.graphql_client import as_view, codes, everything, query
from tests.integration.server.stores import LINES, TEXT, Served, Stores, assistant, new_turn, served

TOKENS = Tokens("write-token-0123456789", "read-token-0123456789")
AT = 1_767_693_600_000
EVENTS = [
    {"type": "workflow_start", "occurred_at": AT, "payload": {"name": "brief", "tags": ["nightly"]}},
    {"type": "agent_start", "occurred_at": AT + 1, "agent_name": "reader", "call_id": "c-1", "payload": {}},
    {
        "type": "tool_call",
        "occurred_at": AT + 2,
        "call_id": "c-2",
        "parent_call_id": "c-1",
        "payload": {"operation": "search", "status": "started", "input": {"query": "tides"}},
    },
    {
        "type": "tool_call",
        "occurred_at": AT + 5,
        "call_id": "c-2",
        "payload": {"operation": "search", "status": "failed", "error_message": "Timeout: 3 s"},
    },
    {"type": "workflow_error", "occurred_at": AT + 9, "payload": {"error_message": "Timeout: 3 s"}},
]
RUN = everything("Run", without=frozenset({"eventCount"}))


@pytest.fixture
def executions(sqlite_stores: Stores) -> Iterator[SqliteExecutionStore]:
    assert sqlite_stores.file is not None
    store = SqliteExecutionStore(sqlite_stores.file)
    yield store
    store.close()


@pytest.fixture
async def filled(sqlite_stores: Stores, executions: SqliteExecutionStore) -> AsyncIterator[Served]:
    """A server with two runs, a session with a turn, a file and an execution."""
    clock = FakeClock(AT + 60_000)  # the ages in two responses are the same
    async with served(sqlite_stores, executions=executions, clock=clock) as server:
        await record(server, "wf-1", EVENTS)
        await record(server, "wf-2", EVENTS[:2])
        turn = await new_turn(server.http, "write a poem")
        await server.http.post(f"{turn}/lines", content=assistant("Roses", "Violets"), headers=LINES)
        await server.http.put("/api/projects/p1/content/docs/a.md", content="hello", headers=TEXT)
        watched = Watched(executions, server.context.journal, fresh("x-1", "one", "two", name="east"))
        watched.receive(wave_job(0, LAUNCHED, FAILED, state=JobState.FINISHED), wave_job(1, GOING))
        yield server


async def record(server: Served, run_id: str, events: list[dict[str, Any]]) -> None:
    named = [{**event, "event_id": f"{run_id}-{at}"} for at, event in enumerate(events)]
    (await server.http.post(f"/api/runs/{run_id}/events", json={"events": named})).raise_for_status()


async def get(server: Served, path: str) -> Any:
    response = await server.http.get(path)
    response.raise_for_status()
    return response.json()


async def test_a_list_of_runs_has_the_same_fields_and_pages(filled: Served) -> None:
    page = everything("RunConnection", without=frozenset({"nodes", "edges", "pageInfo"}))[1:-1]
    line = everything("Run", without=frozenset({"eventCount", "counts", "producers", "usageByAgent"}))
    text = f"query Q($q: String) {{ runs(query: $q, first: 50) {{ nodes {line} {page} }} }}"

    for q in ("", "status:failed", "name:brief"):
        found = as_view((await query(filled.http, text, q=q))["runs"])
        listed = await get(filled, f"/api/runs?q={q}")

        for run in listed["runs"]:
            del run["events"]
        assert found["nodes"] == listed["runs"]
        assert {name: found[name] for name in ("hint", "usage", "failures")} == {
            name: listed[name] for name in ("hint", "usage", "failures")
        }


async def test_one_run_has_the_same_details_calls_and_events(filled: Served) -> None:
    text = f"""query Q($id: String!) {{ run(runId: $id) {{ ...R eventCount
        calls {{ nodes {everything("Call")} pageInfo {{ hasNextPage }} }}
        events {{ nodes {everything("Event")} pageInfo {{ endCursor hasNextPage }} }} }} }}
        fragment R on Run {RUN}"""

    for run_id in ("wf-1", "wf-2"):
        found = as_view((await query(filled.http, text, id=run_id))["run"])
        shown = await get(filled, f"/api/runs/{run_id}")
        read = await get(filled, f"/api/runs/{run_id}/events")

        calls, events = found.pop("calls"), found.pop("events")
        assert found.pop("event_count") == shown.pop("events")
        assert [without_nulls(call) for call in calls["nodes"]] == list(
            map(without_nulls, shown.pop("calls"))
        )
        for name in ("producers", "usage_by_agent"):
            found[name] = found[name] or {}  # a map without entries is an empty list
        assert found == {name: shown[name] for name in found}
        assert shown.keys() - found.keys() == {"attempt"}
        assert [without_nulls(event) for event in events["nodes"]] == read["events"]
        assert events["page_info"] == {"end_cursor": read["cursor"], "has_next_page": False}


def without_nulls(value: dict[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in value.items() if each is not None}


async def test_events_and_runs_are_read_in_pages_without_a_gap(filled: Served) -> None:
    text = """query Q($after: String) { run(runId: "wf-1") { events(first: 2, after: $after) {
        edges { cursor node { eventId } } pageInfo { endCursor hasNextPage } } } }"""
    seen: list[str] = []
    after, more = None, True

    while more:
        page = (await query(filled.http, text, after=after))["run"]["events"]
        seen += [edge["node"]["eventId"] for edge in page["edges"]]
        after, more = page["pageInfo"]["endCursor"], page["pageInfo"]["hasNextPage"]
        assert page["edges"][-1]["cursor"] == after

    assert seen == [f"wf-1-{at}" for at in range(len(EVENTS))]
    runs = """query Q($after: String) { runs(kind: "workflow", first: 1, after: $after) {
        nodes { runId } pageInfo { endCursor hasNextPage } } }"""
    first = (await query(filled.http, runs))["runs"]
    second = (await query(filled.http, runs, after=first["pageInfo"]["endCursor"]))["runs"]
    assert first["pageInfo"]["hasNextPage"]
    assert {each["nodes"][0]["runId"] for each in (first, second)} == {"wf-1", "wf-2"}


async def test_calls_are_selected_by_kind_and_status(filled: Served) -> None:
    text = """{ run(runId: "wf-1") { failed: calls(status: "failed") { nodes { callId } }
        agents: calls(kind: "agent") { nodes { name } } } }"""

    found = (await query(filled.http, text))["run"]

    assert found == {"failed": {"nodes": [{"callId": "c-2"}]}, "agents": {"nodes": [{"name": "reader"}]}}


async def test_projects_sessions_turns_blocks_and_files_are_those_of_the_routes(filled: Served) -> None:
    session_fields = everything("Session")[1:-1]
    blocks_fields = f"{{ nodes {everything('Block')} pageInfo {{ endCursor }} }}"
    text = f"""{{ projects(first: 2) {{ nodes {{ id name createdAt
        sessions(first: 2) {{ nodes {{ {session_fields}
          turns(first: 2) {{ nodes {{ ...T blocks(first: 9) {blocks_fields} }} }} }} }}
        files {{ nodes {everything("File")} }} }} }} }} fragment T on Turn {everything("Turn")}"""

    (project,) = as_view((await query(filled.http, text))["projects"]["nodes"])

    (session,), files = project.pop("sessions")["nodes"], project.pop("files")["nodes"]
    (turn,) = session.pop("turns")["nodes"]
    blocks = turn.pop("blocks")
    shown = await get(filled, f"/api/projects/p1/sessions/s1/turns/{turn['id']}")
    assert project == await get(filled, "/api/projects/p1")
    assert session == await get(filled, "/api/projects/p1/sessions/s1")
    assert files == (await get(filled, "/api/projects/p1/files"))["files"]
    assert blocks == {"nodes": shown.pop("blocks"), "page_info": {"end_cursor": shown.pop("blocks_cursor")}}
    assert {name: turn[name] for name in shown} == shown
    assert {name: turn[name] for name in turn.keys() - shown.keys()} == {
        "missing_lines": [],
        "usage": None,
        "waiting": [],
        "streaming": None,
    }
    single = f"""query Q($id: String!) {{ turn(projectId: "p1", sessionId: "s1", id: $id) {everything("Turn")}
        session(projectId: "p1", id: "s1") {{ id }} project(id: "p1") {{ id }} }}"""
    assert as_view((await query(filled.http, single, id=turn["id"]))["turn"]) == turn


async def test_blocks_are_read_in_pages_and_a_cursor_of_moved_blocks_is_an_error(filled: Served) -> None:
    text = """query Q($after: String) { session(projectId: "p1", id: "s1") { turns { nodes {
        blocks(first: 1, after: $after) { nodes { sequence } pageInfo { endCursor hasNextPage } } } } } }"""

    def blocks(data: Any) -> Any:
        return data["session"]["turns"]["nodes"][0]["blocks"]

    first = blocks(await query(filled.http, text))
    second = blocks(await query(filled.http, text, after=first["pageInfo"]["endCursor"]))

    assert [page["nodes"][0]["sequence"] for page in (first, second)] == [0, 1]
    assert [page["pageInfo"]["hasNextPage"] for page in (first, second)] == [True, False]
    for cursor in (f"1-{'0' * 16}", "x", "9" * 30):
        assert await codes(filled.http, text, after=cursor) == ["invalid_cursor"]


async def test_executions_are_those_of_the_routes(filled: Served) -> None:
    text = f"""{{ executions {{ nodes {everything("ExecutionLine", without=frozenset({"run"}))} hint }}
        execution(executionId: "x-1") {{ ...E run {{ runId status }} }} }}
        fragment E on Execution {everything("Execution", without=frozenset({"run"}))}"""

    data = as_view(await query(filled.http, text))

    listed = await get(filled, "/api/executions")
    one = data["execution"]
    assert data["executions"] == {"nodes": listed["executions"], "hint": None}
    assert one.pop("run") == {"run_id": "plan-east/x-1", "status": "running"}
    assert one == await get(filled, "/api/executions/x-1")


async def test_what_does_not_exist_is_null_with_the_code_of_the_routes(filled: Served) -> None:
    for text, code in {
        '{ run(runId: "none") { runId } }': "run_not_found",
        '{ run(runId: "wf-1", attempt: 9) { runId } }': "invalid_input",
        '{ execution(executionId: "none") { runId } }': "execution_not_found",
        '{ project(id: "none") { id } }': "project_not_found",
        '{ session(projectId: "p1", id: "none") { id } }': "session_not_found",
        '{ turn(projectId: "p1", sessionId: "s1", id: "turn-none") { id } }': "turn_not_found",
    }.items():
        response = await filled.http.post("/graphql", json={"query": text})

        assert list(response.json()["data"].values()) == [None]
        assert [error["extensions"]["code"] for error in response.json()["errors"]] == [code]


@pytest.mark.parametrize(
    "text",
    [
        "{ runs(first: 0) { hint } }",
        "{ runs(first: 201) { hint } }",
        '{ runs(query: "nope:x") { hint } }',
        '{ runs(after: "\\u0000") { hint } }',
        '{ run(runId: "") { runId } }',
        '{ executions(after: "!") { hint } }',
        '{ projects(after: "none") { nodes { id } } }',
        '{ run(runId: "wf-1") { events(first: 1001) { nodes { type } } } }',
        '{ run(runId: "wf-1") { events(after: "x") { nodes { type } } } }',
    ],
)
async def test_an_invalid_argument_is_an_error_of_the_client(filled: Served, text: str) -> None:
    response = await filled.http.post("/graphql", json={"query": text})

    (error,) = response.json()["errors"]
    assert 400 <= error["extensions"]["status"] < 500


async def test_lone_surrogates_and_long_texts_are_errors_of_the_client(filled: Served) -> None:
    text = "query Q($id: String!) { run(runId: $id) { runId } }"

    for value in ("\ud800", "x" * 5_000, "é" * 1_500):
        body = json.dumps({"query": text, "variables": {"id": value}})
        response = await filled.http.post(
            "/graphql", content=body, headers={"content-type": "application/json"}
        )
        (error,) = response.json()["errors"]
        assert 400 <= error["extensions"]["status"] < 500, value[:3]


async def test_the_limits_of_depth_cost_and_tokens_name_their_numbers(filled: Served) -> None:
    expensive = "{ runs(first: 200) { nodes { calls(first: 1000) { nodes { name } } } } }"
    deep = "{a" * 900 + "}" * 900
    tokens = "{" + " ".join(f"a{at}: runs {{ hint }}" for at in range(MAX_TOKENS)) + "}"

    response = await filled.http.post("/graphql", json={"query": expensive})
    assert response.json()["errors"][0]["extensions"]["maximum"] == MAX_COST
    assert "data" not in response.json()
    for text, part in {deep: "nested too deeply", tokens: f"more than {MAX_TOKENS} tokens"}.items():
        errors = (await filled.http.post("/graphql", json={"query": text})).json()["errors"]
        assert part in errors[0]["message"]


async def test_a_get_is_a_query_with_an_etag(filled: Served) -> None:
    text = 'query A { runs(kind: "workflow") { nodes { runId } } } query B { __typename }'
    address = {"query": text, "operationName": "A"}

    first = await filled.http.get("/graphql", params=address)
    again = await filled.http.get(
        "/graphql", params=address, headers={"If-None-Match": first.headers["etag"]}
    )
    variables = {
        "query": "query Q($n: Int!) { runs(first: $n) { nodes { runId } } }",
        "variables": '{"n": 1}',
    }

    assert (first.status_code, again.status_code) == (200, 304)
    assert len(first.json()["data"]["runs"]["nodes"]) == 2
    assert len((await filled.http.get("/graphql", params=variables)).json()["data"]["runs"]["nodes"]) == 1


async def test_the_media_type_decides_on_the_status_of_an_invalid_query(filled: Served) -> None:
    for text in ("{ nope }", "{", "{ runs(first: 200) { nodes { calls(first: 1000) { nodes { name } } } } }"):
        for accept, status in {RESPONSE_TYPE: 400, "application/json": 200}.items():
            response = await filled.http.post("/graphql", json={"query": text}, headers={"Accept": accept})
            assert (response.status_code, response.headers["content-type"]) == (status, accept)
            assert response.json().keys() == {"errors"}
    partial = await filled.http.post(
        "/graphql", json={"query": '{ run(runId: "none") { runId } }'}, headers={"Accept": RESPONSE_TYPE}
    )
    assert (partial.status_code, partial.json()["data"]) == (200, {"run": None})


@pytest.mark.parametrize(
    ("method", "options", "status", "code"),
    [
        ("GET", {}, 400, "no_query"),
        ("GET", {"params": {"query": "{ a }", "variables": "["}}, 400, "not_json"),
        ("GET", {"params": {"query": "{ a }", "variables": "[]"}}, 400, "not_json"),
        (
            "GET",
            {"params": {"query": "query A { __typename }", "operationName": "B"}},
            400,
            "unknown_operation",
        ),
        ("POST", {"json": {"query": "subscription { runs { kind } }"}}, 400, "subscription_over_http"),
        ("POST", {"content": "{"}, 400, "not_json"),
        ("POST", {"json": {}}, 422, "invalid_request"),
        ("POST", {"json": {"query": ""}}, 422, "invalid_request"),
        ("POST", {"json": [{"query": "{ a }"}]}, 422, "invalid_request"),
        ("POST", {"json": {"query": "{ a }", "variables": []}}, 422, "invalid_request"),
        ("POST", {"json": {"query": "{ a }"}, "headers": {"Accept": "text/html"}}, 406, "not_acceptable"),
        ("PUT", {}, 405, "method_not_allowed"),
    ],
)
async def test_a_malformed_request_is_an_error_in_the_form_of_the_other_routes(
    server: Served, method: str, options: dict[str, Any], status: int, code: str
) -> None:
    if "content" in options:
        options = {**options, "headers": {"content-type": "application/json"}}

    response = await server.http.request(method, "/graphql", **options)

    assert (response.status_code, response.json()["error"]["code"]) == (status, code)


async def test_there_are_no_mutations(server: Served) -> None:
    assert load_schema()._schema.mutation_type is None
    response = await server.http.post("/graphql", json={"query": "mutation { deleteRun }"})
    assert "data" not in response.json()


async def test_the_schema_is_served_and_can_be_introspected(server: Served) -> None:
    sdl = await server.http.get("/graphql/schema.graphql")
    data = await query(server.http, get_introspection_query())

    assert sdl.text.strip() == str(load_schema()).strip()
    assert {"Run", "Turn", "Execution"} <= {each["name"] for each in data["__schema"]["types"]}
    nested = "{ __schema { types { " + "fields { type { " * 4 + "name" + " } }" * 4 + " } } }"
    response = await server.http.post("/graphql", json={"query": nested})
    assert "data" not in response.json()


async def test_no_field_is_readable_without_a_token_and_every_one_with_the_read_token(
    sqlite_stores: Stores,
) -> None:
    fields = load_schema()._schema.query_type.fields
    async with served(sqlite_stores, access=Access(TOKENS)) as locked:
        for name, field in fields.items():
            given = ", ".join(
                f'{each}: "none"'
                for each, argument in field.args.items()
                if str(argument.type).endswith("!") and each != "first"
            )
            body = {"query": f"{{ {name}{f'({given})' if given else ''} {{ __typename }} }}"}

            for token, status in {None: 401, "wrong": 401, TOKENS.read: 200, TOKENS.write: 200}.items():
                headers = {"Authorization": f"Bearer {token}"} if token else {}
                for response in (
                    await locked.http.post("/graphql", json=body, headers=headers),
                    await locked.http.get("/graphql", params=body, headers=headers),
                ):
                    assert response.status_code == status, (name, token, response.text)
                    assert (status == 200) == ("data" in response.json())


async def test_another_site_cannot_query_it(server: Served) -> None:
    body = {"query": "{ runs { hint } }"}

    for headers in (
        {"Origin": "https://evil.example"},
        {"Host": "evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
    ):
        response = await server.http.post("/graphql", json=body, headers=headers)
        assert response.status_code == 403, headers


async def test_an_error_of_the_server_is_hidden_and_logged(
    filled: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> None:
        raise RuntimeError("/var/lib/secret")

    monkeypatch.setattr(filled.context.prices, "current", broken)

    response = await filled.http.post("/graphql", json={"query": "{ runs { nodes { runId } } }"})

    (error,) = response.json()["errors"]
    assert error["extensions"]["code"] == "internal_error"
    assert "secret" not in response.text
    assert "/var/lib/secret" in caplog.text


async def test_without_the_library_the_routes_name_the_extra(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longwatch.server.graphql.routes.find_spec", lambda name: None)

    for response in (
        await server.http.post("/graphql", json={"query": "{ runs { hint } }"}),
        await server.http.get("/graphql/schema.graphql"),
    ):
        assert (response.status_code, response.json()["error"]["code"]) == (503, "missing_extra")
        assert "pip install '.[graphql]'" in response.json()["error"]["message"]
    assert (await server.http.get("/api/runs")).status_code == 200


async def test_any_valid_query_gets_a_response_without_an_internal_error(filled: Served) -> None:
    loop = asyncio.get_running_loop()

    @settings(
        max_examples=60,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(text=hypothesis_graphql.queries(str(load_schema())))
    def send(text: str) -> None:
        sent = asyncio.run_coroutine_threadsafe(filled.http.post("/graphql", json={"query": text}), loop)
        body = sent.result().json()
        found = [error.get("extensions", {}).get("code") for error in body.get("errors", ())]
        assert "internal_error" not in found, (text, body)

    await asyncio.to_thread(send)
