"""The same commands on a DynamoDB table: what is recorded there is listed, shown and verified."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from tests.acceptance.conftest import Longwatch
from tests.contract.tables import client_of, new_table
from tests.engines.no_scan import without_scan

pytestmark = pytest.mark.needs_ministack


@pytest.fixture(params=["workflow", "session"])
def table(request: pytest.FixtureRequest, ministack_url: str) -> Iterator[str]:
    with new_table(ministack_url, request.param) as address:
        yield (
            f"dynamodb://{address.table}?region={address.region}"
            f"&layout={address.layout}&endpoint={address.endpoint}"
        )


def exported(longwatch: Longwatch, journal: str) -> str:
    return longwatch("export", "wf-1a", "--journal", journal).stdout


def test_a_run_moves_to_a_table_and_is_whole_there(longwatch: Longwatch, journal: str, table: str) -> None:
    lines = exported(longwatch, journal)

    imported = longwatch("import", "-", "--journal", table, stdin=lines)
    listed = json.loads(longwatch("runs", "--journal", table, "-o", "json").stdout)
    verified = longwatch("verify", "wf-1a", "--journal", table)

    assert (imported.returncode, imported.stderr.splitlines()[-1]) == (0, "Imported 16 events.")
    assert [(run["run_id"], run["status"]) for run in listed] == [("wf-1a2b3c4d", "succeeded")]
    assert (verified.returncode, verified.stdout.splitlines()[0]) == (0, "✓ complete  wf-1a2b3c4d")
    assert exported(longwatch, table) == lines
    assert "web.search (try 2)" in longwatch("show", "latest", "--journal", table).stdout


def test_a_scan_finds_every_run_of_the_table(longwatch: Longwatch, journal: str, table: str) -> None:
    longwatch("import", "-", "--journal", table, stdin=exported(longwatch, journal))

    found = json.loads(longwatch("runs", "--scan", "--journal", table, "-o", "json").stdout)

    assert [run["run_id"] for run in found] == ["wf-1a2b3c4d"]


def test_commands_that_read_leave_warnings_about_the_table_to_doctor(
    longwatch: Longwatch, journal: str, ministack_url: str
) -> None:
    with new_table(ministack_url, "workflow") as address:  # without TTL
        table = f"dynamodb://{address.table}?region={address.region}&endpoint={address.endpoint}"
        longwatch("import", "-", "--journal", table, stdin=exported(longwatch, journal))

        read = longwatch("runs", "--journal", table).stderr
        read += longwatch("show", "latest", "--journal", table).stderr
        diagnosed = longwatch("doctor", "--journal", table).stdout

    assert "TTL" not in read
    assert " ".join(diagnosed.split()).count("TTL is disabled") == 1


def put_theirs(table: str, *run_ids: str, padding: int = 0) -> None:
    """Runs as another producer writes them, with no entry in the list."""
    parts = urlsplit(table)
    options = dict(parse_qsl(parts.query))
    for run_id in run_ids:
        item: dict[str, Any] = {"note": {"S": "x" * padding}}
        if options["layout"] == "workflow":
            item |= {"workflow_id": {"S": run_id}, "timestamp": {"N": "1794736800000"}}
            item["event_type"] = {"S": "workflow_complete"}
        else:
            time = "2026-11-15T10:00:00.000Z"
            item |= {"PK": {"S": f"SESSION#{run_id}"}, "SK": {"S": f"EVENT#{time}"}}
            item |= {"Status": {"S": "SESSION_SUCCEEDED"}, "Timestamp": {"S": time}}
        client_of(options["endpoint"]).put_item(TableName=parts.netloc, Item=item)


def test_runs_of_other_producers_are_listed_beside_ours(
    longwatch: Longwatch, journal: str, table: str
) -> None:
    longwatch("import", "-", "--journal", table, stdin=exported(longwatch, journal))
    put_theirs(table, "theirs")

    done = longwatch("runs", "--journal", table, "-o", "json")

    found = {run["run_id"]: run["status"] for run in json.loads(done.stdout)}
    assert found == {"wf-1a2b3c4d": "succeeded", "theirs": "succeeded"}
    assert "other producers" not in done.stderr


def test_a_list_that_may_lack_runs_has_a_notice(longwatch: Longwatch, table: str) -> None:
    put_theirs(table, *(f"theirs-{number}" for number in range(14)), padding=390_000)  # 5.4 MB

    done = longwatch("runs", "--journal", table, "-o", "json")
    whole = longwatch("runs", "--scan", "--journal", table, "-o", "json")

    assert 0 < len(json.loads(done.stdout)) < 14
    assert "Only the first 4 pages (1 MB each) were scanned" in done.stderr
    assert len(json.loads(whole.stdout)) == 14
    assert "other producers" not in whole.stderr


def test_without_permission_to_scan_the_list_is_shown_with_a_notice(
    longwatch: Longwatch, journal: str, table: str, ministack_url: str
) -> None:
    longwatch("import", "-", "--journal", table, stdin=exported(longwatch, journal))
    put_theirs(table, "theirs")

    with without_scan(ministack_url) as url:
        done = longwatch("runs", "--journal", table.replace(ministack_url, url), "-o", "json")

    assert done.returncode == 0, done.stderr
    assert [run["run_id"] for run in json.loads(done.stdout)] == ["wf-1a2b3c4d"]
    assert "Runs of other producers are not listed: the right dynamodb:Scan is missing" in done.stderr


def test_doctor_describes_the_table_and_the_clock(longwatch: Longwatch, table: str) -> None:
    report = json.loads(longwatch("doctor", "--journal", table, "-o", "json").stdout)

    facts = {fact["name"]: fact["value"] for fact in report["parts"]["journal"]["facts"]}
    assert (facts["kind"], facts["status"]) == ("DynamoDB", "ACTIVE")
    assert "clock skew" in facts


def test_a_missing_table_is_reported_with_the_next_step(longwatch: Longwatch, ministack_url: str) -> None:
    url = f"dynamodb://no-such-table?region=eu-west-1&endpoint={ministack_url}"

    done = longwatch("runs", "--journal", url)

    assert done.returncode == 2
    assert "no-such-table" in done.stderr
    assert done.stderr.count("\n") == 1


def test_recording_to_a_table_needs_no_check(longwatch: Longwatch, table: str) -> None:
    done = longwatch("record", "note", "message=hello", "--journal", table, "-o", "json")

    assert json.loads(done.stdout)["stored_in"] == "journal"
