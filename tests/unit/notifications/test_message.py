"""A message says in one line what happened, and contains no secret."""

from __future__ import annotations

import json

from longwatch.notifications.message import Message, Notice, compose, parse_message
from longwatch.notifications.rules import Trigger


def notice(run_id: str = "wf-1", trigger: Trigger = Trigger.FAILED, **further: object) -> Notice:
    values: dict[str, object] = {"run_name": "import", "text": "failed: no space left", "occurred_at": 1000}
    return Notice(run_id=run_id, trigger=trigger, **{**values, **further})  # type: ignore[arg-type]


def message(*notices: Notice, page_url: str | None = None) -> Message:
    return compose("d-1", "failures", notices, page_url=page_url)


def test_one_run_is_named_in_the_title() -> None:
    assert message(notice()).title == "import failed"
    assert message(notice(run_name=None, trigger=Trigger.NO_HEARTBEAT)).title == "wf-1 without heartbeat"
    assert message(notice(trigger=Trigger.SILENT, is_resolved=True)).title == "import reports again"


def test_several_runs_are_counted() -> None:
    both = message(notice("a"), notice("b"), notice("c", Trigger.DIED))

    assert message(notice("a"), notice("b")).title == "2 runs failed"
    assert both.title == "3 notifications: 2 failed, 1 died"
    assert both.run_ids == ("a", "b", "c")


def test_a_long_list_is_cut_and_counted() -> None:
    many = message(*(notice(f"wf-{number}") for number in range(30)))

    assert many.count == 30
    assert len(many.notices) == 20
    assert many.title == "30 runs failed"
    assert many.body.endswith("… and 10 more")


def test_a_message_is_resolved_only_if_all_of_it_is() -> None:
    assert message(notice(is_resolved=True)).is_resolved
    assert not message(notice(is_resolved=True), notice("b")).is_resolved


def test_secrets_are_blanked_in_every_text() -> None:
    token = "ghp_" + "a1" * 20
    found = message(notice(run_name=f"push {token}", text=f"failed: password=hunter2 and {token}"))

    assert "hunter2" not in found.to_json()
    assert token not in json.dumps(found.cloud_event())
    assert "[redacted]" in found.body


def test_texts_are_one_short_line() -> None:
    found = message(notice(text="failed:\n" + "x" * 1000))

    assert "\n" not in found.body
    assert len(found.notices[0].text) == 300


def test_the_link_leads_to_the_run_or_to_the_list() -> None:
    assert message(notice("a/b"), page_url="http://host/").url == "http://host/runs/a%2Fb"
    assert message(notice("a"), notice("b"), page_url="http://host/").url == "http://host/runs"
    assert message(notice()).url is None


def test_json_is_read_back() -> None:
    found = message(notice(), notice("b", Trigger.SILENT, is_resolved=True), page_url="http://host")

    assert parse_message(found.to_json()) == found


def test_a_cloud_event_has_the_id_of_the_delivery() -> None:
    event = message(notice()).cloud_event()

    assert event["specversion"] == "1.0"
    assert event["id"] == "d-1"
    assert event["type"] == "longwatch.notification"
    assert event["time"] == "1970-01-01T00:00:01.000Z"
    assert event["data"]["title"] == "import failed"
