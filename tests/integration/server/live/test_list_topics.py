"""The list of runs and a project's files as topics: upserts, shared by all, resumed by cursor."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from longwatch.journal.base import Journal
from longwatch.journal.sqlite import SqliteJournal
from longwatch.model.event import Event
from longwatch.server.live.feed import Feed
from tests.integration.server.live.feed_follower import (
    JOURNALS,
    Follower,
    append,
    events_of,
    make_journal,
    serving,
)


@pytest.fixture(params=JOURNALS)
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Journal:
    return make_journal(request.param, tmp_path)


@pytest.fixture
async def feed(journal: Journal) -> AsyncIterator[Feed]:
    async with serving(journal) as feed:
        yield feed


def runs_of(follower: Follower) -> dict[str, dict[str, Any]]:
    """The list as a client keeps it: the last word on each run."""
    return {message["run"]["run_id"]: message["run"] for message in follower.data("run")}


async def test_existing_runs_come_first_and_new_ones_appear_by_themselves(feed: Feed) -> None:
    await append(feed.context, events_of("wf-old", 2))

    follower = await Follower(feed, "runs").until_caught_up()
    assert list(runs_of(follower)) == ["wf-old"]
    await append(feed.context, events_of("wf-new", 3))
    await follower.until(lambda found: runs_of(found).get("wf-new", {}).get("events") == 3)

    assert follower.data("caught_up") == [{"topic": "runs"}]


async def test_a_run_that_ends_is_sent_again(feed: Feed) -> None:
    (started,) = events_of("wf-1", 1)
    ended = Event(
        run_id="wf-1", event_id="end", type="workflow_complete", occurred_at=started.occurred_at + 1
    )
    await append(feed.context, [started])
    follower = await Follower(feed, "runs").until_caught_up()

    await append(feed.context, [ended])

    await follower.until(lambda found: runs_of(found)["wf-1"]["status"] == "succeeded")


async def test_projects_and_conversations_are_not_in_the_list_of_runs(feed: Feed) -> None:
    conversations = feed.context.conversations
    follower = await Follower(feed, "runs").until_caught_up()

    await feed.context.call(conversations.create_project, "p")
    await feed.context.call(conversations.create_conversation, "p", "s")
    turn = await feed.context.call(conversations.create_turn, "p", "s", "do it")
    await follower.until(lambda found: turn.turn_id in runs_of(found))

    assert {run["kind"] for run in runs_of(follower).values()} == {"turn"}


async def test_a_client_that_reconnects_to_the_list_receives_what_changed_meanwhile(feed: Feed) -> None:
    await append(feed.context, events_of("wf-1", 1) + events_of("wf-2", 1))
    before = await Follower(feed, "runs").until_caught_up()
    before.close()

    at = feed.context.clock.now_ms() + 1
    ended = Event(run_id="wf-2", event_id="end", type="workflow_complete", occurred_at=at)
    await append(feed.context, [ended])
    after = await Follower(feed, "runs", before.cursor).until_caught_up()
    await after.until(lambda found: runs_of(found).get("wf-2", {}).get("status") == "succeeded")

    if isinstance(feed.context.journal, SqliteJournal):
        assert "wf-1" not in runs_of(after)


async def test_one_broadcast_serves_every_viewer_of_the_list(feed: Feed) -> None:
    followers = [Follower(feed, "runs") for _ in range(4)]
    for follower in followers:
        await follower.until_caught_up()

    await append(feed.context, events_of("wf-1", 1))
    for follower in followers:
        await follower.until(lambda found: "wf-1" in runs_of(found))

    assert len({id(follower.frames[-1]) for follower in followers}) == 1


async def test_files_are_sent_and_then_their_creations_changes_and_deletions(feed: Feed) -> None:
    documents = feed.context.documents
    await feed.context.call(documents.write_text, "p", "a.md", "one")

    follower = await Follower(feed, "files:p").until_caught_up()
    await feed.context.call(documents.write_text, "p", "b.md", "two")
    await feed.context.call(documents.delete, "p", "a.md")
    await follower.until(lambda found: found.data("files")[-1]["version"] == 3)

    entries = [entry for message in follower.data("files") for entry in message["changes"]]
    assert entries[0]["path"] == "a.md"
    last = {entry["path"]: entry["deleted"] for entry in entries}
    assert last == {"a.md": True, "b.md": False}
    places = [(entry["path"], entry["version"]) for entry in entries]
    assert len(set(places)) == len(places)


async def test_files_resume_from_the_last_version_received(feed: Feed) -> None:
    documents = feed.context.documents
    await feed.context.call(documents.write_text, "p", "a.md", "one")
    before = await Follower(feed, "files:p").until_caught_up()
    before.close()

    await feed.context.call(documents.write_text, "p", "b.md", "two")
    async with serving(feed.context.journal) as other:
        other_feed = Feed(other.context)
        other_feed.context.documents.write_text("p", "a.md", "one")
        other_feed.context.documents.write_text("p", "b.md", "two")
        after = await Follower(other_feed, "files:p", before.cursor).until_caught_up()

    assert [entry["path"] for message in after.data("files") for entry in message["changes"]] == ["b.md"]


@pytest.mark.parametrize("topic", ["runs", "files:p", "session:p/s", "run:wf-1"])
async def test_a_cursor_of_another_topic_is_refused_with_a_message(feed: Feed, topic: str) -> None:
    await feed.context.call(feed.context.conversations.create_project, "p")
    await feed.context.call(feed.context.conversations.create_conversation, "p", "s")

    follower = Follower(feed, topic, "x~y")
    await follower.until(lambda found: found.is_over)

    assert [message["code"] for message in follower.data("error")] == ["invalid_cursor"]
