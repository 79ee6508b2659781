"""Polls that fail, hang or are cancelled: left alone longer each time, given up, revived."""

from __future__ import annotations

import asyncio
import logging

import pytest

from longwatch.errors import Unreachable
from longwatch.polling import PollingManager
from tests.unit.polling.virtual import Source

pytestmark = pytest.mark.looptime


async def test_failures_are_left_alone_longer_each_time_and_the_sixth_in_a_row_stops(
    manager: PollingManager,
) -> None:
    source, errors = Source(), list[Exception]()
    source.error = OSError("refused")

    registration = manager.register("a", source.poll, 1.0, on_error=errors.append)
    await asyncio.sleep(1_000)

    assert source.started == [0, 2, 6, 14, 30, 46]
    assert errors == [source.error] * 6
    assert registration.state.stopped
    assert registration.state.reason == "gave up after 6 failures in a row: OSError: refused"
    assert manager.metrics.failures == 6


async def test_a_success_clears_the_failures_at_once(manager: PollingManager) -> None:
    source = Source()
    source.error = OSError("refused")
    registration = manager.register("a", source.poll, 1.0, on_error=lambda error: None)
    await asyncio.sleep(5)
    assert registration.state.failures == 2

    source.error = None
    await asyncio.sleep(3.5)

    assert source.started == [0, 2, 6, 7, 8]
    assert registration.state.failures == 0


async def test_one_key_that_fails_does_not_slow_the_others(manager: PollingManager) -> None:
    bad, good = Source(), Source()
    bad.error = OSError("refused")

    manager.register("bad", bad.poll, 1.0, on_error=lambda error: None)
    manager.register("good", good.poll, 1.0)
    await asyncio.sleep(5.5)

    assert good.started == [0, 1, 2, 3, 4, 5]


async def test_a_touch_and_a_new_subscriber_revive_a_key_that_gave_up(manager: PollingManager) -> None:
    source = Source()
    source.error = OSError("refused")
    manager.register("a", source.poll, 1.0, on_error=lambda error: None)
    await asyncio.sleep(100)

    manager.touch("a")
    await asyncio.sleep(100)
    manager.register("a", source.poll, 1.0)
    await asyncio.sleep(100)

    assert source.started == [0, 2, 6, 14, 30, 46, 100, 102, 106, 114, 130, 146, 200, 202, 206, 214, 230, 246]


async def test_a_new_subscriber_waits_for_a_backoff_that_has_not_given_up(manager: PollingManager) -> None:
    source = Source()
    source.error = OSError("refused")
    manager.register("a", source.poll, 1.0, on_error=lambda error: None)
    await asyncio.sleep(3)

    manager.register("a", source.poll, 1.0, on_error=lambda error: None)
    await asyncio.sleep(3.5)

    assert source.started == [0, 2, 6]


async def test_a_failure_without_a_listener_is_logged(
    manager: PollingManager, caplog: pytest.LogCaptureFixture
) -> None:
    source = Source()
    source.error = OSError("refused")

    manager.register("a", source.poll, 1.0)
    await asyncio.sleep(100)

    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 6
    assert messages[0] == "Poll of 'a' failed, 1 failure: OSError: refused; next poll in 2 s"
    assert messages[-1].endswith("call touch() to resume")


async def test_a_poll_without_a_response_is_a_failure_and_frees_its_slot() -> None:
    hanging, good, errors = Source(seconds=10_000), Source(), list[Exception]()

    async with PollingManager(max_concurrent=1, timeout_seconds=5) as manager:
        manager.register("hanging", hanging.poll, 1.0, on_error=errors.append)
        manager.register("good", good.poll, 1.0)
        await asyncio.sleep(6.5)

        assert hanging.cancelled == 1
        assert isinstance(errors[0], Unreachable)
        assert "'hanging' returned no result within 5 s" in str(errors[0])
        assert good.started == [5, 6]


async def test_a_polls_own_timeout_is_passed_on_as_it_is(manager: PollingManager) -> None:
    source = Source()
    source.error = TimeoutError("the server's")

    with pytest.raises(TimeoutError, match="the server's"):
        await manager.fetch("a", source.poll)


async def test_a_poll_that_is_cancelled_from_inside_is_a_failure_like_any_other(
    manager: PollingManager,
) -> None:
    async def poll() -> None:
        raise asyncio.CancelledError

    errors = list[Exception]()
    manager.register("a", poll, 1.0, on_error=errors.append)
    await asyncio.sleep(3)

    assert len(errors) == 2
    assert "cancelled itself" in str(errors[0])
    assert not manager.is_closed


async def test_logging_is_left_alone_while_all_is_well(
    manager: PollingManager, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "longwatch")

    manager.register("a", Source().poll, 1.0)
    await asyncio.sleep(10)

    assert [record for record in caplog.records if record.name == "longwatch"] == []
