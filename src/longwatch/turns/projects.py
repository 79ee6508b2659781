"""Creates and lists the projects of a journal and their conversations.

A project or conversation has an event in its own run and one in the run that lists it. If only one of the two
was written, creating it again writes the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from longwatch.clock import Clock
from longwatch.errors import AlreadyThere, ConversationNotFound, EventConflict, ProjectNotFound
from longwatch.journal.base import Journal
from longwatch.journal.fold_reader import FoldReader
from longwatch.model.event import Event, Order, number_of, text_of
from longwatch.settings import Settings
from longwatch.turns.events import EventMaker
from longwatch.turns.ids import PROJECTS_RUN, conversation_run, new_id, project_run


@dataclass(frozen=True, slots=True)
class Project:
    """A project and the conversations in it, the first one first."""

    id: str
    name: str | None = None
    order: Order | None = None  # of the event that created it; None: it does not exist
    conversation_ids: tuple[str, ...] = ()

    @property
    def exists(self) -> bool:
        return self.order is not None

    @property
    def created_at(self) -> int:
        return self.order[0] if self.order is not None else 0

    def plus(self, events: Iterable[Event]) -> Project:
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
    """A turn in the list of its conversation."""

    turn_id: str
    number: int
    order: Order

    @property
    def sort_key(self) -> tuple[int, Order]:
        """By number: a writer that saw another turn took a higher number, whatever its clock."""
        return (self.number, self.order)


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation and its turns, the first one first."""

    project_id: str
    id: str
    title: str | None = None
    order: Order | None = None  # of the event that created it; None: it does not exist
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
        conversation, added = self, {turn.turn_id: turn for turn in self.turns}
        for event in events:
            if event.type == "conversation_created":
                if conversation.order is None or event.order < conversation.order:
                    title = text_of(event.payload, "title")
                    conversation = replace(conversation, title=title, order=event.order)
            elif event.type == "turn_added":
                turn = _added_turn(event)
                stored = added.get(turn.turn_id) if turn is not None else None
                if turn is not None and (stored is None or turn.sort_key < stored.sort_key):
                    added[turn.turn_id] = turn
        turns = sorted(added.values(), key=lambda turn: turn.sort_key)
        return replace(conversation, turns=tuple(turns))


@dataclass(frozen=True, slots=True)
class ProjectList:
    """The ids of all projects, the first one first."""

    ids: tuple[str, ...] = ()

    def plus(self, events: Iterable[Event]) -> ProjectList:
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


MAX_WRITTEN_RUNS = 10_000


class Projects:
    """All projects of one journal. Safe for several threads."""

    def __init__(self, journal: Journal, clock: Clock, *, settings: Settings | None = None) -> None:
        self._journal = journal
        self._clock = clock
        self._make = EventMaker(journal, settings)
        self._make_lasting = partial(self._make.event, expires=False)
        self._lists = FoldReader[ProjectList](journal)
        self._projects = FoldReader[Project](journal)
        self._conversations = FoldReader[Conversation](journal)
        self._written: set[str] = set()  # runs that this process wrote and has not read since

    def create_project(self, id: str | None = None, name: str | None = None) -> Project:
        """Create a project, or return the existing one with this id and name."""
        project_id = new_id() if id is None else id
        run_id, at = project_run(project_id), self._clock.now_ms()
        fields, fixed = {"name": name}, {"project_id": project_id}
        stored, events = self._project(project_id), list[Event]()
        if stored.exists:
            _check_same("project", project_id, wanted=name, found=stored.name)
        else:
            events.append(
                self._make_lasting(run_id, f"{run_id}#created", "project_created", at, fields, fixed=fixed)
            )
        if project_id not in self._lists.read(PROJECTS_RUN, ProjectList).ids:
            events.append(
                self._make_lasting(PROJECTS_RUN, f"{run_id}#added", "project_added", at, fields, fixed=fixed)
            )
        self._append(events)
        return self._project(project_id)

    def projects(self) -> list[Project]:
        listed = self._lists.read(PROJECTS_RUN, ProjectList)
        return [project for id in listed.ids if (project := self._project(id)).exists]

    def project(self, project_id: str) -> Project:
        """One project, or `ProjectNotFound`."""
        project = self._project(project_id)
        if not project.exists:
            raise ProjectNotFound(f"No project {project_id!r}. Create it, or check the id.")
        return project

    def create_conversation(
        self, project_id: str, id: str | None = None, title: str | None = None
    ) -> Conversation:
        """Create a conversation, or return the existing one with this id and title."""
        project = self.project(project_id)
        conversation_id = new_id() if id is None else id
        run_id, parent = conversation_run(project_id, conversation_id), project_run(project_id)
        at = self._clock.now_ms()
        stored, events = self._conversation(project_id, conversation_id), list[Event]()
        if stored.exists:
            _check_same("session", conversation_id, wanted=title, found=stored.title)
        else:
            fields = {"project_id": project_id, "title": title, "name": title, "parent_run_id": parent}
            events.append(self._make_lasting(run_id, f"{run_id}#created", "conversation_created", at, fields))
        if conversation_id not in project.conversation_ids:
            fields, fixed = {"title": title}, {"conversation_id": conversation_id}
            event_id = f"{run_id}#added"
            events.append(self._make_lasting(parent, event_id, "conversation_added", at, fields, fixed=fixed))
        self._append(events)
        return self._conversation(project_id, conversation_id)

    def conversations(self, project_id: str) -> list[Conversation]:
        """The conversations of a project, the first one first."""
        ids = self.project(project_id).conversation_ids
        return [found for id in ids if (found := self._conversation(project_id, id)).exists]

    def conversation(self, project_id: str, conversation_id: str, *, thorough: bool = False) -> Conversation:
        """One conversation, or `ProjectNotFound` or `ConversationNotFound`."""
        conversation = self._conversation(project_id, conversation_id, thorough=thorough)
        if not conversation.exists:
            self.project(project_id)
            raise ConversationNotFound(
                f"No session {conversation_id!r} in project {project_id!r}. Create it, or check the id."
            )
        return conversation

    def _project(self, project_id: str) -> Project:
        return self._projects.read(project_run(project_id), lambda: Project(project_id))

    def _conversation(self, project_id: str, conversation_id: str, *, thorough: bool = False) -> Conversation:
        run_id = conversation_run(project_id, conversation_id)
        thorough = self._is_written(run_id) or thorough
        return self._conversations.read(
            run_id, lambda: Conversation(project_id, conversation_id), thorough=thorough
        )

    def _append(self, events: Sequence[Event]) -> None:
        """Store events whose ids derive from their content: of two with one id, the first counts."""
        if events:
            with suppress(EventConflict):
                self._journal.append(events)
            if len(self._written) >= MAX_WRITTEN_RUNS:
                self._written.clear()
            self._written.update(event.run_id for event in events)

    def _is_written(self, run_id: str) -> bool:
        """Whether this process has written to the run since it last read it.

        Such a read must be thorough: if the clock of another writer is ahead, events of this process sort
        before events that were read already.
        """
        if run_id not in self._written:
            return False
        self._written.discard(run_id)
        return True


def _check_same(what: str, id: str, *, wanted: str | None, found: str | None) -> None:
    """Raise `AlreadyThere` if the existing name differs from the requested one."""
    if wanted is not None and wanted != found:
        raise AlreadyThere(f"A {what} {id!r} named {found!r} exists already. Choose another id.")
