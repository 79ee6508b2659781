"""The questions of the polling requirements, in order; the fourth is in `test_polling_service_backoff`."""

from __future__ import annotations

from typing import Any

import pytest

import longwatch
from longwatch.errors import InvalidInput, Unreachable
from longwatch.following import PollingService, polling_service
from longwatch.following.hub import Hub
from longwatch.journal.memory import MemoryJournal
from longwatch.model.event import Event
from longwatch.testing.clock import START_MS as NOW
from tests.contract.events import event, ids
from tests.contract.faults import Fails
from tests.contract.services import Received, virtual_service, whole_run
from tests.patience import PATIENCE_SECONDS


class TestQ1ItStopsByItself:
    @pytest.mark.parametrize("ending", ["workflow_complete", "workflow_error"])
    def test_polling_stops_when_the_workflow_has_ended(
        self, service: PollingService, journal: MemoryJournal, received: Received[Event], ending: str
    ) -> None:
        service.on_event(received)

        service.start_polling("wf-1")
        assert service.is_polling
        journal.append(whole_run("wf-1", NOW, ending=ending))
        stopped = service.wait(PATIENCE_SECONDS)

        assert stopped
        assert not service.is_polling
        assert service.current_workflow_id is None
        assert ending in [each.type for each in received.values]

    def test_stragglers_that_come_after_the_end_are_delivered_before_it_stops(
        self, journal: MemoryJournal, received: Received[Event]
    ) -> None:
        end = event("wf-1", NOW + 5, "workflow_complete")
        straggler = event("wf-1", NOW + 1)

        def append_straggler(each: Event) -> None:
            if each == end:
                journal.append([straggler])

        with virtual_service(journal) as service:
            service.on_event(received)
            service.on_event(append_straggler)
            service.start_polling("wf-1")
            journal.append([event("wf-1", NOW, "workflow_start"), end])
            assert service.wait(PATIENCE_SECONDS)

        assert [each.type for each in received.values] == ["workflow_start", "workflow_complete", "tool_call"]

    def test_there_is_one_service_for_the_process_on_the_journal_of_the_settings(
        self, monkeypatch: pytest.MonkeyPatch, received: Received[Event]
    ) -> None:
        monkeypatch.setenv("LONGWATCH_JOURNAL", "memory://polling-service-of-the-process")
        story = whole_run("wf-1", NOW)
        longwatch.open_journal().append(story)

        with polling_service() as service:
            assert polling_service() is service is longwatch.polling_service()
            service.on_event(received)
            service.start_polling("wf-1")
            assert service.wait(PATIENCE_SECONDS)

        assert received.values == story
        assert polling_service() is not service


class TestQ2EveryEventOnce:
    def test_two_events_of_one_millisecond_are_both_delivered(
        self, service: PollingService, journal: MemoryJournal, received: Received[Event]
    ) -> None:
        first, second = event("wf-1", NOW), event("wf-1", NOW)
        service.on_event(received)
        service.start_polling("wf-1")

        journal.append([first])
        received.has(1)
        journal.append([second])

        assert received.has(2) == [first, second]

    def test_an_event_that_is_written_again_is_delivered_once(
        self, service: PollingService, journal: MemoryJournal, received: Received[Event]
    ) -> None:
        story = whole_run("wf-1", NOW)
        service.on_event(received)
        service.start_polling("wf-1")

        journal.append(story[:2])
        received.has(2)
        journal.append(story)
        service.wait(PATIENCE_SECONDS)

        assert received.values == story


