"""The same commands on a DynamoDB table: what is recorded there is listed, shown and verified."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.acceptance.conftest import Longwatch
from tests.contract.tables import new_table

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


def test_doctor_describes_the_table_and_the_clock(longwatch: Longwatch, table: str) -> None:
    report = json.loads(longwatch("doctor", "--journal", table, "-o", "json").stdout)

    facts = {fact["name"]: fact["value"] for fact in report["parts"]["journal"]["facts"]}
    assert (facts["kind"], facts["status"]) == ("DynamoDB", "ACTIVE")
    assert "clock skew" in facts


def test_a_table_that_is_not_there_is_told_with_what_to_do(longwatch: Longwatch, ministack_url: str) -> None:
    url = f"dynamodb://no-such-table?region=eu-west-1&endpoint={ministack_url}"

    done = longwatch("runs", "--journal", url)

    assert done.returncode == 2
    assert "no-such-table" in done.stderr
    assert done.stderr.count("\n") == 1


def test_recording_to_a_table_needs_no_check(longwatch: Longwatch, table: str) -> None:
    done = longwatch("record", "note", "message=hello", "--journal", table, "-o", "json")

    assert json.loads(done.stdout)["stored_in"] == "journal"
