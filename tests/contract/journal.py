"""What every journal promises, as tests. An adapter's test class inherits them and defines how to open it."""

from __future__ import annotations

from longwatch.journal.base import Journal
from longwatch.journal.factory import open_journal
from longwatch.testing.clock import FakeClock
from tests.contract.append import AppendContract
from tests.contract.events import OpenAgain, event, new_run
from tests.contract.heartbeats import HeartbeatsContract
from tests.contract.read import ReadContract
from tests.contract.read_last import ReadLastContract
from tests.contract.run_list import RunListContract
from tests.contract.times import TimesContract
from tests.contract.values import ValuesContract


class JournalContract(
    AppendContract,
    TimesContract,
    ReadContract,
    ReadLastContract,
    ValuesContract,
    RunListContract,
    HeartbeatsContract,
):
    """The promises of `longwatch.journal.base.Journal`."""

    def test_the_url_opens_the_same_journal(self, journal: Journal, clock: FakeClock, now: int) -> None:
        stored = event(new_run(), now)
        journal.append([stored])

        with open_journal(journal.url, clock=clock) as again:
            assert again.url == journal.url
            if self.opens_by_url:
                assert list(again.read(stored.run_id).events) == [stored]

    def test_closing_twice_is_not_an_error(self, open_again: OpenAgain) -> None:
        with open_again() as journal:
            pass

        journal.close()
