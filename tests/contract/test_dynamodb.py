"""The DynamoDB journal keeps the promises, in both layouts, on two engines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from longwatch.following.observation import read_known
from longwatch.journal.dynamodb.journal import DynamoJournal
from longwatch.journal.verify import Completeness, Verifier
from longwatch.model.event import UNREADABLE
from longwatch.model.run import Status
from longwatch.testing.clock import FakeClock
from tests.contract.deletions import DeletionContract
from tests.contract.events import OpenAgain
from tests.contract.journal import JournalContract
from tests.contract.tables import SharedTable, client_of, new_table
from tests.integration.sqlite.damage import AT, chain


class DynamoJournalContract(JournalContract, DeletionContract):
    layout: str
    examples = 8
    shrinks = False

    @pytest.fixture
    def open_again(self, clock: FakeClock, engine_url: str) -> Iterator[OpenAgain]:
        with ExitStack() as opened:
            at = opened.enter_context(new_table(engine_url, self.layout))
            yield lambda: opened.enter_context(DynamoJournal(SharedTable(at), at, clock=clock))


class TestWorkflowLayout(DynamoJournalContract):
    layout = "workflow"


class TestSessionLayout(DynamoJournalContract):
    layout = "session"


@pytest.mark.parametrize(
    ("layout", "payload", "number"), [("workflow", "payload", "number"), ("session", "Payload", "Number")]
)
def test_an_item_of_ours_that_cannot_be_decoded_is_a_marked_gap(
    engine_url: str, layout: str, payload: str, number: str
) -> None:
    runs = {run_id: chain(run_id, 6) for run_id in ("run-a", "run-b")}
    with new_table(engine_url, layout) as at, DynamoJournal(SharedTable(at), at) as journal:
        for events in runs.values():
            journal.append(events)
        client = client_of(engine_url)
        for item in client.scan(TableName=at.table)["Items"]:
            if "run-b" in str(item) and item.get(number) == {"N": "3"}:
                client.put_item(TableName=at.table, Item={**item, payload: {"N": "7"}})

        found = {run_id: list(journal.read(run_id, thorough=True).events) for run_id in runs}
        judged = read_known(journal, "run-b")

    verifier = Verifier()
    for event in found["run-b"]:
        verifier.add(event)
    gap = found["run-b"][2]
    assert found["run-a"] == runs["run-a"]
    assert (gap.type, gap.number, gap.event_id) == (UNREADABLE, 3, runs["run-b"][2].event_id)
    assert [*found["run-b"][:2], *found["run-b"][3:]] == [*runs["run-b"][:2], *runs["run-b"][3:]]
    assert verifier.report(AT).answer is Completeness.ALTERED
    assert judged.status is Status.SUCCEEDED
