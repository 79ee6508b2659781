"""Turns and conversations as topics: the turn, its blocks, and all turns of a session."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from longwatch.journal.base import Journal
from longwatch.server.live.feed import Feed
from longwatch.turns.views import TurnLine
from tests.integration.server.live.feed_follower import JOURNALS, Follower, make_journal, serving

TEXTS = ("thinking about it", "first answer", "second answer", "third answer")


@pytest.fixture(params=JOURNALS)
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Journal:
    return make_journal(request.param, tmp_path)


@pytest.fixture
async def feed(journal: Journal) -> AsyncIterator[Feed]:
    async with serving(journal) as feed:
        await feed.context.call(feed.context.conversations.create_project, "p")
        await feed.context.call(feed.context.conversations.create_conversation, "p", "s")
        yield feed


def line(text: str) -> str:
    return json.dumps({"type": "assistant", "message": {"content": [{"type": "text", "text": text}]}})


async def new_turn(feed: Feed, prompt: str = "do it") -> str:
    made = await feed.context.call(feed.context.conversations.create_turn, "p", "s", prompt)
    return made.turn_id


async def send_lines(feed: Feed, turn_id: str, *texts: str, end: bool = False) -> None:
    lines = [line(text) for text in texts]
    if end:
        lines.append(json.dumps({"type": "result", "is_error": False, "result": "done"}))
    await feed.context.call(feed.context.conversations.feed, "p", "s", turn_id, lines)


def texts_of(follower: Follower) -> list[str]:
    """The texts of the blocks, in order, as a client stores them: by id."""
    blocks: dict[str, dict[str, Any]] = {}
    for message in follower.data("block"):
        blocks[message["block"]["id"]] = message["block"]
    ordered = sorted(blocks.values(), key=lambda block: block["sequence"])
    return [block["content"]["text"] for block in ordered]


async def test_a_turn_is_sent_with_its_blocks_and_then_new_blocks(feed: Feed) -> None:
    turn_id = await new_turn(feed)
    await send_lines(feed, turn_id, *TEXTS[:2])

    follower = await Follower(feed, f"turn:p/s/{turn_id}").until_caught_up()
    await send_lines(feed, turn_id, *TEXTS[2:], end=True)
    await follower.until(lambda found: found.data("turn")[-1]["turn"]["status"] == "completed")

    assert texts_of(follower) == list(TEXTS)
    assert len(follower.data("block")) == 4
    assert [message["block"]["sequence"] for message in follower.data("block")] == [0, 1, 2, 3]
    statuses = [message["turn"]["status"] for message in follower.data("turn")]
    assert statuses == ["pending", "running", "completed"]
    state = await feed.context.call(feed.context.conversations.turn, "p", "s", turn_id)
    assert follower.data("turn")[-1]["turn"] == vars(TurnLine.of(state))


async def test_a_turn_resumes_after_any_message_without_a_duplicate(feed: Feed) -> None:
    turn_id = await new_turn(feed)
    await send_lines(feed, turn_id, *TEXTS, end=True)
    topic = f"turn:p/s/{turn_id}"
    whole = await Follower(feed, topic).until_caught_up()
    cursors = [(index, frame.cursor) for index, frame in enumerate(whole.frames) if frame.cursor is not None]

    for index, cursor in cursors[:-1]:
        assert cursor is not None
        rest = await Follower(feed, topic, cursor).until_caught_up()
        assert [frame.data for frame in rest.frames] == [frame.data for frame in whole.frames[index + 1 :]]


async def test_followers_of_a_turn_share_its_messages(feed: Feed) -> None:
    turn_id = await new_turn(feed)
    followers = [Follower(feed, f"turn:p/s/{turn_id}") for _ in range(3)]
    for follower in followers:
        await follower.until_caught_up()

    for number, text in enumerate(TEXTS, 1):
        await send_lines(feed, turn_id, text)
        for follower in followers:
            await follower.until(has_blocks(number))

    assert all(texts_of(follower) == list(TEXTS) for follower in followers)
    last = [[frame for frame in follower.frames if frame.name == "block"][-1] for follower in followers]
    assert len({id(frame) for frame in last}) == 1


async def test_an_unknown_turn_is_reported_as_not_found(feed: Feed) -> None:
    follower = Follower(feed, "turn:p/s/turn-000000000000")

    await follower.until(lambda found: found.is_over)

    assert [message["code"] for message in follower.data("error")] == ["turn_not_found"]


async def test_a_session_sends_all_its_turns_and_new_ones(feed: Feed) -> None:
    first = await new_turn(feed, "one")
    await send_lines(feed, first, TEXTS[0], end=True)
    second = await new_turn(feed, "two")
    await send_lines(feed, second, TEXTS[1])

    follower = await Follower(feed, "session:p/s").until_caught_up()
    third = await new_turn(feed, "three")
    await send_lines(feed, third, TEXTS[2], end=True)
    await follower.until(lambda found: is_finished(found, first, second, third))

    assert {
        message["turn_id"]: message["block"]["content"]["text"] for message in follower.data("block")
    } == {
        first: TEXTS[0],
        second: TEXTS[1],
        third: TEXTS[2],
    }
    assert follower.names().count("caught_up") == 1
    last = {message["turn"]["id"]: message["turn"] for message in follower.data("turn")}
    assert [last[turn_id]["status"] for turn_id in (first, second, third)] == [
        "completed",
        "failed",  # a new turn cancels the one before it
        "completed",
    ]


async def test_a_session_resumes_after_any_message_without_a_duplicate(feed: Feed) -> None:
    turns = [await new_turn(feed, "one")]
    await send_lines(feed, turns[0], TEXTS[0], end=True)
    turns.append(await new_turn(feed, "two"))
    await send_lines(feed, turns[1], TEXTS[1])
    whole = await Follower(feed, "session:p/s").until_caught_up()
    items = [(frame.name, frame.data) for frame in whole.frames if frame.name in ("turn", "block")]

    for index, frame in enumerate(whole.frames):
        if frame.cursor is None:
            continue
        rest = await Follower(feed, "session:p/s", frame.cursor).until_caught_up()
        again = [(each.name, each.data) for each in rest.frames if each.name in ("turn", "block")]
        before = whole.frames[: index + 1]
        seen = [(each.name, each.data) for each in before if each.name in ("turn", "block")]
        assert sorted(seen + again) == sorted(items)


async def test_an_unknown_session_is_reported_as_not_found(feed: Feed) -> None:
    follower = Follower(feed, "session:p/nowhere")

    await follower.until(lambda found: found.is_over)

    assert [message["code"] for message in follower.data("error")] == ["session_not_found"]


def has_blocks(count: int) -> Callable[[Follower], bool]:
    return lambda follower: len(follower.data("block")) >= count


def is_finished(follower: Follower, *turn_ids: str) -> bool:
    last = {message["turn"]["id"]: message["turn"]["status"] for message in follower.data("turn")}
    return all(last.get(turn_id) in ("completed", "failed") for turn_id in turn_ids)
