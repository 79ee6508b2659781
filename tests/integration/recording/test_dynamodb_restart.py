"""DynamoDB Local is stopped and started again in the middle of recording: all events arrive, once."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from longwatch.journal.factory import open_journal
from longwatch.journal.verify import Completeness
from longwatch.recording.outbox import Outbox
from longwatch.recording.recorder import Recorder
from longwatch.settings import Settings
from tests.contract.tables import new_table
from tests.engines.start import DynamoDbLocal
from tests.integration.recording.processes import all_events, verification_of
from tests.integration.recording.test_outages import QuickClock, wait_until
from tests.patience import PATIENCE_SECONDS

RUN = "wf-1"
BEFORE, DURING = 60, 40


@pytest.mark.needs_java
@pytest.mark.parametrize("layout", ["workflow", "session"])
def test_an_engine_that_is_killed_and_comes_back_has_every_event_once(
    durable_dynamodb: DynamoDbLocal, tmp_path: Path, layout: str
) -> None:
    with new_table(durable_dynamodb.url, layout) as address:
        url = f"dynamodb://{address.table}?region={address.region}&layout={layout}&endpoint={durable_dynamodb.url}"
        settings = Settings(journal=url, outbox=str(tmp_path / "outbox.db"), ttl_hours=0)
        recorder = Recorder(settings=settings, clock=QuickClock())
        reached = {n: threading.Event() for n in (BEFORE, BEFORE + DURING)}
        stop = threading.Event()
        recorded = 0

        def record() -> None:
            nonlocal recorded
            while not stop.is_set():
                recorder.record(RUN, "step", {"n": recorded})
                recorded += 1
                if recorded in reached:
                    reached[recorded].set()
                stop.wait(0.01)

        thread = threading.Thread(target=record)
        thread.start()
        assert reached[BEFORE].wait(PATIENCE_SECONDS)
        durable_dynamodb.kill()  # as a crash would, with puts in flight
        wait_until(lambda: recorder.stats().in_outbox > 0)
        assert reached[BEFORE + DURING].wait(PATIENCE_SECONDS)
        durable_dynamodb.start()
        wait_until(lambda: recorder.stats().in_outbox == 0)
        stop.set()
        thread.join()
        assert recorder.close(60)

        with open_journal(url) as journal:
            events = all_events(journal, RUN)
        steps = [event.payload["n"] for event in events if event.type == "step"]
        late = [event for event in events if event.type == "late_batch"]
        assert sorted(steps) == list(range(recorded))  # type: ignore[type-var]
        assert late
        assert verification_of(events).answer is Completeness.COMPLETE
        assert Outbox(settings.outbox_path).pending() == []
