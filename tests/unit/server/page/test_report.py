"""The one-file report: nothing recorded gets out of where it stands, and the policy fits what is inside."""

from __future__ import annotations

import base64
import hashlib
import json
import re

import pytest

from longwatch.model.event import Event
from longwatch.model.run import fold
from longwatch.server.page.report import render_report, report_name
from tests.unit.cli.samples import research

NOW = 1_794_737_000_000


def rendered(events: list[Event]) -> str:
    run = fold(events)
    assert run is not None
    return render_report(run, events, now_ms=NOW).decode()


def recorded(page: str) -> dict[str, object]:
    found = re.search(r'<script type="application/json" id="recorded">(.*?)</script>', page, re.S)
    assert found is not None
    value: dict[str, object] = json.loads(found[1])
    return value


def test_the_events_inside_are_those_of_the_run_in_order() -> None:
    events = research()

    found = recorded(rendered(list(reversed(events))))

    assert [each["event_id"] for each in found["events"]] == [event.event_id for event in events]  # type: ignore[attr-defined]
    assert found["summary"]["status"] == "succeeded"  # type: ignore[index]
    assert found["made_at"] == NOW


@pytest.mark.parametrize(
    "text", ["</script>", "</SCRIPT >", "<!--", "]]>", "<script>", "\u2028", "&lt;", "\\u003c"]
)
def test_recorded_text_comes_back_as_it_was_and_never_as_markup(text: str) -> None:
    event = Event(run_id=text, event_id=text, type=text, occurred_at=1, payload={text: text, "name": text})

    page = rendered([event])

    found = recorded(page)["events"][0]  # type: ignore[index]
    assert (found["run_id"], found["type"], found["payload"][text]) == (text, text, text)
    assert page.count("<script") == 2
    assert page.count("</script") == 2
    assert "<!--" not in page


def test_the_policy_allows_the_script_and_the_style_inside_and_nothing_else() -> None:
    page = rendered(research())

    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    script = re.search(r'<script type="module">(.*?)</script>', page, re.S)
    style = re.search(r"<style>(.*?)</style>", page, re.S)

    assert policy
    assert script
    assert style
    assert f"script-src '{hashed(script[1])}';" in policy[1]
    assert f"style-src '{hashed(style[1])}';" in policy[1]
    assert policy[1].startswith("default-src 'none';")
    assert not re.search(r"\son\w+=|\sstyle=|https?://(?!www\.w3\.org/)", page.split("<script", 1)[0])


@pytest.mark.parametrize(
    ("run_id", "name"), [("wf-1", "wf-1.html"), ("../../etc/passwd", "etc-passwd.html"), ("日本", "run.html")]
)
def test_a_report_has_a_name_that_every_system_takes(run_id: str, name: str) -> None:
    assert report_name(run_id) == name


def hashed(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
