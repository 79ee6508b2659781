"""Projects, and the sessions of a project, as topics: each is told once, whoever makes it."""

from __future__ import annotations

from collections.abc import Sequence

from longwatch.clock import iso_from_ms
from longwatch.following.items import Ended, Followed
from longwatch.model.event import text_of
from longwatch.server.feed.messages import Frame, caught_up, message


class ProjectListRenderer:
    """Tells of the projects that are added to the list of them."""

    is_settled = False

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def event(self, followed: Followed) -> Sequence[Frame]:
        said = followed.event.payload
        project_id = text_of(said, "project_id")
        if followed.event.type != "project_added" or project_id is None:
            return ()
        project = {
            "id": project_id,
            "name": text_of(said, "name"),
            "created_at": iso_from_ms(followed.event.occurred_at),
        }
        return [message("project", self._topic, followed.cursor, project=project)]

    def caught_up(self, cursor: str) -> Sequence[Frame]:
        return [caught_up(self._topic, cursor)]

    def ended(self, ended: Ended) -> Sequence[Frame]:
        return ()  # it never does


class SessionListRenderer(ProjectListRenderer):
    """Tells of the sessions that are added to a project."""

    def event(self, followed: Followed) -> Sequence[Frame]:
        said = followed.event.payload
        session_id = text_of(said, "conversation_id")
        if followed.event.type != "conversation_added" or session_id is None:
            return ()
        session = {
            "id": session_id,
            "title": text_of(said, "title"),
            "created_at": iso_from_ms(followed.event.occurred_at),
        }
        return [message("session", self._topic, followed.cursor, session=session)]
