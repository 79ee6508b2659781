"""Document 000's questions and answers, one after the other, and what else the polling service promises."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import longwatch
from longwatch.errors import InvalidInput, InvalidJournalUrl, JournalUnusable, Unreachable
from longwatch.events import Event
from longwatch.following import PollingService, polling_service
from longwatch.following.subscriptions import WAITING_VALUES
from longwatch.journal.memory import MemoryJournal
from longwatch.testing import FaultyJournal
from longwatch.testing.clock import START_MS as NOW
from tests.contract.failing import Fails
from tests.contract.making import event, ids
from tests.contract.services import PATIENCE_SECONDS, Heard, virtual_service, whole_run


@pytest.fixture
def journal() -> MemoryJournal:
    return MemoryJournal()


@pytest.fixture
def service(journal: MemoryJournal) -> Iterator[PollingService]:
    with PollingService(journal) as service:
        yield service


@pytest.fixture
def heard() -> Heard[Event]:
    return Heard()


@pytest.fixture
def errors() -> Heard[Exception]:
    return Heard()


class TestQ1ItStopsByItself:
    @pytest.mark.parametrize("ending", ["workflow_complete", "workflow_error"])
    def test_polling_stops_when_the_workflow_has_ended(
        self, service: PollingService, journal: MemoryJournal, heard: Heard[Event], ending: str
    ) -> None:
        service.on_event(heard)

        service.start_polling("wf-1")
        assert service.is_polling
        journal.append(whole_run("wf-1", NOW, ending=ending))
        stopped = service.wait(PATIENCE_SECONDS)

        assert stopped
        assert not service.is_polling
        assert service.current_workflow_id is None
        assert ending in [each.type for each in heard.values]

    def test_stragglers_that_come_after_the_end_are_delivered_before_it_stops(
        self, journal: MemoryJournal, heard: Heard[Event]
    ) -> None:
        end = event("wf-1", NOW + 5, "workflow_complete")
        straggler = event("wf-1", NOW + 1)

        def append_straggler(each: Event) -> None:
            if each == end:
                journal.append([straggler])

        with virtual_service(journal) as service:
            service.on_event(heard)
            service.on_event(append_straggler)
            service.start_polling("wf-1")
            journal.append([event("wf-1", NOW, "workflow_start"), end])
            assert service.wait(PATIENCE_SECONDS)

        assert [each.type for each in heard.values] == ["workflow_start", "workflow_complete", "tool_call"]

    def test_there_is_one_service_for_the_process_on_the_journal_of_the_settings(
        self, monkeypatch: pytest.MonkeyPatch, heard: Heard[Event]
    ) -> None:
        monkeypatch.setenv("LONGWATCH_JOURNAL", "memory://polling-service-of-the-process")
        story = whole_run("wf-1", NOW)
        longwatch.open_journal().append(story)

        with polling_service() as service:
            assert polling_service() is service is longwatch.polling_service()
            service.on_event(heard)
            service.start_polling("wf-1")
            assert service.wait(PATIENCE_SECONDS)

        assert heard.values == story
        assert polling_service() is not service


class TestQ2EveryEventOnce:
    def test_two_events_of_one_millisecond_are_both_delivered(
        self, service: PollingService, journal: MemoryJournal, heard: Heard[Event]
    ) -> None:
        first, second = event("wf-1", NOW), event("wf-1", NOW)
        service.on_event(heard)
        service.start_polling("wf-1")

        journal.append([first])
        heard.has(1)
        journal.append([second])

        assert heard.has(2) == [first, second]

    def test_an_event_that_is_written_again_is_delivered_once(
        self, service: PollingService, journal: MemoryJournal, heard: Heard[Event]
    ) -> None:
        story = whole_run("wf-1", NOW)
        service.on_event(heard)
        service.start_polling("wf-1")

        journal.append(story[:2])
        heard.has(2)
        journal.append(story)
        service.wait(PATIENCE_SECONDS)

        assert heard.values == story


class TestQ3SubscriptionsAreDisposable:
    def test_a_disposed_subscription_is_not_called_any_more(
        self, service: PollingService, journal: MemoryJournal, heard: Heard[Event]
    ) -> None:
        stays, first, second = heard, event("wf-1", NOW), event("wf-1", NOW + 1)
        leaves: Heard[Event] = Heard()
        subscription = service.on_event(leaves)
        service.on_event(stays)
        service.start_polling("wf-1")
        journal.append([first])
        stays.has(1)

        subscription.dispose()
        subscription.dispose()
        journal.append([second])
        stays.has(2)

        assert not subscription.is_active
        assert leaves.values == [first]

    def test_a_subscription_ends_with_its_with_block(
        self, service: PollingService, heard: Heard[Event], errors: Heard[Exception]
    ) -> None:
        with service.on_event(heard) as events, service.on_error(errors) as troubles:
            assert events.is_active
            assert troubles.is_active

        assert not events.is_active
        assert not troubles.is_active

    def test_a_subscriber_that_raises_is_reported_and_hurts_nobody(
        self, service: PollingService, journal: MemoryJournal, heard: Heard[Event], errors: Heard[Exception]
    ) -> None:
        mistakes = [ValueError("mine"), SystemExit(3)]
        story = whole_run("wf-1", NOW)
        remaining = iter(mistakes)

        def careless(_: Event) -> None:
            raise next(remaining, KeyError("again"))

        service.on_event(careless)
        service.on_event(heard)
        service.on_error(errors)
        service.start_polling("wf-1")
        journal.append(story)
        service.wait(PATIENCE_SECONDS)

        assert heard.has(len(story)) == story
        reported = errors.has(len(story))
        assert reported[0] is mistakes[0]
        assert reported[1].__cause__ is mistakes[1]

    def test_what_a_subscriber_raises_is_logged_if_nobody_listens_to_errors(
        self, service: PollingService, journal: MemoryJournal, caplog: pytest.LogCaptureFixture
    ) -> None:
        def careless(_: object) -> None:
            raise ValueError("mine")

        service.on_event(careless)
        service.start_polling("wf-1")
        journal.append(whole_run("wf-1", NOW))
        service.wait(PATIENCE_SECONDS)

        assert "a subscriber of the polling service raised" in caplog.text
        assert "ValueError: mine" in caplog.text

    def test_a_listener_to_errors_that_raises_is_logged(
        self, journal: MemoryJournal, caplog: pytest.LogCaptureFixture, errors: Heard[Exception]
    ) -> None:
        def careless(_: object) -> None:
            raise ValueError("mine")

        faulty = Fails(journal)
        faulty.fail(Unreachable("away"), times=2)
        with virtual_service(faulty) as service:
            service.on_error(careless)
            service.on_error(errors)
            service.on_event(lambda _: None)
            service.start_polling("wf-1")
            errors.has(2)

        assert caplog.text.count("ValueError: mine") == 2

    @pytest.mark.parametrize("name", ["on_event", "on_error"])
    def test_a_coroutine_function_is_refused_since_nobody_would_await_it(
        self, service: PollingService, name: str
    ) -> None:
        async def callback(_: object) -> None: ...

        with pytest.raises(InvalidInput, match="nobody would await it"):
            getattr(service, name)(callback)

    def test_something_that_cannot_be_called_is_refused(self, service: PollingService) -> None:
        with pytest.raises(InvalidInput, match="can be called"):
            service.on_event("print")  # type: ignore[arg-type]


class TestQ4Backoff:
    def test_failures_are_waited_out_longer_each_time_and_a_success_resets_to_500_ms_at_once(
        self, journal: MemoryJournal, heard: Heard[Event], errors: Heard[Exception]
    ) -> None:
        first, second = event("wf-1", NOW), whole_run("wf-1", NOW + 1)
        polled = Fails(FaultyJournal(journal))  # has no arrivals, so it is polled, as DynamoDB is
        journal.append([first])

        def fail_now(each: Event) -> None:
            if each == first:
                polled.fail(Unreachable("away"), times=8)
                polled.asked_at.clear()

        with virtual_service(polled) as service:
            service.on_event(fail_now)
            service.on_event(heard)
            service.on_error(errors)
            service.start_polling("wf-1")
            errors.has(8)
            journal.append(second)
            service.wait(PATIENCE_SECONDS)

        waits = [after - before for before, after in zip(polled.asked_at, polled.asked_at[1:], strict=False)]
        assert waits[:8] == pytest.approx([1, 2, 4, 8, 16, 30, 30, 30], abs=0.02)
        assert max(waits[8:]) <= 0.52
        assert [str(error) for error in errors.values] == ["away"] * 8
        assert heard.values == [first, *second]

    def test_a_failure_before_the_first_answer_is_waited_out_as_well(
        self, journal: MemoryJournal, heard: Heard[Event], errors: Heard[Exception]
    ) -> None:
        faulty, story = Fails(journal), whole_run("wf-1", NOW)
        faulty.fail(Unreachable("away"), times=3)
        journal.append(story)

        with virtual_service(faulty) as service:
            service.on_event(heard)
            service.on_error(errors)
            service.start_polling("wf-1")
            service.wait(PATIENCE_SECONDS)

        assert heard.values == story
        assert len(errors.values) == 3
        assert faulty.asked_at[:4] == pytest.approx([0, 1, 3, 7], abs=0.05)

    def test_failures_are_logged_if_nobody_listens_to_errors(
        self, journal: MemoryJournal, heard: Heard[Event], caplog: pytest.LogCaptureFixture
    ) -> None:
        faulty = Fails(journal)
        faulty.fail(Unreachable("away"), times=1)
        journal.append(whole_run("wf-1", NOW))

        with virtual_service(faulty) as service, caplog.at_level(logging.WARNING):
            service.on_event(heard)
            service.start_polling("wf-1")
            service.wait(PATIENCE_SECONDS)

        assert "following workflow wf-1: Unreachable: away" in caplog.text

    @pytest.mark.parametrize("mistake", [JournalUnusable("not a journal"), ZeroDivisionError("a bug")])
    def test_what_waiting_cannot_help_is_reported_once_and_polling_stops(
        self, journal: MemoryJournal, errors: Heard[Exception], mistake: Exception
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

    def test_a_journal_without_wake_ups_is_asked_every_500_ms(
        self, journal: MemoryJournal, heard: Heard[Event]
    ) -> None:
        polled = Fails(FaultyJournal(journal))
        journal.append([event("wf-1", NOW)])

        with virtual_service(polled) as service:
            service.on_event(heard)
            service.start_polling("wf-1")
            heard.has(1)
            while len(polled.asked_at) < 12:
                journal.append([event("wf-1", NOW)])
                heard.has(len(heard.values) + 1)

        waits = [after - before for before, after in zip(polled.asked_at, polled.asked_at[1:], strict=False)]
        assert waits[1:10] == pytest.approx([0.5] * 9, abs=0.02)


class TestQ5OneWorkflowAtATime:
    def test_another_workflow_stops_the_first_and_starts_fresh(
        self, service: PollingService, journal: MemoryJournal, heard: Heard[Event]
    ) -> None:
        old, new = event("wf-old", NOW), whole_run("wf-new", NOW)
        journal.append([old, *new])
        service.on_event(heard)
        service.start_polling("wf-old")
        heard.has(1)

        service.start_polling("wf-new")
        assert service.current_workflow_id == "wf-new"
        journal.append([event("wf-old", NOW + 9)])
        service.wait(PATIENCE_SECONDS)

        assert heard.values == [old, *new]

    def test_the_same_workflow_again_changes_nothing_while_it_is_polled(
        self, service: PollingService, journal: MemoryJournal, heard: Heard[Event]
    ) -> None:
        story = whole_run("wf-1", NOW)
        journal.append(story[:1])
        service.on_event(heard)
        service.start_polling("wf-1")
        heard.has(1)

        service.start_polling("wf-1")
        journal.append(story[1:])
        service.wait(PATIENCE_SECONDS)

        assert heard.values == story

    def test_the_same_workflow_after_it_has_stopped_by_itself_starts_fresh(
        self, service: PollingService, journal: MemoryJournal, heard: Heard[Event]
    ) -> None:
        story = whole_run("wf-1", NOW)
        journal.append(story)
        service.on_event(heard)
        service.start_polling("wf-1")
        service.wait(PATIENCE_SECONDS)

        service.start_polling("wf-1")
        service.wait(PATIENCE_SECONDS)

        assert heard.values == story * 2

    def test_a_callback_may_start_another_workflow_and_gets_nothing_more_of_the_first(
        self, service: PollingService, journal: MemoryJournal, heard: Heard[Event]
    ) -> None:
        first, second = whole_run("wf-1", NOW, 300), whole_run("wf-2", NOW)
        journal.append([*first, *second])

        def go_on(each: Event) -> None:
            if each == first[10]:
                service.start_polling("wf-2")

        service.on_event(heard)
        service.on_event(go_on)
        service.start_polling("wf-1")
        heard.has(11 + len(second))
        service.wait(PATIENCE_SECONDS)

        assert heard.values == first[:11] + second

    def test_a_callback_that_stops_is_the_last_one_to_be_called(
        self, service: PollingService, journal: MemoryJournal, heard: Heard[Event]
    ) -> None:
        stopping: Heard[Event] = Heard()
        service.on_event(stopping)
        service.on_event(lambda _: service.stop_polling())
        service.on_event(heard)
        service.start_polling("wf-1")

        journal.append(whole_run("wf-1", NOW))
        stopping.has(1)
        service.wait(PATIENCE_SECONDS)
        service.dispose()

        assert len(stopping.values) == 1
        assert heard.values == []

    def test_no_id_is_no_workflow(self, service: PollingService) -> None:
        with pytest.raises(InvalidInput, match="needs the id"):
            service.start_polling("")


class TestQ6PollingIsForSubscribers:
    def test_polling_stops_when_the_last_subscriber_leaves_and_the_service_can_be_used_again(
        self, service: PollingService, journal: MemoryJournal, heard: Heard[Event]
    ) -> None:
        story = whole_run("wf-1", NOW)
        journal.append(story[:1])
        first, second = service.on_event(heard), service.on_event(lambda _: None)
        service.start_polling("wf-1")
        heard.has(1)

        first.dispose()
        assert service.is_polling
        second.dispose()
        assert not service.is_polling
        assert service.current_workflow_id is None

        again: Heard[Event] = Heard()
        service.on_event(again)
        assert not service.is_polling
        service.start_polling("wf-1")
        journal.append(story[1:])
        service.wait(PATIENCE_SECONDS)
        assert again.values == story
        assert heard.values == story[:1]

    def test_started_before_anybody_subscribes_it_waits_and_then_delivers_the_whole_history(
        self, service: PollingService, journal: MemoryJournal, heard: Heard[Event]
    ) -> None:
        story = whole_run("wf-1", NOW)
        journal.append(story)

        service.start_polling("wf-1")
        service.start_polling("wf-1")
        assert (service.is_polling, service.current_workflow_id) == (False, "wf-1")
        assert not service.wait(0)
        service.on_event(heard)
        service.wait(PATIENCE_SECONDS)

        assert heard.values == story

    def test_one_who_only_listens_to_errors_does_not_make_it_poll(
        self, service: PollingService, errors: Heard[Exception]
    ) -> None:
        service.on_error(errors)

        service.start_polling("wf-1")

        assert not service.is_polling

    def test_a_workflow_that_waits_can_be_stopped(self, service: PollingService, heard: Heard[Event]) -> None:
        service.start_polling("wf-1")

        service.stop_polling()
        service.on_event(heard)

        assert service.current_workflow_id is None
        assert not service.is_polling

    def test_a_late_subscriber_gets_what_comes_next(
        self, service: PollingService, journal: MemoryJournal, heard: Heard[Event]
    ) -> None:
        story = whole_run("wf-1", NOW)
        late: Heard[Event] = Heard()
        journal.append(story[:2])
        service.on_event(heard)
        service.start_polling("wf-1")
        heard.has(2)

        service.on_event(late)
        journal.append(story[2:])
        service.wait(PATIENCE_SECONDS)

        assert late.values == story[2:]
        assert heard.values == story


class TestQ7FromTheBeginning:
    def test_events_from_before_polling_began_are_delivered_first_and_in_order(
        self, service: PollingService, journal: MemoryJournal, heard: Heard[Event]
    ) -> None:
        story = whole_run("wf-1", NOW - 86_400_000, count=1_200)
        journal.append(story)

        service.on_event(heard)
        service.start_polling("wf-1")
        service.wait(PATIENCE_SECONDS)

        assert ids(heard.values) == ids(story)


class TestItsLife:
    def test_stop_polling_stops_and_may_be_called_at_any_time(
        self, service: PollingService, journal: MemoryJournal, heard: Heard[Event]
    ) -> None:
        service.stop_polling()
        service.on_event(heard)
        service.start_polling("wf-1")
        journal.append([event("wf-1", NOW)])
        heard.has(1)

        service.stop_polling()
        service.stop_polling()

        assert not service.is_polling
        assert service.wait(0)

    def test_dispose_ends_every_thread_and_leaves_a_given_journal_open(
        self, journal: MemoryJournal, heard: Heard[Event]
    ) -> None:
        before = set(threading.enumerate())
        service = PollingService(journal)
        subscription = service.on_event(heard)
        service.start_polling("wf-1")
        journal.append([event("wf-1", NOW)])
        heard.has(1)

        service.dispose()
        service.dispose()

        assert set(threading.enumerate()) <= before
        assert not subscription.is_active
        assert service.is_disposed
        assert len(journal.read("wf-1").events) == 1

    def test_a_disposed_service_says_so(self, heard: Heard[Event]) -> None:
        service = PollingService("memory://")
        service.dispose()

        with pytest.raises(InvalidInput, match="was disposed"):
            service.start_polling("wf-1")
        with pytest.raises(InvalidInput, match="was disposed"):
            service.on_event(heard)
        service.stop_polling()
        assert not service.is_polling

    def test_a_callback_may_dispose_of_the_service(self, journal: MemoryJournal, heard: Heard[Event]) -> None:
        before = set(threading.enumerate())
        service = PollingService(journal)
        story = whole_run("wf-1", NOW)
        journal.append(story)

        service.on_event(heard)
        service.on_event(lambda _: service.dispose())
        service.start_polling("wf-1")
        heard.has(1)
        service.dispose()

        assert heard.values == story[:1]
        assert set(threading.enumerate()) <= before

    def test_waiting_in_a_callback_is_refused_rather_than_for_ever(
        self, service: PollingService, journal: MemoryJournal, errors: Heard[Exception]
    ) -> None:
        service.on_event(lambda _: service.wait())
        service.on_error(errors)
        service.start_polling("wf-1")

        journal.append([event("wf-1", NOW)])

        assert "wait for itself" in str(errors.has(1)[0])

    def test_a_mistake_in_the_journals_address_is_told_to_whoever_starts(self) -> None:
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
        self, service: PollingService, journal: MemoryJournal, heard: Heard[Event], errors: Heard[Exception]
    ) -> None:
        story, done = whole_run("wf-1", NOW), asyncio.Event()

        def take(each: Event) -> None:
            heard(each)
            if each == story[-1]:
                done.set()
                raise ValueError("mine")

        told = asyncio.Event()
        service.on_event(take)
        service.on_error(errors)
        service.on_error(lambda _: told.set())
        service.start_polling("wf-1")
        journal.append(story)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await done.wait()
            await told.wait()

        assert heard.values == story
        assert {*heard.threads, *errors.threads} == {threading.current_thread()}
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

    def test_a_subscriber_whose_loop_is_closed_is_dropped_and_hurts_nobody(
        self, service: PollingService, journal: MemoryJournal, heard: Heard[Event]
    ) -> None:
        async def subscribe() -> longwatch.following.Subscription[Event]:
            return service.on_event(lambda _: None)

        gone = asyncio.run(subscribe())
        service.on_event(heard)
        story = whole_run("wf-1", NOW)
        journal.append(story)
        service.start_polling("wf-1")
        service.wait(PATIENCE_SECONDS)

        assert heard.values == story
        assert not gone.is_active

    async def test_aclose_disposes_without_blocking_the_loop(
        self, journal: MemoryJournal, heard: Heard[Event]
    ) -> None:
        before = set(threading.enumerate())
        service = PollingService(journal)
        service.on_event(heard)
        service.start_polling("wf-1")

        await service.aclose()

        assert service.is_disposed
        assert set(threading.enumerate()) <= before

    def test_a_callback_may_subscribe_another_one_which_runs_in_the_services_thread(
        self, service: PollingService, journal: MemoryJournal, heard: Heard[Event]
    ) -> None:
        story = whole_run("wf-1", NOW)

        def subscribe(each: Event) -> None:
            if each == story[0]:
                service.on_event(heard)

        service.on_event(subscribe)
        service.start_polling("wf-1")
        journal.append(story)
        service.wait(PATIENCE_SECONDS)

        assert heard.values == story[1:]
        assert {thread.name for thread in heard.threads} == {"longwatch-polling-service"}


def _subscribe_plainly(service: PollingService, seen: threading.Event) -> None:
    service.on_event(lambda _: seen.set())


def _count_plainly(service: PollingService) -> Heard[Event]:
    plain: Heard[Event] = Heard()
    service.on_event(plain)
    return plain
