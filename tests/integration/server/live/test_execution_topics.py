"""Executions as topics: the list, and one of them; sent when they change, resumed by cursor."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from longwatch.documents.stores.memory import MemoryDocumentStore
from longwatch.errors import JournalUnavailable, TableProblem
from longwatch.executions.model import Execution, JobState
from longwatch.executions.stores.base import ExecutionStore
from longwatch.executions.stores.memory import MemoryExecutionStore
from longwatch.executions.stores.sqlite import SqliteExecutionStore
from longwatch.journal.sqlite import SqliteJournal
from longwatch.server.cache.execution_cache import ExecutionQuery
from longwatch.server.context import open_context
from longwatch.server.live import execution_topics
from longwatch.server.live.execution_topics import poll_delay_seconds
from longwatch.server.live.feed import Feed
from tests.integration.server.execution_stories import (
    FAILED,
    GOING,
    LAUNCHED,
    Watched,
    fresh,
    now_ms,
    wave_job,
)
from tests.integration.server.live.feed_follower import Follower, eventually


class Unnumbered:
    """A store that does not signal writes, like a table."""

    def __init__(self) -> None:
        self._store = MemoryExecutionStore()
        self.add, self.get, self.update = self._store.add, self._store.get, self._store.update
        self.find, self.unsettled, self.close = self._store.find, self._store.unsettled, self._store.close
        self.polls = 0
        self.trouble: Exception | None = None

    def open_executions(self) -> Any:
        self.polls += 1
        if self.trouble is not None:
            raise self.trouble
        return self._store.open_executions()


@pytest.fixture(params=["sqlite", "memory", "table"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ExecutionStore:
    monkeypatch.setattr(execution_topics, "SOON_SECONDS", 0.02)
    if request.param == "sqlite":
        return SqliteExecutionStore(tmp_path / "journal.db")
    return MemoryExecutionStore() if request.param == "memory" else Unnumbered()


@pytest.fixture
async def feed(store: ExecutionStore, tmp_path: Path) -> AsyncIterator[Feed]:
    with MemoryDocumentStore() as documents, SqliteJournal(tmp_path / "journal.db") as journal:
        async with open_context(journal, documents, executions=store) as context:
            yield Feed(context)


def listed(follower: Follower) -> dict[str, dict[str, Any]]:
    return {
        message["execution"]["execution_id"]: message["execution"] for message in follower.data("execution")
    }


async def test_existing_executions_come_first_and_new_ones_appear_by_themselves(
    feed: Feed, store: ExecutionStore
) -> None:
    store.add(fresh("x-old"))

    follower = await Follower(feed, "executions").until_caught_up()
    assert list(listed(follower)) == ["x-old"]
    store.add(fresh("x-new", ago_ms=0))
    await follower.until(lambda found: "x-new" in listed(found))

    assert follower.data("caught_up") == [{"topic": "executions"}]


async def test_an_execution_that_progresses_and_ends_is_sent_again(feed: Feed, store: ExecutionStore) -> None:
    watched = Watched(store, feed.context.journal, fresh("x-1"))
    follower = await Follower(feed, "executions").until_caught_up()

    watched.receive(wave_job(0, LAUNCHED, GOING))
    await follower.until(lambda found: listed(found)["x-1"]["servers_ended"] == 1)
    watched.receive(wave_job(0, LAUNCHED, LAUNCHED, state=JobState.FINISHED))

    await follower.until(lambda found: listed(found)["x-1"]["status"] == "succeeded")


async def test_a_reconnecting_client_receives_what_changed_meanwhile(
    feed: Feed, store: ExecutionStore
) -> None:
    first = Watched(store, feed.context.journal, fresh("x-1"))
    Watched(store, feed.context.journal, fresh("x-2"))
    before = await Follower(feed, "executions").until_caught_up()
    before.close()

    first.change(failures=1)
    after = await Follower(feed, "executions", before.cursor).until_caught_up()
    await after.until(lambda found: listed(found).get("x-1", {}).get("failures") == 1)

    if not isinstance(store, Unnumbered):
        assert "x-2" not in listed(after)


async def test_one_broadcast_serves_every_viewer(feed: Feed, store: ExecutionStore) -> None:
    followers = [Follower(feed, "executions") for _ in range(3)]
    for follower in followers:
        await follower.until_caught_up()

    store.add(fresh("x-1", ago_ms=0))
    for follower in followers:
        await follower.until(lambda found: "x-1" in listed(found))

    assert len({id(follower.frames[-1]) for follower in followers}) == 1


async def test_an_execution_is_sent_whole_and_again_when_it_changes(
    feed: Feed, store: ExecutionStore
) -> None:
    watched = Watched(store, feed.context.journal, fresh("x-1"))
    other = Watched(store, feed.context.journal, fresh("x-2"))
    follower = await Follower(feed, "execution:x-1").until_caught_up()

    other.change(failures=1)
    watched.receive(wave_job(0, LAUNCHED, GOING))
    await follower.until(lambda found: len(found.data("execution")) == 2)

    executions = [each["execution"] for each in follower.data("execution")]
    assert {each["execution_id"] for each in executions} == {"x-1"}
    assert [each["state"] for each in executions[-1]["waves"][0]["servers"]] == ["launched", "in_progress"]
    assert executions[-1]["explained"]


async def test_a_topic_with_the_plan_sends_nothing_of_another_plan_with_the_same_id(
    feed: Feed, store: ExecutionStore
) -> None:
    one = Watched(store, feed.context.journal, fresh("x-1", plan_id="plan-a"))
    other = Watched(store, feed.context.journal, fresh("x-1", plan_id="plan/b"))
    follower = await Follower(feed, "execution:plan%2Fb/x-1").until_caught_up()
    bare = await Follower(feed, "execution:x-1").until(lambda found: found.is_over)

    one.receive(wave_job(0, LAUNCHED, state=JobState.FINISHED))
    other.receive(wave_job(0, FAILED, state=JobState.FINISHED))
    await follower.until(lambda found: len(found.data("execution")) == 2)

    executions = [each["execution"] for each in follower.data("execution")]
    assert {each["plan_id"] for each in executions} == {"plan/b"}
    assert executions[-1]["status"] == "failed"
    assert [each["code"] for each in bare.data("error")] == ["ambiguous_execution"]


async def test_a_client_with_the_present_execution_receives_nothing_twice(
    feed: Feed, store: ExecutionStore
) -> None:
    watched = Watched(store, feed.context.journal, fresh("x-1"))
    before = await Follower(feed, "execution:x-1").until_caught_up()
    before.close()

    same = await Follower(feed, "execution:x-1", before.cursor).until_caught_up()
    watched.change(failures=1)
    later = await Follower(feed, "execution:x-1", before.cursor).until_caught_up()

    assert same.data("execution") == []
    assert [each["execution"]["failures"] for each in later.data("execution")] == [1]


async def test_a_missing_execution_and_an_invalid_cursor_are_errors_with_a_message(
    feed: Feed, store: ExecutionStore
) -> None:
    store.add(fresh("x-1"))
    codes = []

    for topic, after in (("execution:x-none", ""), ("execution:x-1", "x~y"), ("executions", "x~y")):
        follower = await Follower(feed, topic, after).until(lambda found: found.is_over)
        codes += [message["code"] for message in follower.data("error")]

    assert codes == ["execution_not_found", "invalid_cursor", "invalid_cursor"]


@pytest.mark.parametrize("store", ["table"], indirect=True)
async def test_an_account_without_the_table_has_an_empty_list(feed: Feed, store: Unnumbered) -> None:
    store.trouble = TableProblem("not-found", "There is no table.")

    follower = await Follower(feed, "executions").until_caught_up()

    assert follower.names() == ["caught_up"]


@pytest.mark.parametrize("store", ["table"], indirect=True)
async def test_a_table_without_read_permission_is_reported_and_an_unavailable_one_recovers(
    feed: Feed, store: Unnumbered
) -> None:
    store.trouble = TableProblem("refused", "No right to query.")
    refused = await Follower(feed, "executions").until(lambda found: found.is_over)

    store.trouble = JournalUnavailable("away")
    late = Follower(feed, "executions")
    await eventually(lambda: store.polls > 1)
    store.trouble = None
    await late.until_caught_up()

    assert [message["message"] for message in refused.data("error")] == ["No right to query."]


@pytest.mark.parametrize("store", ["table"], indirect=True)
async def test_a_table_that_becomes_unavailable_is_noticed_and_followed_again_when_it_is_back(
    feed: Feed, store: Unnumbered
) -> None:
    store.add(fresh("x-1"))  # something is due, so it is polled often
    follower = await Follower(feed, "executions").until_caught_up()

    store.trouble = JournalUnavailable("away")
    await eventually(lambda: feed.executions.is_away)
    store.add(fresh("x-2", ago_ms=0))
    store.trouble = None
    await follower.until(lambda found: "x-2" in listed(found))

    assert not feed.executions.is_away


@pytest.mark.parametrize("store", ["table"], indirect=True)
async def test_an_invalid_record_stops_the_list_only_until_it_is_repaired(
    feed: Feed, store: Unnumbered
) -> None:
    store.add(fresh("x-1"))
    follower = await Follower(feed, "executions").until_caught_up()

    store.trouble = ValueError("invalid literal for int()")
    polls = store.polls
    await eventually(lambda: store.polls > polls)
    store.add(fresh("x-2", ago_ms=0))
    store.trouble = None

    await follower.until(lambda found: "x-2" in listed(found))


@pytest.mark.parametrize("store", ["table"], indirect=True)
async def test_nothing_is_polled_without_followers(feed: Feed, store: Unnumbered) -> None:
    follower = await Follower(feed, "executions").until_caught_up()
    follower.close()
    assert feed.executions.is_running

    feed.broadcasts.close()  # as happens by itself some seconds after the last one has left

    await eventually(lambda: not feed.executions.is_running)


def test_a_table_is_polled_often_only_while_something_is_due() -> None:
    now = now_ms()
    waiting = fresh("x-1", last_polled_at=now, next_poll_at=now + 5_000)
    cases: list[tuple[list[Execution], float]] = [
        ([], execution_topics.LATER_SECONDS),
        ([waiting], 5.0),
        ([waiting, fresh("x-2")], execution_topics.SOON_SECONDS),
        (
            [fresh("x-3", last_polled_at=now, lease_holder="p", lease_until=now + 9_000)],
            execution_topics.SOON_SECONDS,
        ),
        ([fresh("x-4", last_polled_at=now, next_poll_at=now + 900_000)], execution_topics.LATER_SECONDS),
        ([fresh("x-5", closed=True)], execution_topics.LATER_SECONDS),
    ]

    assert [poll_delay_seconds(executions, now) for executions, _ in cases] == [
        seconds for _, seconds in cases
    ]


async def test_executions_of_a_file_that_replaces_the_store_are_sent(tmp_path: Path) -> None:
    path, other = tmp_path / "journal.db", tmp_path / "other.db"
    with closing(SqliteExecutionStore(other)) as replacement:
        replacement.add(fresh("x-other"))
    store = SqliteExecutionStore(path)
    with MemoryDocumentStore() as documents, SqliteJournal(path) as journal, closing(store):
        async with open_context(journal, documents, executions=store) as context:
            store.add(fresh("x-1"))
            follower = await Follower(Feed(context), "executions").until_caught_up()

            other.replace(path)
            await follower.until(lambda found: "x-other" in listed(found))

            found = context.executions.find(ExecutionQuery(), limit=10)
            assert [each.execution_id for each in found.executions] == ["x-other"]
