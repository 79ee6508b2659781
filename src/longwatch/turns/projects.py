"""Projects and their conversations over a journal: made and listed.

What is made stands in two runs, its own and the one that lists it. Where only one of the two was written,
making it again writes the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from longwatch.clock import Clock
from longwatch.errors import AlreadyThere, ConversationNotFound, EventConflict, ProjectNotFound
from longwatch.journal.base import Journal
from longwatch.model.event import Event
from longwatch.settings import Settings
from longwatch.turns.directory import Conversation, Project, ProjectList
from longwatch.turns.folds import Folds
from longwatch.turns.names import PROJECTS_RUN, conversation_run, new_id, project_run
from longwatch.turns.storing import EventMaker

REMEMBERED_WRITES = 10_000


class Projects:
    """All projects of one journal. Threads may share it."""

    def __init__(self, journal: Journal, clock: Clock, *, settings: Settings | None = None) -> None:
        self._journal = journal
        self._clock = clock
        self._make = EventMaker(journal, settings)
        self._make_lasting = partial(self._make.event, expires=False)
        self._lists = Folds[ProjectList](journal)
        self._projects = Folds[Project](journal)
        self._conversations = Folds[Conversation](journal)
        self._written: set[str] = set()  # runs that were written here and not read since

    def create_project(self, id: str | None = None, name: str | None = None) -> Project:
        """Make a project. One that is there already under this id and name is simply returned."""
        project_id = new_id() if id is None else id
        run_id, at = project_run(project_id), self._clock.now_ms()
        said, fixed = {"name": name}, {"project_id": project_id}
        known, events = self._project(project_id), list[Event]()
        if known.exists:
            _check_same("project", project_id, wanted=name, found=known.name)
        else:
            events.append(
                self._make_lasting(run_id, f"{run_id}#created", "project_created", at, said, fixed=fixed)
            )
        if project_id not in self._lists.read(PROJECTS_RUN, ProjectList).ids:
            events.append(
                self._make_lasting(PROJECTS_RUN, f"{run_id}#added", "project_added", at, said, fixed=fixed)
            )
        self._append(events)
        return self._project(project_id)

    def projects(self) -> list[Project]:
        """All projects, the first one first."""
        listed = self._lists.read(PROJECTS_RUN, ProjectList)
        return [project for id in listed.ids if (project := self._project(id)).exists]

    def project(self, project_id: str) -> Project:
        """One project, or `ProjectNotFound`."""
        project = self._project(project_id)
        if not project.exists:
            raise ProjectNotFound(f"There is no project {project_id!r}. Create it, or check its id.")
        return project

    def create_conversation(
        self, project_id: str, id: str | None = None, title: str | None = None
    ) -> Conversation:
        """Make a conversation. One that is there already under this id and title is simply returned."""
        project = self.project(project_id)
        conversation_id = new_id() if id is None else id
        run_id, parent = conversation_run(project_id, conversation_id), project_run(project_id)
        at = self._clock.now_ms()
        known, events = self._conversation(project_id, conversation_id), list[Event]()
        if known.exists:
            _check_same("session", conversation_id, wanted=title, found=known.title)
        else:
            said = {"project_id": project_id, "title": title, "name": title, "parent_run_id": parent}
            events.append(self._make_lasting(run_id, f"{run_id}#created", "conversation_created", at, said))
        if conversation_id not in project.conversation_ids:
            said, fixed = {"title": title}, {"conversation_id": conversation_id}
            event_id = f"{run_id}#added"
            events.append(self._make_lasting(parent, event_id, "conversation_added", at, said, fixed=fixed))
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
                f"There is no session {conversation_id!r} in project {project_id!r}. "
                "Create it, or check its id."
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
        """Store events whose ids say what they are: of two under one id, the first counts."""
        if events:
            with suppress(EventConflict):
                self._journal.append(events)
            if len(self._written) >= REMEMBERED_WRITES:
                self._written.clear()
            self._written.update(event.run_id for event in events)

    def _is_written(self, run_id: str) -> bool:
        """Whether this process has written to a run since it read the run last.

        Such a read has to be thorough: if the clock of another writer is ahead, events with the time of this
        one lie before what was read already.
        """
        if run_id not in self._written:
            return False
        self._written.discard(run_id)
        return True


def _check_same(what: str, id: str, *, wanted: str | None, found: str | None) -> None:
    """Nothing, if what is there is what was wanted; else `AlreadyThere`."""
    if wanted is not None and wanted != found:
        raise AlreadyThere(f"There is a {what} {id!r} already, called {found!r}. Choose another id.")
