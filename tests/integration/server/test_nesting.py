"""JSON that nests too deeply is refused with a 4xx on every route that takes a body, and stored nowhere."""

from __future__ import annotations

import json
from typing import Any

import pytest

from longwatch.journal.codec import MAX_LEVELS
from tests.integration.server.stores import LINES, Served, new_turn

JSON = {"content-type": "application/json"}
DEPTHS = (MAX_LEVELS + 1, 330, 500, 900, 985, 1_000, 5_000, 100_000)


def nested(depth: int, kind: str = "map") -> str:
    """A JSON value of so many levels."""
    opened, closed = ('{"a":', "}") if kind == "map" else ("[", "]")
    return f"{opened * depth}1{closed * depth}"


@pytest.mark.parametrize("kind", ["map", "list"])
@pytest.mark.parametrize("depth", DEPTHS)
async def test_an_event_that_nests_too_deeply_is_422_with_the_limit(
    server: Served, depth: int, kind: str
) -> None:
    event = f'{{"type":"note","payload":{{"x":{nested(depth, kind)}}}}}'

    one = await server.http.post("/api/runs/wf/events", content=f'{{"events":[{event}]}}', headers=JSON)
    line = await server.http.post("/api/runs/wf/events", content=f"{event}\n", headers=LINES)

    for response in (one, line):
        assert response.status_code == 422, response.text
        assert f"{MAX_LEVELS} levels" in response.text
    assert (await server.http.get("/api/runs/wf")).status_code == 404


async def test_an_event_of_the_greatest_depth_is_stored_and_read_back(server: Served) -> None:
    payload: dict[str, Any] = json.loads(nested(MAX_LEVELS))

    stored = await server.http.post(
        "/api/runs/wf/events", json={"events": [{"type": "note", "payload": payload}]}
    )
    read = await server.http.get("/api/runs/wf/events")

    assert stored.status_code == 200, stored.text
    assert read.json()["events"][0]["payload"] == payload


@pytest.mark.parametrize("depth", DEPTHS)
async def test_no_other_body_that_nests_deeply_is_an_internal_error(server: Served, depth: int) -> None:
    turn = await new_turn(server.http)
    routes = (
        "/api/projects",
        "/api/login",
        "/api/projects/p1/sessions",
        "/api/projects/p1/sessions/s1/turns",
        "/api/projects/p1/files/status",
        f"{turn}/start",
        f"{turn}/end",
        f"{turn}/interrupt",
    )

    for route in routes:
        for body in (nested(depth), nested(depth, "list"), f'{{"id":{nested(depth)}}}'):
            response = await server.http.post(route, content=body, headers=JSON)

            assert 400 <= response.status_code < 500, (route, response.text[:200])
            assert response.json()["error"]["code"]


@pytest.mark.parametrize("depth", DEPTHS)
async def test_a_line_of_a_turn_that_nests_deeply_is_shortened_or_refused(server: Served, depth: int) -> None:
    turn = await new_turn(server.http)
    used = f'{{"type":"tool_use","id":"t","name":"x","input":{nested(depth)}}}'
    line = f'{{"type":"assistant","message":{{"content":[{used}]}}}}'

    response = await server.http.post(f"{turn}/lines", content=f"{line}\n", headers=LINES)
    shown = await server.http.get(turn)

    assert response.status_code in (200, 400), response.text[:300]
    assert shown.status_code == 200
