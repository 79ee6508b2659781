"""Documents on DynamoDB: lost responses, writers that end in the middle, missing tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from longwatch.documents.stores.dynamodb import DynamoDocumentStore, log_of, part_items
from longwatch.documents.stores.dynamodb_table import DocumentTable, Put
from longwatch.documents.stores.factory import open_documents
from longwatch.errors import JournalUnusable, TableProblem, Unreachable
from longwatch.storage.dynamodb.values import AttributeMap
from longwatch.storage.urls import TableAddress
from tests.contract.documents_tables import SharedDocumentTable, new_document_table
from tests.contract.tables import REGION

BIG = bytes(range(256)) * 4000  # three parts


class FailingTable(SharedDocumentTable):
    """Loses the response to a transaction, or fails to delete, on demand."""

    lose_answers = 0
    fail_deletions = 0
    fail_parts_after: int | None = None

    def transact(self, *parts: Put) -> list[str]:
        response = super().transact(*parts)
        if self.lose_answers:
            self.lose_answers -= 1
            raise Unreachable("no answer in time, by the test")
        return response

    def delete(self, keys: object) -> None:
        if self.fail_deletions:
            self.fail_deletions -= 1
            raise Unreachable("no answer in time, by the test")
        super().delete(keys)  # type: ignore[arg-type]

    def put(self, item: AttributeMap) -> None:
        if self.fail_parts_after is not None:
            if self.fail_parts_after == 0:
                raise Unreachable("no connection, by the test")
            self.fail_parts_after -= 1
        super().put(item)


@pytest.fixture(
    params=[
        pytest.param("ministack_url", id="ministack", marks=pytest.mark.needs_ministack),
        pytest.param("dynamodb_local_url", id="dynamodb-local", marks=pytest.mark.needs_java),
    ]
)
def at(request: pytest.FixtureRequest) -> Iterator[TableAddress]:
    with ExitStack() as opened:
        yield opened.enter_context(new_document_table(request.getfixturevalue(request.param)))


@pytest.fixture
def table(at: TableAddress) -> FailingTable:
    return FailingTable(at)


@pytest.fixture
def store(table: FailingTable) -> DynamoDocumentStore:
    return DynamoDocumentStore(table)


def log_keys(table: DocumentTable, path: str) -> list[str]:
    return [item["sk"]["S"] for item in table.between(log_of("p", path), "0", "9" * 20, keys_only=True)]


def test_a_write_whose_response_was_lost_can_be_repeated(
    store: DynamoDocumentStore, table: FailingTable
) -> None:
    store.write_text("p", "a.md", "one\n")
    table.lose_answers = 1

    with pytest.raises(Unreachable):
        store.write_text("p", "a.md", "one\ntwo\n")
    again = store.write_text("p", "a.md", "one\ntwo\n")

    assert (again.version, again.changed) == (2, False)
    store.write_text("p", "a.md", "one\ntwo\nthree\n")
    assert store.text("p", "a.md") == "one\ntwo\nthree\n"


def test_a_long_update_lies_in_parts_that_each_fit_into_an_item(
    store: DynamoDocumentStore, table: FailingTable
) -> None:
    store.write_bytes("p", "big", BIG)

    keys = log_keys(table, "big")

    assert len(keys) == 1 + 3
    assert store.content("p", "big") == BIG


def test_parts_of_a_writer_that_ended_are_not_read_and_removed_later(
    store: DynamoDocumentStore, table: FailingTable
) -> None:
    store.write_text("p", "a", "x")
    table.fail_parts_after = 2
    with pytest.raises(Unreachable):
        store.write_bytes("p", "a", BIG)
    table.fail_parts_after = None

    assert store.text("p", "a") == "x"
    assert len(log_keys(table, "a")) == 1 + 2
    store.write_text("p", "a", "x y")
    assert store.text("p", "a") == "x y"
    assert store.compact("p", "a")
    assert len(log_keys(table, "a")) == 1
    assert store.text("p", "a") == "x y"


def test_parts_that_are_being_written_survive_a_compaction(
    store: DynamoDocumentStore, table: FailingTable
) -> None:
    store.write_text("p", "a", "x")
    store.write_text("p", "a", "x y")
    for item in part_items(log_of("p", "a"), 3, "token", [b"one", b"two"]):
        table.put(item)

    store.compact("p", "a")

    assert len(log_keys(table, "a")) == 1 + 2


def test_a_compaction_that_could_not_clean_up_is_finished_by_the_next(
    store: DynamoDocumentStore, table: FailingTable
) -> None:
    for text in ("x", "x y", "x y z"):
        store.write_text("p", "a", text)
    table.fail_deletions = 1

    assert store.compact("p", "a")

    assert len(log_keys(table, "a")) == 3
    assert store.text("p", "a") == "x y z"
    store.write_text("p", "a", "more")
    store.compact("p", "a")
    assert len(log_keys(table, "a")) == 1
    assert store.text("p", "a") == "more"


def test_a_compaction_that_keeps_failing_does_not_harm_the_write(
    store: DynamoDocumentStore, table: FailingTable
) -> None:
    other = DynamoDocumentStore(SharedDocumentTable(table.address))
    store.write_bytes("p", "a", BIG)
    table.fail_deletions = 10

    store.write_bytes("p", "a", BIG[::-1])

    assert other.content("p", "a") == BIG[::-1]
    assert other.read("p", "a").version == 2


def test_missing_updates_are_reported_as_damage(store: DynamoDocumentStore, table: FailingTable) -> None:
    store.write_text("p", "a", "x")
    store.write_text("p", "a", "x y")
    table.delete(list(table.between(log_of("p", "a"), "0", "9" * 20, keys_only=True)))

    with pytest.raises(JournalUnusable, match="not all in table"):
        store.text("p", "a")


def test_a_list_that_is_longer_than_a_page_is_whole(store: DynamoDocumentStore, table: FailingTable) -> None:
    for number in range(60):  # more than a megabyte of heads
        table.put({**_head_like(f"{number:04d}", number + 1), "more": {"B": bytes(20_000)}})

    listed = store.files("p", since=0).files
    later = store.files("p", since=30).files

    assert len(listed) == 60
    assert len(later) == 30
    assert [each.path for each in listed] == sorted(each.path for each in listed)


def _head_like(path: str, version: int) -> AttributeMap:
    from longwatch.documents.files import FileKind
    from longwatch.documents.stores.base import next_head, set_project_version
    from longwatch.documents.stores.dynamodb import head_item

    head = next_head(
        None,
        path=path,
        kind=FileKind.TEXT,
        content=b"",
        deleted=False,
        waits=False,
        update_bytes=2,
        now_ms=1,
    )
    return head_item("p", set_project_version(head, version))


def test_the_error_of_a_missing_table_names_the_template(at: TableAddress) -> None:
    url = f"dynamodb://no-such-table?region={REGION}&endpoint={at.endpoint}"

    with open_documents(url) as store, pytest.raises(TableProblem, match=r"documents-table\.yaml") as raised:
        store.projects()

    assert raised.value.kind == "not-found"


def test_an_unreachable_engine_is_a_retryable_error() -> None:
    url = f"dynamodb://table?region={REGION}&endpoint=http://127.0.0.1:9"

    with open_documents(url) as store, pytest.raises(Unreachable):
        store.write_text("p", "a", "x")
