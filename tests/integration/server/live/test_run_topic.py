"""A run as a topic: history, then live, exactly once, shared by all who follow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from longwatch.clock import SYSTEM_CLOCK
from longwatch.journal.base import Journal
from longwatch.model.event import Event
from longwatch.server.live.feed import Feed
from longwatch.server.live.subscription import FrameBroadcast
from tests.integration.server.live.feed_follower import (
    JOURNALS,
    Follower,
    append,
    events_of,
    eventually,
    ids,
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


async def test_history_comes_first_then_caught_up_then_live_events(feed: Feed) -> None:
    events = events_of("wf-1", 30)
    await append(feed.context, events[:20])

    follower = Follower(feed, "run:wf-1")
    await follower.until_caught_up()
    await append(feed.context, events[20:])
    await follower.until_events(30)

    assert follower.event_ids() == ids(events)
    assert follower.names() == ["event"] * 20 + ["caught_up"] + ["event"] * 10
    assert all(message["topic"] == "run:wf-1" for message in follower.data("event"))


async def test_viewers_that_join_at_any_moment_get_each_event_once(feed: Feed) -> None:
    events = events_of("wf-1", 200)
    followers: list[Follower] = []

    async def write() -> None:
        for number in range(0, 200, 4):
            await append(feed.context, events[number : number + 4])

    writing = asyncio.create_task(write())
    for number in range(0, 200, 10):
        followers.append(Follower(feed, "run:wf-1"))
        await followers[0].until_events(number)
    await writing
    for follower in followers:
        await follower.until_events(200)

    for follower in followers:
        assert follower.event_ids() == ids(events)


async def test_messages_are_rendered_once_for_all_live_viewers(feed: Feed) -> None:
    first, second = events_of("wf-1", 2)
    followers = [Follower(feed, "run:wf-1") for _ in range(5)]
    for follower in followers:
        await follower.until_caught_up()

    await append(feed.context, [first])
    for follower in followers:
        await follower.until_events(1)
    await append(feed.context, [second])
    for follower in followers:
        await follower.until_events(2)

    assert len({id(follower.frames[-1]) for follower in followers}) == 1
    assert len(feed.broadcasts) == 1


async def test_a_later_viewer_shares_the_history_that_was_rendered_already(feed: Feed) -> None:
    events = events_of("wf-1", 30)
    await append(feed.context, events[:20])
    first = await Follower(feed, "run:wf-1").until_caught_up()
    await append(feed.context, events[20:])
    await first.until_events(30)

    second = await Follower(feed, "run:wf-1").until_caught_up()

    assert second.event_ids() == ids(events)
    assert [id(frame) for frame in second.frames if frame.name == "event"] == [
        id(frame) for frame in first.frames if frame.name == "event"
    ]


async def test_a_long_history_is_read_and_nothing_is_lost_where_it_meets_the_broadcast(feed: Feed) -> None:
    events = events_of("wf-1", 2_300)
    await append(feed.context, events[:2_200])
    first = await Follower(feed, "run:wf-1").until_caught_up()
    await append(feed.context, events[2_200:])
    await first.until_events(2_300)

    second = await Follower(feed, "run:wf-1").until_caught_up()
    await second.until_events(2_300)

    assert first.event_ids() == second.event_ids() == ids(events)


async def test_any_cursor_resumes_after_its_message(feed: Feed) -> None:
    events = events_of("wf-1", 12)
    await append(feed.context, events)
    whole = await Follower(feed, "run:wf-1").until_caught_up()

    for count, frame in enumerate(whole.frames[:12], 1):
        assert frame.cursor is not None
        resumed = await Follower(feed, "run:wf-1", frame.cursor).until_caught_up()
        assert resumed.event_ids() == ids(events[count:])


async def test_a_cursor_of_one_server_resumes_on_another(journal: Journal) -> None:
    events = events_of("wf-1", 10)
    async with serving(journal) as one, serving(journal) as other:
        await append(one.context, events[:6])
        before = await Follower(one, "run:wf-1").until_events(4)
        cursor = before.frames[3].cursor
        assert cursor is not None
        after = await Follower(other, "run:wf-1", cursor).until_caught_up()
        await append(one.context, events[6:])
        await after.until_events(6)

    assert before.event_ids()[:4] + after.event_ids() == ids(events)


async def test_a_late_event_is_sent_as_late(feed: Feed) -> None:
    now = SYSTEM_CLOCK.now_ms()
    first, second, late = events_of("wf-1", 3, at=now)
    late = Event(run_id="wf-1", event_id="late", type="note", occurred_at=now - 1_000)
    await append(feed.context, [first, second])
    follower = await Follower(feed, "run:wf-1").until_caught_up()

    await append(feed.context, [late])
    await follower.until_events(3)

    assert [message["late"] for message in follower.data("event")] == [False, False, True]


async def test_a_run_that_ends_is_sent_as_ended_and_the_topic_is_over(feed: Feed) -> None:
    started, *_ = events_of("wf-1", 1)
    closed = [
        Event(
            run_id="wf-1",
            event_id="end",
            type="workflow_complete",
            occurred_at=started.occurred_at + 1,
            producer=started.producer,
            number=2,
        ),
        Event(
            run_id="wf-1",
            event_id="closed",
            type="producer_closed",
            occurred_at=started.occurred_at + 2,
            payload={"count": 3},
            producer=started.producer,
            number=3,
        ),
    ]
    await append(feed.context, [started])
    follower = await Follower(feed, "run:wf-1").until_caught_up()

    await append(feed.context, closed)
    await follower.until(lambda found: found.is_over)

    assert follower.data("ended") == [
        {"topic": "run:wf-1", "reason": "ended", "status": "succeeded", "message": None}
    ]
    assert follower.names()[-1] == "ended"


async def test_a_slow_reader_receives_how_much_was_missed_and_gets_all_of_it(
    feed: Feed,
) -> None:
    feed.broadcasts.make = partial(FrameBroadcast, retain_items=10)
    events = events_of("wf-1", 100)
    quick, slow = Follower(feed, "run:wf-1"), Follower(feed, "run:wf-1")
    for follower in (quick, slow):
        await follower.until_caught_up()
    for number in range(2):
        await append(feed.context, events[number : number + 1])
        for follower in (quick, slow):
            await follower.until_events(number + 1)

    for number in range(2, 100, 7):
        await append(feed.context, events[number : number + 7])
        await quick.until_events(min(number + 7, 100))
    await slow.until_events(100)

    assert quick.event_ids() == ids(events)
    assert slow.event_ids() == ids(events)
    (message,) = slow.data("missed")
    assert 98 - 2 * 10 <= message["count"] <= 98
    assert "missed" not in quick.names()


async def test_an_invalid_cursor_is_reported_by_its_kind(feed: Feed) -> None:
    follower = Follower(feed, "run:wf-1", "no-cursor-of-any-journal")

    await follower.until(lambda found: found.is_over)

    (message,) = follower.data("error")
    assert message["code"] == "invalid_cursor"
    assert message["topic"] == "run:wf-1"


async def test_a_broadcast_stays_for_a_while_and_then_nothing_is_followed(journal: Journal) -> None:
    async with serving(journal) as feed:
        feed.broadcasts.linger_seconds = 0.05
        follower = await Follower(feed, "run:wf-1").until_caught_up()
        assert len(feed.broadcasts) == 1

        follower.close()
        await eventually(lambda: not len(feed.broadcasts) and not feed.context.hub.followers)
