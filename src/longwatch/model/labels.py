"""The labels of a run: its tags, its user and its session.

The start of a run states them, and `run_tagged` events add to them. Tags only accumulate; of two users or
sessions the later one counts. Labels of two parts of a run merge in any order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from longwatch.model.event import Event, Order, text_of

TAGGED = "run_tagged"
MAX_TAGS = 50  # of a run; the first ones in alphabetical order
MAX_LABEL_CHARACTERS = 200

StatedValue = tuple[Order, str]  # the event that states it, and the value


@dataclass(frozen=True, slots=True)
class RunLabels:
    """The tags of a run, and the events that state its user and its session."""

    tags: frozenset[str] = frozenset()
    stated_user: StatedValue | None = None
    stated_session: StatedValue | None = None

    def __bool__(self) -> bool:
        return bool(self.tags or self.stated_user or self.stated_session)

    @property
    def user(self) -> str | None:
        return self.stated_user[1] if self.stated_user else None

    @property
    def session(self) -> str | None:
        return self.stated_session[1] if self.stated_session else None

    def merged(self, other: RunLabels) -> RunLabels:
        """The labels of both parts. Commutative, associative and idempotent."""
        if not other or self == other:
            return self
        if not self:
            return other
        return RunLabels(
            limit_names(self.tags | other.tags, MAX_TAGS),
            _later(self.stated_user, other.stated_user),
            _later(self.stated_session, other.stated_session),
        )


NO_LABELS = RunLabels()


def labels_of(events: Iterable[Event]) -> RunLabels:
    """The labels that these starts and `run_tagged` events state."""
    labels = NO_LABELS
    for event in events:
        labels = labels.merged(_stated_labels(event))
    return labels


def _stated_labels(event: Event) -> RunLabels:
    payload = event.payload
    user, session = _label(payload, "user"), _label(payload, "session")
    tags = tags_in(payload.get("tags"))
    if not (tags or user or session):
        return NO_LABELS
    order = event.order
    return RunLabels(
        limit_names(tags, MAX_TAGS), (order, user) if user else None, (order, session) if session else None
    )


def tags_in(value: object) -> frozenset[str]:
    """The tags in a payload: a list of texts, or one text. Anything else is no tag."""
    given = [value] if isinstance(value, str) else value if isinstance(value, list | tuple) else []
    return frozenset(each[:MAX_LABEL_CHARACTERS] for each in given if isinstance(each, str) and each)


def _label(payload: Mapping[str, object], name: str) -> str | None:
    text = text_of(payload, name)
    return text[:MAX_LABEL_CHARACTERS] if text else None


def limit_names(names: frozenset[str], most: int) -> frozenset[str]:
    """The first names in alphabetical order: a limit that merging in any order respects."""
    return names if len(names) <= most else frozenset(sorted(names)[:most])


def _later(one: StatedValue | None, other: StatedValue | None) -> StatedValue | None:
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)


def labels_to_json(labels: RunLabels) -> list[Any]:
    """Lists and texts only, for journals that store a summary of each run."""
    return [sorted(labels.tags), labels.stated_user, labels.stated_session]


def labels_from_json(value: list[Any]) -> RunLabels:
    """The labels that `labels_to_json` wrote."""
    tags, user, session = value
    return RunLabels(frozenset(tags), _stated_from_json(user), _stated_from_json(session))


def _stated_from_json(value: list[Any] | None) -> StatedValue | None:
    if value is None:
        return None
    (at, producer, number, event_id), text = value
    return (at, producer, number, event_id), text
