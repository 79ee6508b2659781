"""What the polling service promises beside the polling requirements: its life, asyncio and threads."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

import longwatch
from longwatch.errors import InvalidInput, InvalidJournalUrl
from longwatch.following import PollingService
from longwatch.following.callbacks import WAITING_VALUES
from longwatch.journal.memory import MemoryJournal
from longwatch.model.event import Event
from longwatch.testing.clock import START_MS as NOW
from tests.contract.events import event
from tests.contract.services import Received, whole_run
from tests.patience import PATIENCE_SECONDS


class TestItsLife:
    def test_stop_polling_stops_and_may_be_called_at_any_time(
        self, service: PollingService, journal: MemoryJournal, received: Received[Event]
    ) -> None:
        service.stop_polling()
        service.on_event(received)
        service.start_polling("wf-1")
        journal.append([event("wf-1", NOW)])
        received.has(1)

        service.stop_polling()
        service.stop_polling()

        assert not service.is_polling
        assert service.wait(0)

    def test_dispose_ends_every_thread_and_leaves_a_given_journal_open(
        self, journal: MemoryJournal, received: Received[Event]
    ) -> None:
        before = set(threading.enumerate())
        service = PollingService(journal)
        subscription = service.on_event(received)
        service.start_polling("wf-1")
        journal.append([event("wf-1", NOW)])
        received.has(1)

        service.dispose()
        service.dispose()

        assert set(threading.enumerate()) <= before
        assert not subscription.is_active
        assert service.is_disposed
        assert len(journal.read("wf-1").events) == 1

    def test_a_disposed_service_raises_an_error(self, received: Received[Event]) -> None:
        service = PollingService("memory://")
        service.dispose()

        with pytest.raises(InvalidInput, match="was disposed"):
            service.start_polling("wf-1")
        with pytest.raises(InvalidInput, match="was disposed"):
            service.on_event(received)
        service.stop_polling()
        assert not service.is_polling

    def test_a_callback_may_dispose_of_the_service(
        self, journal: MemoryJournal, received: Received[Event]
    ) -> None:
        before = set(threading.enumerate())
        service = PollingService(journal)
        story = whole_run("wf-1", NOW)
        journal.append(story)

        service.on_event(received)
        service.on_event(lambda _: service.dispose())
        service.start_polling("wf-1")
        received.has(1)
        service.dispose()

        assert received.values == story[:1]
        assert set(threading.enumerate()) <= before

    def test_waiting_in_a_callback_is_refused_rather_than_for_ever(
        self, service: PollingService, journal: MemoryJournal, errors: Received[Exception]
    ) -> None:
        service.on_event(lambda _: service.wait())
        service.on_error(errors)
        service.start_polling("wf-1")

        journal.append([event("wf-1", NOW)])

        assert "wait for itself" in str(errors.has(1)[0])

    def test_an_invalid_journal_url_is_reported_to_the_caller_that_starts(self) -> None:
        with PollingService("postgres://events") as service:
            with pytest.raises(InvalidJournalUrl):
                service.start_polling("wf-1")

            assert service.current_workflow_id is None

    def test_nothing_is_opened_before_the_first_start(self, tmp_path: Path) -> None:
        with PollingService(f"sqlite:///{tmp_path}/events.db") as service:
            service.on_event(lambda _: None)

            assert not (tmp_path / "events.db").exists()


class TestInAsyncio:
    async def test_callbacks_run_in_the_loop_that_subscribed(
        self,
        service: PollingService,
        journal: MemoryJournal,
        received: Received[Event],
        errors: Received[Exception],
    ) -> None:
        story, done = whole_run("wf-1", NOW), asyncio.Event()

        def take(each: Event) -> None:
            received(each)
            if each == story[-1]:
                done.set()
                raise ValueError("mine")

        reported = asyncio.Event()
        service.on_event(take)
        service.on_error(errors)
        service.on_error(lambda _: reported.set())
        service.start_polling("wf-1")
        journal.append(story)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await done.wait()
            await reported.wait()

        assert received.values == story
        assert {*received.threads, *errors.threads} == {threading.current_thread()}
        assert [str(error) for error in errors.values] == ["mine"]

    async def test_nothing_comes_after_stop_polling_though_it_was_on_its_way(
        self, service: PollingService, journal: MemoryJournal
    ) -> None:
        came: list[Event] = []
        seen = threading.Event()
        journal.append(whole_run("wf-1", NOW))
        service.on_event(came.append)
        await asyncio.to_thread(_subscribe_plainly, service, seen)
        service.start_polling("wf-1")
        assert seen.wait(PATIENCE_SECONDS)  # blocks this loop, so what was handed to it can only wait

        service.stop_polling()
        await asyncio.to_thread(service.dispose)

        assert came == []

    async def test_a_loop_that_is_slow_is_waited_for_and_loses_nothing(
        self, service: PollingService, journal: MemoryJournal
    ) -> None:
        story, came = whole_run("wf-1", NOW, count=3 * WAITING_VALUES), list[Event]()
        journal.append(story)
        done, ahead = asyncio.Event(), list[int]()
        plain = await asyncio.to_thread(_count_plainly, service)

        def take(each: Event) -> None:
            ahead.append(len(plain.values) - len(came))
            came.append(each)
            if each == story[-1]:
                done.set()

        service.on_event(take)
        service.start_polling("wf-1")
        plain.has(WAITING_VALUES)  # blocks this loop
        async with asyncio.timeout(PATIENCE_SECONDS):
            await done.wait()

        assert max(ahead) <= WAITING_VALUES + 1
        assert came == story

    def test_a_subscriber_whose_loop_is_closed_is_dropped_and_affects_no_other(
        self, service: PollingService, journal: MemoryJournal, received: Received[Event]
    ) -> None:
        async def subscribe() -> longwatch.following.Subscription[Event]:
            return service.on_event(lambda _: None)

        gone = asyncio.run(subscribe())
        service.on_event(received)
        story = whole_run("wf-1", NOW)
        journal.append(story)
        service.start_polling("wf-1")
        service.wait(PATIENCE_SECONDS)

        assert received.values == story
        assert not gone.is_active

    async def test_aclose_disposes_without_blocking_the_loop(
        self, journal: MemoryJournal, received: Received[Event]
    ) -> None:
        before = set(threading.enumerate())
        service = PollingService(journal)
        service.on_event(received)
        service.start_polling("wf-1")

        await service.aclose()

        assert service.is_disposed
        assert set(threading.enumerate()) <= before

    def test_a_callback_may_subscribe_another_one_which_runs_in_the_services_thread(
        self, service: PollingService, journal: MemoryJournal, received: Received[Event]
    ) -> None:
        story = whole_run("wf-1", NOW)

        def subscribe(each: Event) -> None:
            if each == story[0]:
                service.on_event(received)

        service.on_event(subscribe)
        service.start_polling("wf-1")
        journal.append(story)
        service.wait(PATIENCE_SECONDS)

        assert received.values == story[1:]
        assert {thread.name for thread in received.threads} == {"longwatch-polling-service"}


def _subscribe_plainly(service: PollingService, seen: threading.Event) -> None:
    service.on_event(lambda _: seen.set())


def _count_plainly(service: PollingService) -> Received[Event]:
    plain: Received[Event] = Received()
    service.on_event(plain)
    return plain
