"""A message that streams, as viewers of its turn receive it: whole for a late one, then in deltas."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import pytest

from longwatch.journal.base import Journal
from longwatch.server.live.feed import Feed
from longwatch.server.live.messages import Frame
from tests.integration.server.live.feed_follower import JOURNALS, Follower, make_journal, serving

WORDS = ("I ", "read ", "the ", "test ", "first. ")


@pytest.fixture(params=JOURNALS)
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Journal:
    return make_journal(request.param, tmp_path)


@pytest.fixture
async def feed(journal: Journal) -> AsyncIterator[Feed]:
    async with serving(journal) as feed:
        await feed.context.call(feed.context.conversations.create_project, "p")
        await feed.context.call(feed.context.conversations.create_conversation, "p", "s")
        yield feed


class Client:
    """What a client shows of the turn, by the documented rule."""

    def __init__(self, frames: Iterable[Frame] = ()) -> None:
        self.id, self.text, self.parts = "", "", 0
        self.blocks: list[str] = []
        for frame in frames:
            self.take(frame)

    def take(self, frame: Frame) -> None:
        data = json.loads(frame.data)
        if frame.name == "block_delta":
            delta = data["delta"]
            if delta["part"] == 0:
                self.id, self.text, self.parts = delta["id"], "", 0
            if delta["id"] == self.id and delta["part"] == self.parts:
                self.text += delta["text"]
                self.parts = delta["parts"]
        elif frame.name == "block":
            self.blocks.append(data["block"]["content"]["text"])
            if data.get("replaces") == self.id:
                self.id, self.text, self.parts = "", "", 0


def starts() -> dict[str, object]:
    return {"type": "content_block_start", "content_block": {"type": "text", "text": ""}}


def adds(words: str) -> dict[str, object]:
    return {"type": "content_block_delta", "delta": {"type": "text_delta", "text": words}}


async def new_turn(feed: Feed) -> str:
    return (await feed.context.call(feed.context.conversations.create_turn, "p", "s", "go")).turn_id


async def stream(feed: Feed, turn_id: str, *events: dict[str, object]) -> None:
    lines = [json.dumps({"type": "stream_event", "event": event}) for event in events]
    await feed.context.call(feed.context.conversations.feed, "p", "s", turn_id, lines)


async def finish(feed: Feed, turn_id: str, text: str = "".join(WORDS)) -> None:
    message = {"content": [{"type": "text", "text": text}]}
    lines = [json.dumps({"type": "assistant", "message": message})]
    await feed.context.call(feed.context.conversations.feed, "p", "s", turn_id, lines)


def shows(text: str, blocks: int = 0) -> object:
    def is_shown(follower: Follower) -> bool:
        client = Client(follower.frames)
        return (client.text, len(client.blocks)) == (text, blocks)

    return is_shown


@pytest.mark.parametrize("topic", ["turn:p/s/{}", "session:p/s"])
async def test_every_viewer_sees_the_text_grow_whenever_it_comes(feed: Feed, topic: str) -> None:
    turn_id = await new_turn(feed)
    await stream(feed, turn_id, starts(), adds("I "))
    viewers = [await Follower(feed, topic.format(turn_id)).until_caught_up()]
    assert Client(viewers[0].frames).text == "I "

    for count in range(2, len(WORDS) + 1):
        await stream(feed, turn_id, adds(WORDS[count - 1]))
        viewers.append(await Follower(feed, topic.format(turn_id)).until_caught_up())
        for viewer in viewers:
            await viewer.until(shows("".join(WORDS[:count])))  # type: ignore[arg-type]
    await finish(feed, turn_id)
    for viewer in viewers:
        await viewer.until(shows("", blocks=1))  # type: ignore[arg-type]

    sent = [json.loads(frame.data)["delta"] for frame in viewers[0].frames if frame.name == "block_delta"]
    assert [delta["text"] for delta in sent] == list(WORDS)  # each word once
    assert len({delta["id"] for delta in sent}) == 1


@pytest.mark.parametrize("topic", ["turn:p/s/{}", "session:p/s"])
async def test_a_viewer_resumes_after_any_message_and_shows_the_same(feed: Feed, topic: str) -> None:
    turn_id = await new_turn(feed)
    viewer = await Follower(feed, topic.format(turn_id)).until_caught_up()
    await stream(feed, turn_id, starts(), adds("I "))
    await viewer.until(shows("I "))  # type: ignore[arg-type]
    await stream(feed, turn_id, adds("read "))
    await viewer.until(shows("I read "))  # type: ignore[arg-type]
    await finish(feed, turn_id, "I read it.")
    await stream(feed, turn_id, starts(), adds("Then "))
    await viewer.until(shows("Then ", blocks=1))  # type: ignore[arg-type]

    for index, frame in enumerate(viewer.frames):
        if frame.cursor is not None:
            rest = await Follower(feed, topic.format(turn_id), frame.cursor).until_caught_up()
            client = Client([*viewer.frames[: index + 1], *rest.frames])
            assert (client.text, client.blocks) == ("Then ", ["I read it."])


async def test_a_viewer_on_another_server_sees_the_same_text(feed: Feed, journal: Journal) -> None:
    turn_id = await new_turn(feed)
    await stream(feed, turn_id, starts(), adds("I "), adds("read "))

    async with serving(journal) as elsewhere:
        viewer = await Follower(elsewhere, f"turn:p/s/{turn_id}").until_caught_up()
        await stream(feed, turn_id, adds("it. "))
        await viewer.until(shows("I read it. "))  # type: ignore[arg-type]


async def test_a_turn_that_is_read_later_has_no_deltas(feed: Feed) -> None:
    turn_id = await new_turn(feed)
    for event in (starts(), adds("I "), adds("read ")):
        await stream(feed, turn_id, event)
    await finish(feed, turn_id)

    viewer = await Follower(feed, f"turn:p/s/{turn_id}").until_caught_up()

    assert "block_delta" not in viewer.names()


async def test_a_turn_that_ended_in_the_middle_keeps_its_text_and_is_not_sent_twice(feed: Feed) -> None:
    turn_id = await new_turn(feed)
    await stream(feed, turn_id, starts(), adds("so far "))
    await feed.context.call(feed.context.conversations.interrupt, "p", "s", turn_id)

    viewer = await Follower(feed, f"turn:p/s/{turn_id}").until_caught_up()
    cursor = viewer.frames[-1].cursor
    assert cursor is not None
    again = await Follower(feed, f"turn:p/s/{turn_id}", cursor).until_caught_up()

    assert Client(viewer.frames).text == "so far "
    assert again.names() == ["caught_up"]
