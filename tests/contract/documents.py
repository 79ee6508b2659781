"""What every document store promises, as tests. An adapter's test class inherits them and opens it."""

from __future__ import annotations

import threading

from longwatch.documents.store import DocumentStore
from longwatch.documents.stores.factory import open_documents
from longwatch.testing.clock import FakeClock
from tests.contract.documents_basis import OpenStore
from tests.contract.documents_concurrency import ConcurrentWritesContract
from tests.contract.documents_content import ContentContract
from tests.contract.documents_list import FileListContract


class DocumentsContract(FileListContract, ContentContract, ConcurrentWritesContract):
    """The promises of `longwatch.documents.store.DocumentStore`."""

    def test_the_url_opens_the_same_store(self, store: DocumentStore, clock: FakeClock, project: str) -> None:
        store.write_text(project, "a.md", "hello")

        with open_documents(store.url, clock=clock) as again:
            assert again.url == store.url
            if self.opens_by_url:
                assert again.text(project, "a.md") == "hello"

    def test_a_subscriber_is_notified_of_each_change(self, store: DocumentStore, project: str) -> None:
        notified = threading.Event()
        signal = store.subscribe(notified.set)

        store.write_text(project, "a.md", "hello")

        assert notified.is_set()
        signal.close()
        notified.clear()
        store.write_text(project, "a.md", "more")
        assert not notified.is_set()

    def test_closing_twice_is_not_an_error(self, open_store: OpenStore) -> None:
        with open_store() as store:
            pass

        store.close()
