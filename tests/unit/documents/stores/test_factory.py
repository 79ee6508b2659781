"""From an address, or from the settings, to a document store."""

from __future__ import annotations

from pathlib import Path

import pytest

from longwatch.documents.stores.dynamodb import DynamoDocumentStore
from longwatch.documents.stores.factory import documents_url, open_documents
from longwatch.documents.stores.memory import MemoryDocumentStore
from longwatch.documents.stores.sqlite import SqliteDocumentStore
from longwatch.errors import InvalidJournalUrl, MissingExtra
from longwatch.settings import Settings, load_settings


def test_a_sqlite_url_opens_a_file_when_it_is_used(tmp_path: Path) -> None:
    with open_documents(f"sqlite:///{tmp_path}/documents.db") as store:
        assert isinstance(store, SqliteDocumentStore)
        assert not (tmp_path / "documents.db").exists()
        store.create_project("p")

    assert (tmp_path / "documents.db").exists()


def test_a_named_store_in_memory_is_one_for_the_process() -> None:
    one, other = open_documents("memory://documents-here"), open_documents("memory://documents-here")

    assert one is other
    assert isinstance(one, MemoryDocumentStore)
    assert open_documents("memory://") is not open_documents("memory://")


def test_a_table_is_connected_when_it_is_used() -> None:
    store = open_documents("dynamodb://some-table?region=eu-west-1&endpoint=http://127.0.0.1:9")

    assert isinstance(store, DynamoDocumentStore)
    assert (store.address.table, store.address.region) == ("some-table", "eu-west-1")
    assert store.url == "dynamodb://some-table?region=eu-west-1&endpoint=http%3A%2F%2F127.0.0.1%3A9"


def test_region_and_endpoint_of_the_settings_apply_where_the_url_has_none() -> None:
    settings = Settings(journal="memory://", region="eu-north-1", endpoint="http://127.0.0.1:9")

    store = open_documents("dynamodb://", settings=settings)

    assert isinstance(store, DynamoDocumentStore)
    assert (store.address.table, store.address.region) == ("longwatch-documents", "eu-north-1")
    assert store.address.endpoint == "http://127.0.0.1:9"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "Invalid document store URL"),
        ("file.db", "Invalid document store URL"),
        ("redis://x", "Invalid document store URL"),
        ("http://[", "Invalid document store URL"),
        ("sqlite://file.db", "host"),
        ("sqlite:///a.db?layout=x", "Unknown option"),
        ("memory:///path", "takes no path"),
        ("dynamodb://table/path", "nothing may follow the table name"),
        ("dynamodb://table?layout=session", "Unknown option"),
    ],
)
def test_an_unsupported_url_is_refused(url: str, message: str) -> None:
    with pytest.raises(InvalidJournalUrl, match=message):
        open_documents(url)


@pytest.mark.parametrize(
    ("journal", "documents", "expected"),
    [
        ("sqlite:////tmp/j.db", None, "sqlite:////tmp/j.db"),
        ("memory://name", None, "memory://name"),
        (
            "dynamodb://events?region=eu-west-1&layout=session",
            None,
            "dynamodb://longwatch-documents?region=eu-west-1",
        ),
        ("dynamodb://", None, "dynamodb://longwatch-documents"),
        ("dynamodb://events", "sqlite:////tmp/d.db", "sqlite:////tmp/d.db"),
    ],
)
def test_documents_are_beside_the_journal_unless_set_otherwise(
    journal: str, documents: str | None, expected: str
) -> None:
    assert documents_url(Settings(journal=journal, documents=documents)) == expected


def test_a_relative_file_in_the_settings_is_relative_to_them(tmp_path: Path) -> None:
    (tmp_path / "longwatch.toml").write_text('documents = "sqlite:///d.db"\n')
    below = tmp_path / "below"
    below.mkdir()

    settings = load_settings(directory=below, environment={})

    assert documents_url(settings) == f"sqlite:///{tmp_path}/d.db"


def test_without_pycrdt_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("longwatch.documents.stores.factory.find_spec", lambda _: None)

    with pytest.raises(MissingExtra, match=r"pip install .\.\[server\]"):
        open_documents("memory://")
