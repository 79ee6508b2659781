"""The polling service among real threads, files and processes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from longwatch.following import PollingService, polling_service
from longwatch.journal.memory import MemoryJournal
from longwatch.journal.sqlite import SqliteJournal
from longwatch.model.event import Event, Page
from longwatch.testing import FaultyJournal
from longwatch.testing.clock import START_MS as NOW
from tests.contract.events import event
from tests.contract.services import Received, whole_run
from tests.patience import PATIENCE_SECONDS

LEFT_RUNNING = """
import sys, longwatch
from longwatch.testing import FaultyJournal, MemoryJournal

service = longwatch.PollingService({journal})
service.on_event(print)
service.start_polling("wf-1")
{then}
"""

APPENDS = """
import sys, longwatch
from tests.contract.services import whole_run

with longwatch.open_journal(sys.argv[1]) as journal:
    for each in whole_run("wf-1", 1_794_736_800_000, count=50):
        journal.append([each])
"""


class Gated(FaultyJournal):
    """A journal that is polled, and whose responses about one run are held back until they are released."""

    def __init__(self, journal: MemoryJournal, held: str) -> None:
        super().__init__(journal)
        self._held = held
        self.polled = threading.Event()
        self.may_go = threading.Event()

    def read(self, run_id: str, **options: Any) -> Page:
        page = super().read(run_id, **options)
        if run_id == self._held:
            self.polled.set()
            assert self.may_go.wait(PATIENCE_SECONDS)
        return page


def test_a_result_that_was_under_way_is_never_delivered_into_the_next_run() -> None:
    store, received, errors = MemoryJournal(), Received[Event](), Received[Exception]()
    old, new = whole_run("wf-old", NOW), whole_run("wf-new", NOW)
    store.append([*old, *new])
    gated = Gated(store, "wf-old")

    with PollingService(gated) as service:
        service.on_event(received)
        service.on_error(errors)
        service.start_polling("wf-old")
        assert gated.polled.wait(PATIENCE_SECONDS)
        service.start_polling("wf-new")
        received.has(len(new))  # the next run does not wait for a response that is no longer wanted
        gated.may_go.set()
        assert service.wait(PATIENCE_SECONDS)

    assert received.values == new
    assert errors.values == []


def test_events_of_another_process_come_through_a_file_exactly_once(tmp_path: Path) -> None:
    url, received = f"sqlite:///{tmp_path / 'events.db'}", Received[Event]()

    with PollingService(url) as service:
        service.on_event(received)
        service.start_polling("wf-1")
        subprocess.run([sys.executable, "-c", APPENDS, url], check=True, cwd=Path(__file__).parents[3])
        assert service.wait(PATIENCE_SECONDS)

    assert received.values == whole_run("wf-1", NOW, count=50)


def test_threads_that_start_stop_and_subscribe_at_once_never_mix_two_runs(tmp_path: Path) -> None:
    before, runs = set(threading.enumerate()), [f"wf-{number}" for number in range(4)]
    mixed: list[tuple[Event, Event]] = []
    errors = Received[Exception]()
    with SqliteJournal(tmp_path / "events.db") as journal:
        for run in runs:
            journal.append(whole_run(run, NOW, count=30))
        service = PollingService(journal)
        service.on_error(errors)
        threads = [
            threading.Thread(target=_meddle, args=(service, runs, Random(seed), mixed)) for seed in range(6)
        ]

        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_SECONDS)
        last = Received[Event]()
        service.stop_polling()
        service.on_event(last)
        service.start_polling(runs[0])
        assert service.wait(PATIENCE_SECONDS)
        service.dispose()

        assert last.values == whole_run(runs[0], NOW, count=30)
    assert errors.values == []
    assert mixed == []
    assert set(threading.enumerate()) <= before


def _meddle(
    service: PollingService, runs: Sequence[str], random: Random, mixed: list[tuple[Event, Event]]
) -> None:
    for _ in range(40):
        with service.on_event(_in_order(mixed)):
            service.start_polling(random.choice(runs))
            if random.random() < 0.5:
                service.stop_polling()
            else:
                service.wait(random.choice([0.0, 0.002]))


def _in_order(mixed: list[tuple[Event, Event]]) -> Callable[[Event], None]:
    """From wherever it joins: the next event of the same run, or the first of any."""
    seen: list[Event] = []

    def take(each: Event) -> None:
        if seen:
            is_next = each.run_id == seen[-1].run_id and each.number == (seen[-1].number or 0) + 1
            if not is_next and each.number != 1:
                mixed.append((seen[-1], each))
        seen.append(each)

    return take


@pytest.mark.parametrize("journal", ["MemoryJournal()", "FaultyJournal(MemoryJournal())"])
@pytest.mark.parametrize("then", ["", "sys.exit(0)"])
def test_a_program_may_end_without_disposing_of_its_service(journal: str, then: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", LEFT_RUNNING.format(journal=journal, then=then)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_has_a_service_of_its_own() -> None:
    code = (
        "import os\n"
        "from longwatch import polling_service\n"
        "service = polling_service()\n"
        "service.on_event(print)\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    os._exit(0 if polling_service() is not service else 1)\n"
        "raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )

    ended = subprocess.run([sys.executable, "-c", code], timeout=PATIENCE_SECONDS)

    assert ended.returncode == 0


def test_concurrent_callers_get_the_same_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGWATCH_JOURNAL", "memory://")
    found: list[PollingService] = []
    together = threading.Barrier(8)

    def get_service() -> None:
        together.wait()
        found.append(polling_service())

    threads = [threading.Thread(target=get_service) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(found) == 8
    assert len(set(map(id, found))) == 1
    found[0].dispose()


def test_a_callback_that_blocks_delays_and_loses_nothing() -> None:
    journal, received, may_go = MemoryJournal(), Received[Event](), threading.Event()
    story = whole_run("wf-1", NOW, count=3_000)

    def take(each: Event) -> None:
        if each == story[0]:
            assert may_go.wait(PATIENCE_SECONDS)
        received(each)

    with PollingService(journal) as service:
        service.on_event(take)
        service.start_polling("wf-1")
        journal.append(story[:1])
        for begin in range(1, len(story), 100):
            journal.append([*story[begin : begin + 100], event("wf-2", NOW)])
        may_go.set()
        assert service.wait(PATIENCE_SECONDS)

    assert received.values == story
