"""Those who are connected: their heartbeat, and how they learn that the server is going down."""

from __future__ import annotations

import asyncio
import json

import pytest

from longwatch.clock import SYSTEM_CLOCK
from longwatch.following.broadcast import Broadcasts
from longwatch.server.live.subscription import FrameBroadcast
from longwatch.server.live.viewers import Viewer, Viewers


@pytest.fixture
def closing() -> asyncio.Event:
    return asyncio.Event()


@pytest.fixture
def viewers(closing: asyncio.Event) -> Viewers:
    return Viewers(Broadcasts(FrameBroadcast), closing, SYSTEM_CLOCK)


@pytest.mark.looptime
async def test_each_viewer_has_a_beat_every_fifteen_seconds(viewers: Viewers) -> None:
    loop = asyncio.get_running_loop()
    connected = [Viewer() for _ in range(30)]
    for viewer in connected:
        viewers.enter(viewer)
    beats: dict[Viewer, list[float]] = {viewer: [] for viewer in connected}

    async def note(viewer: Viewer) -> None:
        while True:
            await viewer.wait()
            beat = viewer.take_beat()
            assert beat is not None
            assert json.loads(beat.data)["now"] > 0
            beats[viewer].append(loop.time())

    noting = [loop.create_task(note(viewer)) for viewer in connected]
    await asyncio.sleep(45.5)
    for task in noting:
        task.cancel()
    for viewer in connected:
        viewers.exit(viewer)
    await asyncio.sleep(2.0)

    assert all(len(found) == 3 for found in beats.values())
    assert all(later - earlier == pytest.approx(15.0, abs=0.1) for _, earlier, later in beats.values())
    moments = {round(found[0]) for found in beats.values()}
    assert len(moments) == 15  # not all at once


@pytest.mark.looptime
async def test_every_viewer_is_notified_at_once_of_a_shutdown_and_stalled_ones_are_cut_off(
    viewers: Viewers, closing: asyncio.Event
) -> None:
    loop = asyncio.get_running_loop()
    notified: list[float] = []

    async def listen() -> None:
        viewer = Viewer()
        viewers.enter(viewer)
        await viewer.wait()
        assert viewer.is_closing
        notified.append(loop.time())
        viewers.exit(viewer)

    async def stall() -> None:
        viewers.enter(Viewer())
        await asyncio.Event().wait()

    listening = [loop.create_task(listen()) for _ in range(5)]
    stalled = loop.create_task(stall())
    await asyncio.sleep(0.25)
    closing.set()
    began = loop.time()
    await asyncio.gather(*listening)
    await asyncio.wait([stalled])

    assert notified == pytest.approx([began] * 5)
    assert stalled.cancelled()
    assert loop.time() - began <= 1.0


@pytest.mark.looptime
async def test_nothing_runs_when_every_viewer_has_left(viewers: Viewers) -> None:
    viewer = Viewer()
    viewers.enter(viewer)
    await asyncio.sleep(0.5)

    viewers.exit(viewer)
    viewers.exit(viewer)
    await asyncio.sleep(2.0)

    assert len(viewers) == 0
    assert len(asyncio.all_tasks()) == 1


@pytest.mark.looptime
async def test_every_viewer_is_notified_within_a_second_of_an_outage_and_its_end(
    closing: asyncio.Event,
) -> None:
    away = False
    viewers = Viewers(Broadcasts(FrameBroadcast), closing, SYSTEM_CLOCK, is_away=lambda: away)
    connected = [Viewer() for _ in range(5)]
    for viewer in connected:
        viewers.enter(viewer)
    await asyncio.sleep(5.5)
    for viewer in connected:
        viewer.take_beat()

    away = True
    await asyncio.sleep(1.0)
    gone = [viewer.take_beat() for viewer in connected]
    away = False
    await asyncio.sleep(1.0)
    back = [viewer.take_beat() for viewer in connected]
    for viewer in connected:
        viewers.exit(viewer)

    assert [json.loads(beat.data).get("journal") for beat in gone if beat is not None] == ["away"] * 5
    assert [json.loads(beat.data).get("journal") for beat in back if beat is not None] == [None] * 5
