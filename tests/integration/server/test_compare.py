"""GET /api/compare, on every engine."""

from __future__ import annotations

from tests.integration.server.stores import Served, Stores, served
from tests.integration.server.test_runs import END, START, ago, record


def called(name: str, at: int, **payload: object) -> dict[str, object]:
    return {
        "type": "tool_call",
        "call_id": name,
        "occurred_at": at,
        "payload": {"operation": name, "status": "completed", **payload},
    }


async def test_two_runs_are_compared_call_by_call(stores: Stores) -> None:
    async with served(stores) as server:
        at = ago(5000)
        begin, end = {**START, "occurred_at": at}, {**END, "occurred_at": at + 1000}
        await record(server.http, "wf-1", begin, called("fetch", at + 1, output=1), end)
        await record(
            server.http, "wf%2F2", begin, called("fetch", at + 1, output=2), called("rank", at + 2), end
        )

        response = await server.http.get("/api/compare", params={"a": "wf-1", "b": "wf/2"})
        body = response.json()

        assert response.status_code == 200
        assert [(row["name"], row["differences"]) for row in body["rows"]] == [
            ("fetch", ["result"]),
            ("rank", ["added"]),
        ]
        assert (body["a"]["duration_ms"], body["b"]["events"]) == (1000, 4)
        assert (body["first_difference"], body["differing"], body["left_out"]) == (0, 2, 0)
        assert body["differs_in_structure"] is True


async def test_a_comparison_with_an_unknown_run_is_not_found(server: Served) -> None:
    await record(server.http, "wf-1", START)

    response = await server.http.get("/api/compare", params={"a": "wf-1", "b": "wf-9"})

    assert response.status_code == 404
    assert "wf-9" in response.json()["error"]["message"]


async def test_a_comparison_with_a_deleted_run_is_gone(server: Served) -> None:
    await record(server.http, "wf-1", START, END)
    await server.http.delete("/api/runs/wf-1")

    response = await server.http.get("/api/compare", params={"a": "wf-1", "b": "wf-1"})

    assert response.status_code == 410
