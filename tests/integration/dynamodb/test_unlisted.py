"""Runs that no entry lists, found on real engines within a bound, by the journal, the server and its page."""

from __future__ import annotations

import httpx2

from longwatch.clock import SYSTEM_CLOCK, iso_from_ms
from longwatch.documents.stores.memory import MemoryDocumentStore
from longwatch.errors import TableProblem
from longwatch.journal.base import UnlistedRuns
from longwatch.journal.dynamodb.journal import DynamoJournal
from longwatch.model.event import Event
from longwatch.server.app import create_app
from longwatch.server.context import open_context
from longwatch.storage.dynamodb.values import AttributeMap
from longwatch.storage.urls import TableAddress
from tests.contract.tables import SharedTable, client_of


def put_theirs(address: TableAddress, run_id: str, *types: str, padding: int = 0) -> None:
    """A run as another producer writes it: nothing of ours, and no entry in the list."""
    now = SYSTEM_CLOCK.now_ms() - 60_000
    for step, type_ in enumerate(types):
        item: AttributeMap = {"note": {"S": "x" * padding}}
        if address.layout == "workflow":
            item |= {"workflow_id": {"S": run_id}, "timestamp": {"N": str(now + step)}}
            item["event_type"] = {"S": type_}
        else:
            time = iso_from_ms(now + step)
            item |= {"PK": {"S": f"SESSION#{run_id}"}, "SK": {"S": f"EVENT#{time}"}}
            item |= {"Status": {"S": type_}, "Timestamp": {"S": time}}
        client_of(str(address.endpoint)).put_item(TableName=address.table, Item=item)


def opened(address: TableAddress) -> DynamoJournal:
    return DynamoJournal(SharedTable(address), address)


def own_run(journal: DynamoJournal) -> None:
    now = SYSTEM_CLOCK.now_ms()
    journal.append([Event(run_id="ours", event_id="e-1", type="workflow_start", occurred_at=now)])


def test_a_scan_finds_runs_of_others_and_none_of_ours(address: TableAddress) -> None:
    journal = opened(address)
    own_run(journal)
    put_theirs(address, "theirs", "workflow_start", "workflow_error")

    found = journal.scan_unlisted(max_pages=4)

    assert [(run.run_id, run.status, run.events) for run in found.runs] == [("theirs", "failed", 2)]
    assert found.is_whole


def test_a_scan_of_a_large_table_ends_at_its_bound(address: TableAddress) -> None:
    for number in range(6):  # 2.4 MB
        put_theirs(address, f"theirs-{number}", "workflow_start", padding=390_000)

    bounded, whole = (opened(address).scan_unlisted(max_pages=pages) for pages in (1, 4))

    assert not bounded.is_whole
    assert 0 < len(bounded.runs) < 6
    assert whole.is_whole
    assert len(whole.runs) == 6


async def listed(journal: DynamoJournal, *paths: str) -> list[dict[str, object]]:
    async with open_context(journal, MemoryDocumentStore()) as context:
        transport = httpx2.ASGITransport(app=create_app(context))
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8321") as http:
            return [(await http.get(path)).json() for path in paths]


async def test_the_server_lists_runs_of_others_page_by_page(address: TableAddress) -> None:
    journal = opened(address)
    own_run(journal)
    put_theirs(address, "theirs", "workflow_start")

    whole, first = await listed(journal, "/api/runs", "/api/runs?limit=1")
    (second,) = await listed(journal, f"/api/runs?limit=1&after={first['cursor']}")

    assert [run["run_id"] for run in whole["runs"]] == ["ours", "theirs"]  # type: ignore[attr-defined]
    assert whole["hint"] is None
    assert [run["run_id"] for run in first["runs"]] == ["ours"]  # type: ignore[attr-defined]
    assert [run["run_id"] for run in second["runs"]] == ["theirs"]  # type: ignore[attr-defined]
    assert second["cursor"] is None


class Denied(DynamoJournal):
    """A journal in a table that may not be scanned."""

    def scan_unlisted(self, *, max_pages: int) -> UnlistedRuns:
        raise TableProblem(
            "access-denied", "profile 'x' is not authorized for table 't' (AccessDeniedException)."
        )


async def test_the_server_reports_the_missing_permission_to_scan_and_lists_the_rest(
    address: TableAddress,
) -> None:
    journal = Denied(SharedTable(address), address)
    own_run(journal)

    (response,) = await listed(journal, "/api/runs")

    assert [run["run_id"] for run in response["runs"]] == ["ours"]  # type: ignore[attr-defined]
    assert "the right dynamodb:Scan is missing" in str(response["hint"])
