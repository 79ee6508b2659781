"""What is sent: one message of a rule about one or more runs, free of secrets."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from longwatch.clock import iso_from_ms
from longwatch.notifications.rules import Trigger
from longwatch.recording.redaction import redact_text
from longwatch.recording.secret_names import SecretNames

MAX_LISTED = 20  # runs that a message names; `count` has their number
MAX_TEXT = 300  # characters of a name or a detail


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One reason for a message: something happened to a run, or no longer holds."""

    run_id: str
    run_name: str | None
    trigger: Trigger
    text: str  # such as `failed: FeedTimeout: no response`
    occurred_at: int  # epoch ms
    is_resolved: bool = False

    @property
    def label(self) -> str:
        """The run for people: its name with its ID."""
        return f"{self.run_name} ({self.run_id})" if self.run_name else self.run_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message of a rule, as every channel gets it. A retry sends the same one, with the same id."""

    delivery_id: str  # for receivers: the same id again is the same message again
    rule: str
    notices: tuple[Notice, ...]  # at least one, and the first `MAX_LISTED` of `count`
    states: tuple[tuple[str, int], ...]  # of all of them, such as `("failed", 2)`
    url: str | None = None  # of the run, or of the list if there are several

    @property
    def count(self) -> int:
        """How many notices the message stands for."""
        return sum(number for _, number in self.states)

    @property
    def trigger(self) -> Trigger:
        """That of the first notice."""
        return self.notices[0].trigger

    @property
    def run_ids(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.run_id for each in self.notices))

    @property
    def run_names(self) -> tuple[str | None, ...]:
        """The name of each run of `run_ids`."""
        names = {each.run_id: each.run_name for each in self.notices}
        return tuple(names.values())

    @property
    def occurred_at(self) -> int:
        """When the latest of them happened, in epoch ms."""
        return max(each.occurred_at for each in self.notices)

    @property
    def is_resolved(self) -> bool:
        """Whether all of it reports that conditions no longer hold."""
        return all(each.is_resolved for each in self.notices)

    @property
    def title(self) -> str:
        """One line: `import failed`, or `3 runs: 2 failed, 1 died`."""
        first = self.notices[0]
        if self.count == 1:
            return f"{first.run_name or first.run_id} {state_text(first)}"
        if len(self.states) == 1:
            return f"{self.count} runs {self.states[0][0]}"
        parts = ", ".join(f"{number} {state}" for state, number in self.states)
        return f"{self.count} notifications: {parts}"

    @property
    def body(self) -> str:
        """A line for each notice."""
        lines = [f"{each.label}: {each.text}" for each in self.notices]
        if self.count > len(self.notices):
            lines.append(f"… and {self.count - len(self.notices)} more")
        return "\n".join(lines)

    def fields(self) -> dict[str, Any]:
        """The message as plain data: the JSON of commands, and the data of webhooks."""
        return {
            "delivery_id": self.delivery_id,
            "rule": self.rule,
            "trigger": self.trigger.value,
            "title": self.title,
            "body": self.body,
            "url": self.url,
            "occurred_at": self.occurred_at,
            "count": self.count,
            "states": dict(self.states),
            "is_resolved": self.is_resolved,
            "runs": [notice_fields(each) for each in self.notices],
        }

    def to_json(self) -> str:
        """The text that `parse_message` reads."""
        return json.dumps(self.fields(), ensure_ascii=False)

    def cloud_event(self) -> dict[str, Any]:
        """The message as a CloudEvent in JSON."""
        return {
            "specversion": "1.0",
            "id": self.delivery_id,
            "source": "/longwatch/notifications",
            "type": CLOUD_EVENT_TYPE,
            "subject": self.rule,
            "time": iso_from_ms(self.occurred_at),
            "datacontenttype": "application/json",
            "data": self.fields(),
        }


CLOUD_EVENT_TYPE = "longwatch.notification"

_STATES: Mapping[Trigger, str] = {
    Trigger.NO_HEARTBEAT: "without heartbeat",
    Trigger.PARTIAL: "ended partial",
}
_RESOLVED: Mapping[Trigger, str] = {
    Trigger.SILENT: "reports again",
    Trigger.NO_HEARTBEAT: "has a heartbeat again",
    Trigger.WAITING: "resumed",
    Trigger.OVERDUE: "ended after its deadline",
}


def state_text(notice: Notice) -> str:
    """What happened in two or three words: `failed`, or `reports again`."""
    if notice.is_resolved:
        return _RESOLVED.get(notice.trigger, "resolved")
    return _STATES.get(notice.trigger, notice.trigger.value)


def notice_fields(notice: Notice) -> dict[str, Any]:
    """A notice as plain data."""
    return {
        "run_id": notice.run_id,
        "name": notice.run_name,
        "trigger": notice.trigger.value,
        "text": notice.text,
        "occurred_at": notice.occurred_at,
        "is_resolved": notice.is_resolved,
    }


def parse_notice(fields: Mapping[str, Any]) -> Notice:
    """The notice of `notice_fields`."""
    return Notice(
        run_id=fields["run_id"],
        run_name=fields["name"],
        trigger=Trigger(fields["trigger"]),
        text=fields["text"],
        occurred_at=fields["occurred_at"],
        is_resolved=fields["is_resolved"],
    )


def parse_message(text: str) -> Message:
    """The message that `to_json` wrote."""
    return parse_fields(json.loads(text))


def parse_fields(fields: Mapping[str, Any]) -> Message:
    """The message of `Message.fields`."""
    return Message(
        delivery_id=fields["delivery_id"],
        rule=fields["rule"],
        notices=tuple(map(parse_notice, fields["runs"])),
        states=tuple(fields["states"].items()),
        url=fields["url"],
    )


def compose(
    delivery_id: str,
    rule: str,
    notices: Sequence[Notice],
    *,
    states: Mapping[str, int] | None = None,  # of all notices, if there are more than these
    page_url: str | None = None,
    names: SecretNames | None = None,
) -> Message:
    """A message without secrets. `page_url` is the address of the page, `names` finds secret fields."""
    found = tuple(redact_notice(each, names or SecretNames()) for each in notices[:MAX_LISTED])
    counted = Counter(map(state_text, notices)) if states is None else states
    run_ids = tuple(dict.fromkeys(each.run_id for each in found))
    return Message(
        delivery_id=delivery_id,
        rule=rule,
        notices=found,
        states=tuple(counted.items()),
        url=None if page_url is None else link(page_url, run_ids),
    )


def redact_notice(notice: Notice, names: SecretNames) -> Notice:
    """The notice with secrets blanked and long texts cut."""
    name = notice.run_name
    return Notice(
        run_id=notice.run_id,
        run_name=None if name is None else _cut(redact_text(name, names)),
        trigger=notice.trigger,
        text=_cut(redact_text(notice.text, names)),
        occurred_at=notice.occurred_at,
        is_resolved=notice.is_resolved,
    )


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_TEXT else f"{line[: MAX_TEXT - 1]}…"


def link(page_url: str, run_ids: Sequence[str]) -> str:
    """The address of a run on the page; of the list if there are several."""
    base = f"{page_url.rstrip('/')}/runs"
    return f"{base}/{quote(run_ids[0], safe='')}" if len(run_ids) == 1 else base
