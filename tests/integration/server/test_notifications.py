"""The routes of notifications in browsers: the key, and subscriptions bound to the token that made them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from longwatch.notifications.web_push.subscription import LIFETIME_MS
from longwatch.server.access.origins import Hosts
from longwatch.server.access.tokens import Access, Tokens
from longwatch.settings import Settings
from longwatch.testing.clock import FakeClock
from tests.contract.push import AUTH, P256DH
from tests.integration.server.stores import BASE, Served, Stores, served

RULE = {"name": "failures", "trigger": ["failed", "died"], "runs": "tag:nightly", "channel": "web_push"}
SUBSCRIPTIONS = "/api/notifications/subscriptions"
TOKENS = Tokens("write-token-0123456789", "read-token-0123456789")
WRITER, READER = ({"Authorization": f"Bearer {token}"} for token in (TOKENS.write, TOKENS.read))
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"


def settings(stores: Stores, *rules: dict[str, Any], addresses: tuple[str, ...] = ()) -> Settings:
    return Settings(journal=f"sqlite:///{stores.file}", notify=list(rules), notification_addresses=addresses)


def browser(name: str = "one", **fields: Any) -> dict[str, Any]:
    endpoint = f"https://push.example.org/{name}"
    return {"endpoint": endpoint, "expirationTime": None, "keys": {"p256dh": P256DH, "auth": AUTH}} | fields


async def listed(server: Served, headers: dict[str, str] | None = None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await server.http.get(SUBSCRIPTIONS, headers=headers)).json()[
        "subscriptions"
    ]
    return found


async def test_the_key_is_generated_once_and_returned_with_the_rules(sqlite_stores: Stores) -> None:
    bodies = []
    for _ in range(2):
        async with served(sqlite_stores, settings=settings(sqlite_stores, RULE)) as server:
            bodies.append((await server.http.get("/api/notifications/push")).json())

    assert bodies[0] == bodies[1]
    assert bodies[0] == {
        "public_key": bodies[0]["public_key"],
        "problem": None,
        "rules": [{"name": "failures", "triggers": ["failed", "died"], "runs": "tag:nightly"}],
    }
    assert len(bodies[0]["public_key"]) == 87


async def test_a_server_without_a_rule_for_browsers_says_so(sqlite_stores: Stores) -> None:
    async with served(sqlite_stores, settings=settings(sqlite_stores)) as server:
        body = (await server.http.get("/api/notifications/push")).json()

    assert (body["public_key"], body["rules"]) == (None, [])
    assert 'Add one with channel = "web_push"' in body["problem"]


async def test_a_browser_is_added_renewed_listed_and_removed(sqlite_stores: Stores) -> None:
    clock = FakeClock()
    async with served(sqlite_stores, settings=settings(sqlite_stores, RULE), clock=clock) as server:
        headers = {"User-Agent": FIREFOX, "Origin": BASE}
        added = await server.http.post(SUBSCRIPTIONS, json=browser(), headers=headers)
        first = clock.now_ms()
        clock.advance(60)
        renewed = await server.http.post(SUBSCRIPTIONS, json=browser(), headers=headers)
        found = await listed(server)
        removed = await server.http.delete(f"{SUBSCRIPTIONS}/{found[0]['subscription_id']}")
        again = await server.http.delete(f"{SUBSCRIPTIONS}/{found[0]['subscription_id']}")

        assert (added.status_code, renewed.status_code) == (201, 201)
        assert found == [renewed.json()]
        assert found == [
            {
                "subscription_id": added.json()["subscription_id"],
                "browser": "Firefox on Linux",
                "page": BASE,
                "service": "push.example.org",
                "created_at": first,
                "renewed_at": first + 60_000,
                "ends_at": first + 60_000 + LIFETIME_MS,
                "sent_at": None,
                "problem": None,
            }
        ]
        assert (removed.status_code, again.status_code) == (200, 404)
        assert await listed(server) == []


async def test_no_response_reveals_how_to_address_a_browser(sqlite_stores: Stores) -> None:
    async with served(sqlite_stores, settings=settings(sqlite_stores, RULE)) as server:
        added = await server.http.post(SUBSCRIPTIONS, json=browser("secret-path"))
        found = await server.http.get(SUBSCRIPTIONS)

        for text in (added.text, found.text):
            assert "secret-path" not in text
            assert P256DH not in text
            assert AUTH not in text


@pytest.mark.parametrize(
    ("given", "status", "says"),
    [
        (browser(endpoint="http://push.example.org/x"), 400, "not an https URL"),
        (browser(endpoint="https://127.0.0.1/x"), 400, "not a public address"),
        (browser(endpoint="https://169.254.169.254/latest"), 400, "not a public address"),
        (browser(endpoint="https://[::1]/x"), 400, "not a public address"),
        (browser(endpoint="https://user:pass@push.example.org/x"), 400, "password"),
        (browser(endpoint="nonsense"), 400, "Invalid endpoint"),
        (browser(keys={"p256dh": P256DH[:-3] + "AAA", "auth": AUTH}), 400, "p256dh"),
        (browser(keys={"p256dh": P256DH, "auth": "AAAA"}), 400, "auth"),
        (browser(keys={"p256dh": P256DH}), 422, "keys.auth"),
        (browser(more=1), 422, "more"),
        ({}, 422, "endpoint"),
        ([], 422, ""),
    ],
)
async def test_an_invalid_subscription_is_rejected_and_not_stored(
    sqlite_stores: Stores, given: Any, status: int, says: str
) -> None:
    async with served(sqlite_stores, settings=settings(sqlite_stores, RULE)) as server:
        response = await server.http.post(SUBSCRIPTIONS, json=given)

        assert response.status_code == status
        assert says in response.text
        assert await listed(server) == []


async def test_the_settings_allow_a_push_service_in_a_private_network(sqlite_stores: Stores) -> None:
    given = settings(sqlite_stores, RULE, addresses=("10.0.0.0/8",))
    async with served(sqlite_stores, settings=given) as server:
        response = await server.http.post(SUBSCRIPTIONS, json=browser(endpoint="http://10.1.2.3:8080/x"))

    assert response.status_code == 201


async def test_a_reader_sees_and_removes_only_what_its_own_token_made(sqlite_stores: Stores) -> None:
    async with served(sqlite_stores, settings=settings(sqlite_stores, RULE), access=Access(TOKENS)) as server:
        mine = await server.http.post(SUBSCRIPTIONS, json=browser("mine"), headers=READER)
        other = await server.http.post(SUBSCRIPTIONS, json=browser("other"), headers=WRITER)
        nobody = await server.http.post(SUBSCRIPTIONS, json=browser("nobody"))
        seen = [each["subscription_id"] for each in await listed(server, READER)]
        refused = await server.http.delete(
            f"{SUBSCRIPTIONS}/{other.json()['subscription_id']}", headers=READER
        )

        assert (mine.status_code, other.status_code, nobody.status_code) == (201, 201, 401)
        assert seen == [mine.json()["subscription_id"]]
        assert refused.status_code == 404
        assert len(await listed(server, WRITER)) == 2


async def test_subscriptions_of_tokens_that_are_not_in_use_any_more_are_removed(
    sqlite_stores: Stores,
) -> None:
    given = settings(sqlite_stores, RULE)
    page = {"Origin": BASE}
    async with served(sqlite_stores, settings=given) as server:
        await server.http.post(SUBSCRIPTIONS, json=browser("before tokens".replace(" ", "-")), headers=page)
    async with served(sqlite_stores, settings=given, access=Access(TOKENS)) as server:
        await server.http.post(SUBSCRIPTIONS, json=browser("reader"), headers=page | READER)
        await server.http.post(SUBSCRIPTIONS, json=browser("writer"), headers=page | WRITER)

        assert len(await listed(server, WRITER)) == 2

    rotated = Tokens(TOKENS.write, "another-read-token-01234")
    async with served(sqlite_stores, settings=given, access=Access(rotated)) as server:
        assert await listed(server, WRITER) == []  # all tokens sign cookies, so all of them are new


async def test_a_server_leaves_the_subscriptions_of_other_servers(sqlite_stores: Stores) -> None:
    given = settings(sqlite_stores, RULE)
    hosts = Hosts.of("127.0.0.1", allow_hosts=("longwatch.example.org",))
    elsewhere = {"Host": "longwatch.example.org", "Origin": "http://longwatch.example.org"}
    async with served(sqlite_stores, settings=given, access=Access(TOKENS), hosts=hosts) as server:
        await server.http.post(SUBSCRIPTIONS, json=browser(), headers=elsewhere | WRITER)

    other = Access(replace(TOKENS, write="another-write-token-0123"))
    async with served(sqlite_stores, settings=given, access=other) as server:
        headers = {"Authorization": "Bearer another-write-token-0123"}

        assert len(await listed(server, headers)) == 1


async def test_what_is_stored_survives_the_server(sqlite_stores: Stores) -> None:
    given = settings(sqlite_stores, RULE)
    async with served(sqlite_stores, settings=given) as server:
        await server.http.post(SUBSCRIPTIONS, json=browser())
    async with served(sqlite_stores, settings=given) as server:
        assert len(await listed(server)) == 1


async def test_the_worker_has_its_own_policy_and_no_wider_scope(server: Served) -> None:
    response = await server.http.get("/viewer/notifications-worker.js")

    assert response.headers["content-type"].startswith("text/javascript")
    assert response.headers["content-security-policy"] == "default-src 'none'; connect-src 'self'"
    assert response.headers["cache-control"] == "no-cache"
    assert "service-worker-allowed" not in response.headers
    assert "fetch" not in {part.split('"')[1] for part in response.text.split("addEventListener(")[1:]}


async def test_the_state_of_rules_and_deliveries_is_that_of_the_command(sqlite_stores: Stores) -> None:
    async with served(sqlite_stores, settings=settings(sqlite_stores, RULE)) as server:
        response = await server.http.get("/api/notifications")

    assert response.json() == {
        "rules": [
            {
                "name": "failures",
                "trigger": ["failed", "died"],
                "runs": "tag:nightly",
                "channel": "web_push",
                "since": None,
                "pending": 0,
            }
        ],
        "queue": [],
        "dead_letters": [],
        "deliveries": [],
    }
