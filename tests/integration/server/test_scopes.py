"""Every route × method × token, generated from the schema: what each token may do and may not."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import hypothesis
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from hypothesis import strategies as st
from starlette.routing import BaseRoute, Match, Route, WebSocketRoute

from longwatch.documents.stores.memory import MemoryDocumentStore
from longwatch.journal.memory import MemoryJournal
from longwatch.server.access.scopes import REQUIRED, WEBSOCKET, required_scope
from longwatch.server.access.tokens import Access, Tokens, TokenScope
from longwatch.server.app import create_api
from longwatch.server.context import open_context
from longwatch.server.page.static_files import SECTIONS
from tests.integration.server.stores import TEXT, Served, Stores, served

TOKENS = Tokens("write-token-0123456789", "read-token-0123456789")
CALLERS = {"none": None, "read": TOKENS.read, "write": TOKENS.write}
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND")
SAMPLES = {
    "run_id": ("wf-1", "a%2Ffiles%2Fstatus", "events"),
    "plan_id": ("plan-1",),
    "execution_id": ("drill-1", "a%2Ffiles%2Fstatus"),
    "project_id": ("p1",),
    "session_id": ("s1",),
    "turn_id": ("turn-1",),
    "subscription_id": ("0123456789abcdef",),
    "path": ("a.md", "files/status", "docs/files/status", "x%2Ffiles%2Fstatus", "a//files/status", "login"),
}
QUERIES = frozenset({"/api/projects/{project_id}/files/status", "/graphql"})  # read by POST
# Read, though they write: a reader's browser receives what the reader may read.
OWN = frozenset({"/api/notifications/subscriptions", "/api/notifications/subscriptions/{subscription_id}"})
OPEN = frozenset({("GET", "/api/health"), ("POST", "/api/login")})


@pytest.fixture
async def locked(sqlite_stores: Stores) -> AsyncIterator[Served]:
    async with served(sqlite_stores, access=Access(TOKENS)) as running:
        yield running


@pytest.fixture
async def api() -> AsyncIterator[FastAPI]:
    with MemoryJournal() as journal, MemoryDocumentStore() as documents:
        async with open_context(journal, documents) as context:
            yield create_api(context)


def filled(template: str) -> Iterator[str]:
    """Addresses of a path in the schema."""
    names = re.findall(r"{(\w+)}", template)
    last = names[-1] if names else ""
    for value in SAMPLES[last] if last else ("",):
        values = {name: SAMPLES[name][0] for name in names} | {last: value}
        yield re.sub(r"{(\w+)}", lambda found: values[found[1]], template)  # noqa: B023 - used at once


def may(caller: str, method: str, template: str, methods: Any) -> bool:
    """Whether a caller may do this, decided here without the server's table."""
    verb = "GET" if method == "HEAD" else method
    if verb.lower() not in methods:
        return caller == "write"  # it does not exist, which only a writer may learn
    if (verb, template) in OPEN:
        return True
    reads = verb == "GET" or template in QUERIES | OWN
    return caller == "write" or (caller == "read" and reads)


async def test_each_token_may_do_what_its_scope_allows_on_every_route_and_method(locked: Served) -> None:
    writer = {"Authorization": f"Bearer {TOKENS.write}"}
    schema = (await locked.http.get("/openapi.json", headers=writer)).json()
    await locked.http.post("/api/projects", json={"id": "p1"}, headers=writer)
    wrong: list[tuple[str, str, str, int]] = []
    tried = 0

    for template, methods in schema["paths"].items():
        for address in filled(template):
            for method in METHODS:
                for caller, token in CALLERS.items():
                    headers = {"Authorization": f"Bearer {token}"} if token else {}
                    response = await locked.http.request(method, address, headers=headers)
                    tried += 1
                    refusal = {"none": 401, "read": 403}.get(caller)
                    if may(caller, method, template, methods) == (response.status_code in (401, 403)):
                        is_wrong_token = template == "/api/login" and response.status_code == 401
                        if not is_wrong_token:
                            wrong.append((caller, method, address, response.status_code))
                    elif response.status_code in (401, 403) and response.status_code != refusal:
                        wrong.append((caller, method, address, response.status_code))

    assert wrong == []
    assert tried > 1_000


async def test_the_schema_names_the_scope_that_an_operation_needs(api: FastAPI) -> None:
    paths = api.openapi()["paths"]

    scopes = {
        (method.upper(), path): operation["x-required-scope"]
        for path, operations in paths.items()
        for method, operation in operations.items()
    }

    assert {key for key, scope in scopes.items() if scope == "none"} == OPEN
    for (method, path), scope in scopes.items():
        if scope != "none":
            assert (scope == "read") == (method == "GET" or path in QUERIES | OWN), (method, path)