class TestQ3SubscriptionsAreDisposable:
    def test_a_disposed_subscription_is_not_called_any_more(
        self, service: PollingService, journal: MemoryJournal, received: Received[Event]
    ) -> None:
        stays, first, second = received, event("wf-1", NOW), event("wf-1", NOW + 1)
        leaves: Received[Event] = Received()
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
        self, service: PollingService, received: Received[Event], errors: Received[Exception]
    ) -> None:
        with service.on_event(received) as events, service.on_error(errors) as troubles:
            assert events.is_active
            assert troubles.is_active

        assert not events.is_active
        assert not troubles.is_active

    def test_a_subscriber_that_raises_is_reported_and_affects_no_other(
        self,
        service: PollingService,
        journal: MemoryJournal,
        received: Received[Event],
        errors: Received[Exception],
    ) -> None:
        mistakes = [ValueError("mine"), SystemExit(3)]
        story = whole_run("wf-1", NOW)
        remaining = iter(mistakes)

        def careless(_: Event) -> None:
            raise next(remaining, KeyError("again"))

        service.on_event(careless)
        service.on_event(received)
        service.on_error(errors)
        service.start_polling("wf-1")
        journal.append(story)
        service.wait(PATIENCE_SECONDS)

        assert received.has(len(story)) == story
        reported = errors.has(len(story))
        assert reported[0] is mistakes[0]
        assert reported[1].__cause__ is mistakes[1]

    def test_an_exception_of_a_subscriber_is_logged_without_an_error_listener(
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
        self, journal: MemoryJournal, caplog: pytest.LogCaptureFixture, errors: Received[Exception]
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

    def test_a_hub_that_cannot_be_created_is_reported(
        self, journal: MemoryJournal, received: Received[Event], errors: Received[Exception]
    ) -> None:
        mistake = TypeError("an argument is missing")

        def make_hub(*_: object, **__: object) -> Hub:
            raise mistake

        with PollingService(journal, make_hub=make_hub) as service:
            service.on_error(errors)
            service.on_event(received)
            service.start_polling("wf-1")
            assert service.wait(PATIENCE_SECONDS)

            assert errors.has(1) == [mistake]

    @pytest.mark.parametrize("name", ["on_event", "on_error"])
    def test_a_coroutine_function_is_refused_since_it_would_not_be_awaited(
        self, service: PollingService, name: str
    ) -> None:
        async def callback(_: object) -> None: ...

        with pytest.raises(InvalidInput, match="would not be awaited"):
            getattr(service, name)(callback)

    def test_something_that_cannot_be_called_is_refused(self, service: PollingService) -> None:
        with pytest.raises(InvalidInput, match="Pass a function"):
            service.on_event("print")  # type: ignore[arg-type]


class TestQ5OneWorkflowAtATime:
    def test_another_workflow_stops_the_first_and_starts_fresh(
        self, service: PollingService, journal: MemoryJournal, received: Received[Event]
    ) -> None:
        old, new = event("wf-old", NOW), whole_run("wf-new", NOW)
        journal.append([old, *new])
        service.on_event(received)
        service.start_polling("wf-old")
        received.has(1)

        service.start_polling("wf-new")
        assert service.current_workflow_id == "wf-new"
        journal.append([event("wf-old", NOW + 9)])
        service.wait(PATIENCE_SECONDS)

        assert received.values == [old, *new]

    def test_the_same_workflow_again_changes_nothing_while_it_is_polled(
        self, service: PollingService, journal: MemoryJournal, received: Received[Event]
    ) -> None:
        story = whole_run("wf-1", NOW)
        journal.append(story[:1])
        service.on_event(received)
        service.start_polling("wf-1")
        received.has(1)

        service.start_polling("wf-1")
        journal.append(story[1:])
        service.wait(PATIENCE_SECONDS)

        assert received.values == story

    def test_the_same_workflow_after_it_has_stopped_by_itself_starts_fresh(
        self, service: PollingService, journal: MemoryJournal, received: Received[Event]
    ) -> None:
        story = whole_run("wf-1", NOW)
        journal.append(story)
        service.on_event(received)
        service.start_polling("wf-1")
        service.wait(PATIENCE_SECONDS)

        service.start_polling("wf-1")
        service.wait(PATIENCE_SECONDS)

        assert received.values == story * 2

    def test_a_callback_may_start_another_workflow_and_gets_nothing_more_of_the_first(
        self, service: PollingService, journal: MemoryJournal, received: Received[Event]
    ) -> None:
        first, second = whole_run("wf-1", NOW, 300), whole_run("wf-2", NOW)
        journal.append([*first, *second])

        def go_on(each: Event) -> None:
            if each == first[10]:
                service.start_polling("wf-2")

        service.on_event(received)
        service.on_event(go_on)
        service.start_polling("wf-1")
        received.has(11 + len(second))
        service.wait(PATIENCE_SECONDS)

        assert received.values == first[:11] + second

    def test_a_callback_that_stops_is_the_last_one_to_be_called(
        self, service: PollingService, journal: MemoryJournal, received: Received[Event]
    ) -> None:
        stopping: Received[Event] = Received()
        service.on_event(stopping)
        service.on_event(lambda _: service.stop_polling())
        service.on_event(received)
        service.start_polling("wf-1")

        journal.append(whole_run("wf-1", NOW))
        stopping.has(1)
        service.wait(PATIENCE_SECONDS)
        service.dispose()

        assert len(stopping.values) == 1
        assert received.values == []

    @pytest.mark.parametrize("given", ["", 5, None, b"wf-1", ["wf-1"]])
    def test_an_invalid_workflow_id_is_refused_at_once(self, service: PollingService, given: Any) -> None:
        with pytest.raises(InvalidInput, match="needs the id of a workflow as a string") as caught:
            service.start_polling(given)

        assert repr(given) in str(caught.value)
        assert service.current_workflow_id is None


class TestQ6PollingIsForSubscribers:
    def test_polling_stops_when_the_last_subscriber_leaves_and_the_service_can_be_used_again(
        self, service: PollingService, journal: MemoryJournal, received: Received[Event]
    ) -> None:
        story = whole_run("wf-1", NOW)
        journal.append(story[:1])
        first, second = service.on_event(received), service.on_event(lambda _: None)
        service.start_polling("wf-1")
        received.has(1)

        first.dispose()
        assert service.is_polling
        second.dispose()
        assert not service.is_polling
        assert service.current_workflow_id is None

        again: Received[Event] = Received()
        service.on_event(again)
        assert not service.is_polling
        service.start_polling("wf-1")
        journal.append(story[1:])
        service.wait(PATIENCE_SECONDS)
        assert again.values == story
        assert received.values == story[:1]

    def test_started_before_any_subscription_it_waits_and_then_delivers_the_whole_history(
        self, service: PollingService, journal: MemoryJournal, received: Received[Event]
    ) -> None:
        story = whole_run("wf-1", NOW)
        journal.append(story)

        service.start_polling("wf-1")
        service.start_polling("wf-1")
        assert (service.is_polling, service.current_workflow_id) == (False, "wf-1")
        assert not service.wait(0)
        service.on_event(received)
        service.wait(PATIENCE_SECONDS)

        assert received.values == story

    def test_an_error_listener_alone_does_not_make_it_poll(
        self, service: PollingService, errors: Received[Exception]
    ) -> None:
        service.on_error(errors)

        service.start_polling("wf-1")

        assert not service.is_polling

    def test_a_workflow_that_waits_can_be_stopped(
        self, service: PollingService, received: Received[Event]
    ) -> None:
        service.start_polling("wf-1")

        service.stop_polling()
        service.on_event(received)

        assert service.current_workflow_id is None
        assert not service.is_polling

    def test_a_late_subscriber_gets_what_comes_next(
        self, service: PollingService, journal: MemoryJournal, received: Received[Event]
    ) -> None:
        story = whole_run("wf-1", NOW)
        late: Received[Event] = Received()
        journal.append(story[:2])
        service.on_event(received)
        service.start_polling("wf-1")
        received.has(2)

        service.on_event(late)
        journal.append(story[2:])
        service.wait(PATIENCE_SECONDS)

        assert late.values == story[2:]
        assert received.values == story


class TestQ7FromTheBeginning:
    def test_events_from_before_polling_began_are_delivered_first_and_in_order(
        self, service: PollingService, journal: MemoryJournal, received: Received[Event]
    ) -> None:
        story = whole_run("wf-1", NOW - 86_400_000, count=1_200)
        journal.append(story)

        service.on_event(received)
        service.start_polling("wf-1")
        service.wait(PATIENCE_SECONDS)

        assert ids(received.values) == ids(story)
