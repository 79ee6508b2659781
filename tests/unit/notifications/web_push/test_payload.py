"""What browsers receive of a message."""

from __future__ import annotations

import json

import pytest

from longwatch.notifications.message import Message, Notice, compose
from longwatch.notifications.rules import Trigger
from longwatch.notifications.web_push.payload import payload_of, topic_of, urgency_of
from longwatch.notifications.web_push.request import MAX_PAYLOAD_BYTES, TOPIC_CHARACTERS


def notice(
    run_id: str = "wf-1", trigger: Trigger = Trigger.FAILED, *, is_resolved: bool = False, text: str = "why"
) -> Notice:
    return Notice(
        run_id=run_id,
        run_name="import",
        trigger=trigger,
        text=text,
        occurred_at=5_000,
        is_resolved=is_resolved,
    )


def message(*notices: Notice, delivery_id: str = "d-1", rule: str = "failures") -> Message:
    return compose(delivery_id, rule, notices)


def test_a_browser_receives_what_it_shows_and_where_a_click_leads() -> None:
    found = json.loads(payload_of(message(notice("plan/execution 1"))))

    assert found == {
        "title": "import failed",
        "body": "import (plan/execution 1): why",
        "path": "/runs/plan%2Fexecution%201",
        "tag": topic_of(message(notice("plan/execution 1"))),
        "delivery_id": "d-1",
        "occurred_at": 5_000,
        "is_resolved": False,
    }


def test_a_message_about_several_runs_leads_to_the_list() -> None:
    assert json.loads(payload_of(message(notice("a"), notice("b"))))["path"] == "/runs"


@pytest.mark.parametrize("text", ["x" * 5_000, "\U0001f680" * 5_000, '"\\' * 5_000, "\ud800"])
@pytest.mark.parametrize("run_id", ["r", "ü" * 700])
def test_it_is_never_too_long_for_a_push_service(text: str, run_id: str) -> None:
    payload = payload_of(message(notice(run_id, text=text)))

    assert len(payload) <= MAX_PAYLOAD_BYTES
    assert json.loads(payload)["title"] == "import failed"


def test_a_resolution_replaces_the_notification_of_its_condition() -> None:
    silent = message(notice(trigger=Trigger.SILENT))
    again = message(notice(trigger=Trigger.SILENT, is_resolved=True), delivery_id="d-2")

    assert topic_of(silent) == topic_of(again)
    assert len(topic_of(silent)) == TOPIC_CHARACTERS


@pytest.mark.parametrize(
    "other",
    [
        message(notice("wf-2")),
        message(notice(trigger=Trigger.SILENT)),
        message(notice(), rule="others"),
        message(notice(), notice("wf-2")),
    ],
)
def test_other_messages_replace_nothing(other: Message) -> None:
    assert topic_of(other) != topic_of(message(notice()))


@pytest.mark.parametrize(
    ("given", "urgency"),
    [
        (message(notice()), "high"),
        (message(notice(trigger=Trigger.WAITING)), "high"),
        (message(notice(trigger=Trigger.WAITING, is_resolved=True)), "normal"),
        (message(notice(trigger=Trigger.ENDED)), "normal"),
        (message(notice(trigger=Trigger.ENDED), notice("wf-2")), "high"),
    ],
)
def test_a_failure_is_urgent_and_a_resolution_is_not(given: Message, urgency: str) -> None:
    assert urgency_of(given) == urgency
