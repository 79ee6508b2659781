"""Projects and the sessions of a project as topics: what another process creates is sent at once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from longwatch.journal.base import Journal
from longwatch.journal.sqlite import SqliteJournal
from longwatch.server.live.feed import Feed
from longwatch.turns import Conversations
from longwatch.turns.views import ProjectView, SessionView
from tests.integration.server.live.feed_follower import JOURNALS, Follower, make_journal, serving


@pytest.fixture(params=JOURNALS)
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Journal:
    return make_journal(request.param, tmp_path)


@pytest.fixture
async def feed(journal: Journal) -> AsyncIterator[Feed]:
    async with serving(journal) as feed:
        yield feed


async def test_existing_projects_come_first_and_new_ones_appear_by_themselves(feed: Feed) -> None:
    make = feed.context.conversations.create_project
    first = await feed.context.call(make, "p1", "First")

    follower = await Follower(feed, "projects").until_caught_up()
    assert follower.data("project") == [{"topic": "projects", "project": vars(ProjectView.of(first))}]
    await feed.context.call(make, "p2")
    await follower.until(lambda found: len(found.data("project")) == 2)

    assert follower.data("project")[1]["project"]["id"] == "p2"


async def test_sessions_of_a_project_are_sent_and_those_of_others_are_not(feed: Feed) -> None:
    conversations = feed.context.conversations
    for project in ("p1", "p2"):
        await feed.context.call(conversations.create_project, project)
    follower = await Follower(feed, "sessions:p1").until_caught_up()

    await feed.context.call(conversations.create_conversation, "p2", "elsewhere")
    made = await feed.context.call(conversations.create_conversation, "p1", "s1", "Roof")
    await follower.until(lambda found: bool(found.data("session")))

    view = vars(SessionView.of(made, None))
    wanted = {name: view[name] for name in ("id", "title", "created_at")}
    assert follower.data("session") == [{"topic": "sessions:p1", "session": wanted}]


async def test_a_reconnecting_client_receives_only_new_items(feed: Feed) -> None:
    make = feed.context.conversations.create_project
    await feed.context.call(make, "p1")
    before = await Follower(feed, "projects").until_caught_up()
    before.close()

    await feed.context.call(make, "p2")
    after = await Follower(feed, "projects", before.cursor).until_caught_up()
    await after.until(lambda found: bool(found.data("project")))

    assert [message["project"]["id"] for message in after.data("project")] == ["p2"]


async def test_the_sessions_of_a_missing_project_cannot_be_followed(feed: Feed) -> None:
    follower = Follower(feed, "sessions:none")
    await follower.until(lambda found: bool(found.data("error")))

    assert follower.data("error")[0]["code"] == "project_not_found"


async def test_a_session_that_another_process_creates_is_sent_at_once(tmp_path: Path) -> None:
    file = tmp_path / "shared.db"
    with SqliteJournal(file) as ours, SqliteJournal(file) as theirs:
        async with serving(ours) as feed:
            others = Conversations(theirs)
            await feed.context.call(others.create_project, "p")
            follower = await Follower(feed, "sessions:p").until_caught_up()

            await feed.context.call(others.create_conversation, "p", "from-elsewhere")
            await follower.until(lambda found: bool(found.data("session")))

    assert follower.data("session")[0]["session"]["id"] == "from-elsewhere"
