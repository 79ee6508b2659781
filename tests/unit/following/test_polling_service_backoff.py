"""How the polling service takes failures, by the fourth question of the polling requirements."""

from __future__ import annotations

import logging

import pytest

from longwatch.errors import JournalUnusable, Unreachable
from longwatch.journal.memory import MemoryJournal
from longwatch.model.event import Event
from longwatch.testing import FaultyJournal
from longwatch.testing.clock import START_MS as NOW
from tests.contract.events import event
from tests.contract.faults import Fails
from tests.contract.services import Received, virtual_service, whole_run
from tests.patience import PATIENCE_SECONDS


class TestQ4Backoff:
    def test_failures_are_waited_out_longer_each_time_and_a_success_resets_to_500_ms_at_once(
        self, journal: MemoryJournal, received: Received[Event], errors: Received[Exception]
    ) -> None:
        first, second = event("wf-1", NOW), whole_run("wf-1", NOW + 1)
        polled = Fails(FaultyJournal(journal))  # has no arrivals, so it is polled, as DynamoDB is
        journal.append([first])

        def fail_now(each: Event) -> None:
            if each == first:
                polled.fail(Unreachable("away"), times=8)
                polled.polled_at.clear()

        with virtual_service(polled) as service:
            service.on_event(fail_now)
            service.on_event(received)
            service.on_error(errors)
            service.start_polling("wf-1")
            errors.has(8)
            journal.append(second)
            service.wait(PATIENCE_SECONDS)

        waits = [
            after - before for before, after in zip(polled.polled_at, polled.polled_at[1:], strict=False)
        ]
        assert waits[:8] == pytest.approx([1, 2, 4, 8, 16, 30, 30, 30], abs=0.02)
        assert max(waits[8:]) <= 0.52
        assert [str(error) for error in errors.values] == ["away"] * 8
        assert received.values == [first, *second]

    def test_a_failure_before_the_first_response_is_waited_out_as_well(
        self, journal: MemoryJournal, received: Received[Event], errors: Received[Exception]
    ) -> None:
        faulty, story = Fails(journal), whole_run("wf-1", NOW)
        faulty.fail(Unreachable("away"), times=3)
        journal.append(story)

        with virtual_service(faulty) as service:
            service.on_event(received)
            service.on_error(errors)
            service.start_polling("wf-1")
            service.wait(PATIENCE_SECONDS)

        assert received.values == story
        assert len(errors.values) == 3
        assert faulty.polled_at[:4] == pytest.approx([0, 1, 3, 7], abs=0.05)

    def test_failures_are_logged_without_an_error_listener(
        self, journal: MemoryJournal, received: Received[Event], caplog: pytest.LogCaptureFixture
    ) -> None:
        faulty = Fails(journal)
        faulty.fail(Unreachable("away"), times=1)
        journal.append(whole_run("wf-1", NOW))

        with virtual_service(faulty) as service, caplog.at_level(logging.WARNING):
            service.on_event(received)
            service.start_polling("wf-1")
            service.wait(PATIENCE_SECONDS)

        assert "following workflow wf-1: Unreachable: away" in caplog.text

    @pytest.mark.parametrize("mistake", [JournalUnusable("not a journal"), ZeroDivisionError("a bug")])
    def test_a_permanent_error_is_reported_once_and_polling_stops(
        self, journal: MemoryJournal, errors: Received[Exception], mistake: Exception
    ) -> None:
        faulty = Fails(journal)
        faulty.fail(mistake)

        with virtual_service(faulty) as service:
            service.on_event(lambda _: None)
            service.on_error(errors)
            service.start_polling("wf-1")
            assert service.wait(PATIENCE_SECONDS)
            errors.has(1)

        assert errors.values == [mistake]

    def test_a_journal_without_a_change_signal_is_polled_every_500_ms(
        self, journal: MemoryJournal, received: Received[Event]
    ) -> None:
        polled = Fails(FaultyJournal(journal))
        journal.append([event("wf-1", NOW)])

        with virtual_service(polled) as service:
            service.on_event(received)
            service.start_polling("wf-1")
            received.has(1)
            while len(polled.polled_at) < 12:
                journal.append([event("wf-1", NOW)])
                received.has(len(received.values) + 1)

        waits = [
            after - before for before, after in zip(polled.polled_at, polled.polled_at[1:], strict=False)
        ]
        assert waits[1:10] == pytest.approx([0.5] * 9, abs=0.02)
