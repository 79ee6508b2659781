"""What agents journal about their sessions, on real engines: errors of any size."""

from __future__ import annotations

import pytest

from longwatch.journal.dynamodb.journal import DynamoJournal
from longwatch.model.run import Status
from longwatch.recording.sessions import SessionRecorder
from longwatch.storage.urls import TableAddress
from tests.contract.tables import SharedTable, client_of, new_table


@pytest.mark.parametrize("letter", ["x", "語"])
@pytest.mark.parametrize("characters", [350_000, 2_000_000])
def test_an_error_larger_than_an_item_still_leaves_the_failed_record(
    address: TableAddress, letter: str, characters: int
) -> None:
    journal = DynamoJournal(SharedTable(address), address)
    session_id = f"{letter}-{characters}"

    stored = SessionRecorder(journal, session_id, execution="e-1").try_record(
        "AGENT_BACKGROUND_TASK_FAILED", error=RuntimeError(letter * characters)
    )

    assert stored
    (event,) = journal.read(session_id).events
    assert event.payload["execution"] == "e-1"
    assert str(event.payload["error_message"]).startswith(f"RuntimeError: {letter}")
    found = journal.find_run(session_id)
    assert found is not None
    assert found.status is Status.FAILED


def test_a_failure_has_its_first_4096_characters_in_error_message(engine_url: str) -> None:
    with new_table(engine_url, "session") as address:
        journal = DynamoJournal(SharedTable(address), address)

        SessionRecorder(journal, "s-1").try_record("AGENT_BACKGROUND_TASK_FAILED", error="y" * 1_000_000)

        (item,) = client_of(engine_url).query(
            TableName=address.table,
            KeyConditionExpression="PK = :pk",
            ExpressionAttributeValues={":pk": {"S": "SESSION#s-1"}},
        )["Items"]
        assert item["ErrorMessage"]["S"] == "y" * 4_096
