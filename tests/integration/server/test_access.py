"""Who may come in: tokens and scopes, the login, names and origins."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from longwatch.clock import SYSTEM_CLOCK
from longwatch.server.access.origins import Hosts
from longwatch.server.access.tokens import COOKIE, Access, Tokens
from tests.integration.server.stores import Served, Stores, new_turn, served

TOKENS = Tokens("write-token-0123456789", "read-token-0123456789")
WRITER = {"Authorization": f"Bearer {TOKENS.write}"}
READER = {"Authorization": f"Bearer {TOKENS.read}"}


@pytest.fixture
def access() -> Access:
    return Access(TOKENS, SYSTEM_CLOCK)


@pytest.fixture
async def locked(sqlite_stores: Stores, access: Access) -> AsyncIterator[Served]:
    """A server that demands a token."""
    async with served(sqlite_stores, access=access) as running:
        yield running


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Basic {TOKENS.write}"},
        {"Authorization": f"Bearer {TOKENS.write}x"},
        {"Authorization": "Bearer ", "Cookie": f"{COOKIE}=write.9999999999.00.00"},
        {"Cookie": f"{COOKIE}=write.9999999999.0011223344556677.{'0' * 64}"},
        {"Cookie": f"{COOKIE}="},
    ],
)
async def test_a_request_without_the_token_is_refused(locked: Served, headers: dict[str, str]) -> None:
    for method, path in (
        ("GET", "/api/runs"),
        ("GET", "/openapi.json"),
        ("GET", "/api/stream?topic=runs"),
        ("GET", "/api/projects/p/sessions/s/turns/turn-1/status"),
        ("POST", "/api/projects"),
        ("GET", "/nothing-here"),
    ):
        response = await locked.http.request(method, path, headers=headers)

        assert (path, response.status_code) == (path, 401)
        assert response.json()["error"]["code"] == "unauthorized"
        assert response.headers["www-authenticate"] == "Bearer"


async def test_the_reading_token_reads_and_does_not_write(locked: Served) -> None:
    turn = None
    locked.http.headers.update(WRITER)
    turn = await new_turn(locked.http)
    await locked.http.put(
        "/api/projects/p1/content/a.md", content="x", headers={"content-type": "text/plain"}
    )
    locked.http.headers.update(READER)

    reads = [
        await locked.http.get("/api/runs"),
        await locked.http.get(f"{turn}/status"),
        await locked.http.post("/api/projects/p1/files/status", json={}),
    ]
    writes = [
        await locked.http.post("/api/projects", json={}),
        await locked.http.put("/api/projects/p1/content/a.md", content="y"),
        await locked.http.delete("/api/projects/p1/content/a.md"),
        await locked.http.post(f"{turn}/interrupt"),
        await locked.http.post("/api/runs/wf-1/events", json={"events": []}),
    ]

    assert {response.status_code for response in reads} == {200}
    assert {(response.status_code, response.json()["error"]["code"]) for response in writes} == {
        (403, "forbidden")
    }


async def test_a_token_is_exchanged_for_a_cookie_that_scripts_cannot_read(locked: Served) -> None:
    wrong = await locked.http.post("/api/login", json={"token": "wrong"})
    right = await locked.http.post("/api/login", json={"token": TOKENS.read})

    assert (wrong.status_code, wrong.headers.get("set-cookie")) == (401, None)
    assert right.json() == {"scope": "read"}
    cookie = right.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert TOKENS.read is not None
    assert TOKENS.read not in cookie
    assert (await locked.http.get("/api/runs")).status_code == 200  # the client keeps cookies
    assert (await locked.http.post("/api/projects", json={})).status_code == 403


async def test_a_code_logs_a_browser_in_once(locked: Served, access: Access) -> None:
    code = access.new_code()

    first = await locked.http.get("/login", params={"code": code})
    inside = await locked.http.post("/api/projects", json={"id": "p1"})
    locked.http.cookies.clear()
    second = await locked.http.get("/login", params={"code": code})

    assert first.status_code == 200
    assert 'content="0;url=/"' in first.text
    assert inside.status_code == 201
    assert (second.status_code, "set-cookie" in second.headers) == (401, False)
    assert first.headers["cache-control"] == "no-store"


async def test_the_page_is_public_and_its_data_are_not(locked: Served) -> None:
    page = await locked.http.get("/runs/wf-1")
    asset = await locked.http.get("/viewer/index.html")
    data = await locked.http.get("/api/runs/wf-1")

    assert (page.status_code, asset.status_code, data.status_code) == (200, 200, 401)


async def test_a_token_typed_into_the_plain_form_is_accepted(locked: Served) -> None:
    form = await locked.http.get("/login")
    wrong = await locked.http.post("/login", data={"token": "wrong"})
    right = await locked.http.post("/login", data={"token": TOKENS.write})

    assert '<form method="post" action="/login">' in form.text
    assert "script-src 'self'" in form.headers["content-security-policy"]
    assert (form.status_code, wrong.status_code, right.status_code) == (401, 401, 200)
    assert (await locked.http.get("/api/runs")).status_code == 200


async def test_a_cookie_holds_on_every_server_with_the_same_tokens(sqlite_stores: Stores) -> None:
    cookie = Access(TOKENS).new_cookie(Access(TOKENS).scope_of_token(TOKENS.write.encode()))  # type: ignore[arg-type]

    async with served(sqlite_stores, access=Access(TOKENS), headers={"Cookie": f"{COOKIE}={cookie}"}) as same:
        assert (await same.http.get("/api/runs")).status_code == 200
    others = Access(Tokens("other-token-0123456789"))
    async with served(sqlite_stores, access=others, headers={"Cookie": f"{COOKIE}={cookie}"}) as other:
        assert (await other.http.get("/api/runs")).status_code == 401


async def test_health_is_public_and_reveals_little(locked: Served) -> None:
    response = await locked.http.get("/api/health")

    assert (response.status_code, response.json()) == (200, {"status": "ok", "journal": "sqlite"})


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io", "10.0.0.1", ""]
)
async def test_a_name_that_is_not_ours_is_refused(server: Served, host: str) -> None:
    for path in ("/api/runs", "/", "/viewer/index.html", "/api/projects/p/sessions/s/turns/turn-1/status"):
        response = await server.http.get(path, headers={"Host": host})

        assert (path, response.status_code) == (path, 403)
        assert response.json()["error"]["code"] == "foreign_host"


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1:8321", "[::1]:8321", "localhost."])
async def test_the_names_of_this_machine_are_served(server: Served, host: str) -> None:
    assert (await server.http.get("/api/runs", headers={"Host": host})).status_code == 200


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "http://127.0.0.1:9999",
        "http://localhost:8321",
        "file://",
        "http://127.0.0.1",
    ],
)
async def test_a_page_of_another_origin_is_refused(server: Served, origin: str) -> None:
    headers = {"Origin": origin}

    for method, path in (("GET", "/api/runs"), ("POST", "/api/projects"), ("OPTIONS", "/api/projects")):
        response = await server.http.request(method, path, headers=headers)

        assert (response.status_code, response.json()["error"]["code"]) == (403, "foreign_origin")
        assert "access-control-allow-origin" not in response.headers


async def test_our_own_page_is_admitted_and_other_sites_load_nothing(server: Served) -> None:
    own = await server.http.post("/api/projects", json={}, headers={"Origin": "http://127.0.0.1:8321"})
    image = await server.http.get(
        "/api/runs", headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    )
    link = await server.http.get(
        "/api/runs", headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    )

    assert own.status_code == 201
    assert image.status_code == 403
    assert link.status_code == 200


async def test_an_admitted_origin_gets_its_headers_on_every_response(sqlite_stores: Stores) -> None:
    origin = "https://tool.example:8443"
    hosts = Hosts.of("127.0.0.1", allow_origins=(origin,))

    async with served(sqlite_stores, hosts=hosts, headers={"Origin": origin}) as server:
        before = await server.http.options("/api/projects", headers={"Access-Control-Request-Method": "POST"})
        good = await server.http.get("/api/runs")
        bad = await server.http.get("/api/runs/none")
        status = await server.http.get("/api/projects/p/sessions/s/turns/turn-1/status")

    assert (before.status_code, before.headers["access-control-allow-origin"]) == (204, origin)
    assert "Authorization" in before.headers["access-control-allow-headers"]
    for response in (good, bad, status):
        assert response.headers["access-control-allow-origin"] == origin
        assert "Origin" in response.headers["vary"]
        assert "access-control-allow-credentials" not in response.headers
