"""Which projects there are, which conversations a project has, and which turns a conversation has.

Each list is the fold of one run, so that it is read with one read, however old its entries are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from longwatch.model.event import Event, Order, number_of, text_of


@dataclass(frozen=True, slots=True)
class Project:
    """A project and the conversations in it, the first one first."""

    id: str
    name: str | None = None
    order: Order | None = None  # of the event that created it; None: there is no such project
    conversation_ids: tuple[str, ...] = ()

    @property
    def exists(self) -> bool:
        return self.order is not None

    @property
    def created_at(self) -> int:
        return self.order[0] if self.order is not None else 0

    def plus(self, events: Iterable[Event]) -> Project:
        """This project and what the events add to it."""
        project, added = self, list(self.conversation_ids)
        for event in sorted(events, key=lambda event: event.order):
            if event.type == "project_created" and (project.order is None or event.order < project.order):
                name = text_of(event.payload, "name")
                project = replace(project, name=name, order=event.order)
            elif event.type == "conversation_added":
                conversation_id = text_of(event.payload, "conversation_id")
                if conversation_id is not None and conversation_id not in added:
                    added.append(conversation_id)
        return replace(project, conversation_ids=tuple(added))


@dataclass(frozen=True, slots=True)
class AddedTurn:
    """A turn as its conversation knows it."""

    turn_id: str
    number: int
    order: Order

    @property
    def place(self) -> tuple[int, Order]:
        """Where it stands among the turns. Whoever saw another took a higher number, whatever the time."""
        return (self.number, self.order)


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation and its turns, the first one first."""

    project_id: str
    id: str
    title: str | None = None
    order: Order | None = None  # of the event that created it; None: there is no such conversation
    turns: tuple[AddedTurn, ...] = ()

    @property
    def exists(self) -> bool:
        return self.order is not None

    @property
    def created_at(self) -> int:
        return self.order[0] if self.order is not None else 0

    @property
    def turn_count(self) -> int:
        return len(self.turns)

    @property
    def next_number(self) -> int:
        return self.turns[-1].number + 1 if self.turns else 1

    def turn(self, turn_id: str) -> AddedTurn | None:
        return next((turn for turn in self.turns if turn.turn_id == turn_id), None)

    def plus(self, events: Iterable[Event]) -> Conversation:
        """This conversation and what the events add to it."""
        conversation, added = self, {turn.turn_id: turn for turn in self.turns}
        for event in events:
            if event.type == "conversation_created":
                if conversation.order is None or event.order < conversation.order:
                    title = text_of(event.payload, "title")
                    conversation = replace(conversation, title=title, order=event.order)
            elif event.type == "turn_added":
                turn = _added_turn(event)
                known = added.get(turn.turn_id) if turn is not None else None
                if turn is not None and (known is None or turn.place < known.place):
                    added[turn.turn_id] = turn
        turns = sorted(added.values(), key=lambda turn: turn.place)
        return replace(conversation, turns=tuple(turns))


@dataclass(frozen=True, slots=True)
class ProjectList:
    """The ids of all projects, the first one first."""

    ids: tuple[str, ...] = ()

    def plus(self, events: Iterable[Event]) -> ProjectList:
        """These projects and those that the events add."""
        added = list(self.ids)
        for event in sorted(events, key=lambda event: event.order):
            project_id = text_of(event.payload, "project_id")
            if event.type == "project_added" and project_id is not None and project_id not in added:
                added.append(project_id)
        return ProjectList(tuple(added))


def _added_turn(event: Event) -> AddedTurn | None:
    turn_id = text_of(event.payload, "turn_id")
    number = number_of(event.payload, "number")
    if turn_id is None:
        return None
    return AddedTurn(turn_id, 0 if number is None else int(number), event.order)