@pytest.mark.parametrize("path", ["docs/files/status", "files/status", "x/sync/files/status", "login"])
async def test_a_read_token_changes_no_file_whatever_its_path_is(locked: Served, path: str) -> None:
    writer, reader = ({"Authorization": f"Bearer {token}"} for token in (TOKENS.write, TOKENS.read))
    address = f"/api/projects/p1/content/{path}"
    await locked.http.post("/api/projects", json={"id": "p1"}, headers=writer)
    await locked.http.put(address, content="kept", headers=writer | TEXT)

    refused = [
        await locked.http.put(address, content="changed", headers=reader | TEXT),
        await locked.http.delete(address, headers=reader),
        await locked.http.post(f"/api/projects/p1/documents/{path}", content=b"\0\0", headers=reader),
        await locked.http.request("DELETE", address.replace("/files/", "/%66iles%2F"), headers=reader),
    ]

    assert [response.status_code for response in refused] == [403] * len(refused)
    assert (await locked.http.get(address, headers=reader)).text == "kept"


def routes_of(app: FastAPI) -> list[BaseRoute]:
    """Every route of the application, those of its routers too."""
    found: list[BaseRoute] = []
    for route in app.router.routes:
        router = getattr(route, "original_router", None)
        found += router.routes if router is not None else [route]
    return found


async def test_every_route_of_the_application_has_an_entry_in_the_table(api: FastAPI) -> None:
    there: set[tuple[str, str]] = set()
    for route in routes_of(api):
        if isinstance(route, WebSocketRoute):
            there.add((WEBSOCKET, route.path))
        else:
            assert isinstance(route, Route | APIRoute)
            there |= {(method, route.path) for method in (route.methods or ()) if method != "HEAD"}

    status = {("GET", "/api/projects/{project_id}/sessions/{session_id}/turns/{turn_id}/status")}
    assert set(REQUIRED) == there | status  # the status of a turn is served ahead of the router


WORDS = (
    *(
        "api",
        "runs",
        "projects",
        "executions",
        "p1",
        "sessions",
        "turns",
        "files",
        "status",
        "content",
        "sync",
    ),
    *(
        "documents",
        "login",
        "health",
        "stream",
        "socket",
        "events",
        "viewer",
        "x\n",
        "",
        "..",
        "lines",
        "feed",
    ),
)


@hypothesis.settings(suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture], deadline=None)
@hypothesis.given(
    words=st.lists(st.sampled_from(WORDS), max_size=9), method=st.sampled_from((*METHODS, WEBSOCKET))
)
async def test_no_path_needs_less_than_the_route_that_the_router_finds(
    api: FastAPI, words: list[str], method: str
) -> None:
    path = "/" + "/".join(words)
    scope: dict[str, Any] = {"type": "http", "method": method, "path": path, "root_path": "", "headers": []}
    if method == WEBSOCKET:
        scope |= {"type": "websocket"}

    matched = next((each for each in routes_of(api) if each.matches(scope)[0] is Match.FULL), None)
    required = required_scope(method, path)

    if matched is None:
        assert required is TokenScope.WRITE or words[-1:] == ["status"] or method == "HEAD"
    else:
        template = matched.path  # type: ignore[attr-defined]
        assert required == REQUIRED["GET" if method == "HEAD" else method, template]


BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.mark.parametrize("section", ["", *SECTIONS])
@pytest.mark.parametrize("rest", ["", "/", "/some-id", "/p1/sessions/s1"])
async def test_every_page_path_serves_the_page_to_a_browser_that_is_signed_out(
    locked: Served, section: str, rest: str
) -> None:
    path = f"/{section}{rest}" if section else "/"

    response = await locked.http.get(path, headers=BROWSER)

    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/html")
    assert "/viewer/page.js" in response.text  # which shows the form when the API returns 401


@pytest.mark.parametrize("path", ["/nothing-here", "/run/wf-1", "/viewer/none.js", "//", "/executionss"])
@pytest.mark.parametrize("caller", CALLERS)
async def test_an_unknown_path_is_a_page_for_browsers_and_json_for_programs(
    locked: Served, path: str, caller: str
) -> None:
    token = CALLERS[caller]
    headers = {"Authorization": f"Bearer {token}"} if caller != "none" else {}

    page = await locked.http.get(f"http://127.0.0.1:8321{path}", headers=headers | BROWSER)
    program = await locked.http.get(f"http://127.0.0.1:8321{path}", headers=headers)

    assert (page.status_code, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "<h1>" in page.text
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert program.headers["content-type"] == "application/json"
    assert program.status_code == (401 if caller == "none" and not path.startswith("/viewer/") else 404)


async def test_a_path_is_shown_as_text_on_the_not_found_page(locked: Served) -> None:
    response = await locked.http.get("/<script>alert(1)</script>", headers=BROWSER)

    assert "<script>" not in response.text
    assert "&lt;script&gt;" in response.text


async def test_callers_learn_what_they_may_do(locked: Served, sqlite_stores: Stores) -> None:
    for name, token in CALLERS.items():
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        response = await locked.http.get("/api/access", headers=headers)
        if name == "none":
            assert response.status_code == 401
        else:
            assert response.json() == {"scope": name, "deletes_runs": name == "write"}
    async with served(sqlite_stores) as open_server:
        assert (await open_server.http.get("/api/access")).json()["deletes_runs"] is True
