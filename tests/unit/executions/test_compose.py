"""The composition root of executions: what it opens, what it closes, and what each part is made with."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import longwatch
from longwatch.clock import Clock
from longwatch.executions.compose import WatchingParts
from longwatch.executions.finder import Tick
from longwatch.executions.poller import PollReport, Result
from longwatch.executions.sources.base import SourceProblem
from longwatch.executions.stores.memory import MemoryExecutionStore
from longwatch.model.event import Page
from longwatch.settings import Settings
from longwatch.testing import FakeClock, MemoryJournal
from tests.unit.executions.cadence.samples import START_MS, story
from tests.unit.executions.samples import IN_PROGRESS, PENDING, START, drill, job
from tests.unit.executions.scripted_source import ScriptedSource

SOURCE = Path(longwatch.__file__).parent
IN_MEMORY = Settings("memory://")


class Counted(MemoryJournal):
    """A journal with past drills that counts how often one is read, which is a query on DynamoDB."""

    def __init__(self, executions: int, clock: Clock) -> None:
        super().__init__(clock=clock)
        self.reads = 0
        for number in range(executions):
            at = START_MS + number * 3_600_000
            self.append(story((60, (IN_PROGRESS,)), ended=120, execution_id=f"past-{number}", started_at=at))

    def read(self, run_id: str, **options: Any) -> Page:
        self.reads += "past-" in run_id
        return super().read(run_id, **options)


class Parted:
    """Parts around a store with one drill in it."""

    def __init__(self, settings: Settings = IN_MEMORY, *, executions: int = 0, **more: Any) -> None:
        self.clock, self.store = FakeClock(START), MemoryExecutionStore()
        self.journal = Counted(executions, self.clock)
        self.store.add(drill(PENDING))
        self.source = ScriptedSource(self.clock, job(IN_PROGRESS))
        self.parts = WatchingParts(
            settings,
            store=self.store,
            journal=self.journal,
            sources={"drs": self.source},
            clock=self.clock,
            **more,
        )

    def lease(self) -> None:
        """Let another poller hold the drill."""
        stored = self.store.get("x-1")
        assert stored is not None
        self.store.update(replace(stored, lease_holder="another", lease_until=START + 60_000))


def test_a_finder_opens_neither_the_journal_nor_a_source(tmp_path: Path) -> None:
    file = tmp_path / "journal.db"
    broken = Settings(f"sqlite:///{file}", watches={"drs": {}})  # its sources can not be made

    tick = WatchingParts(broken, executions_url="memory://compose-finder").finder(print).tick()

    assert (tick.survey.open, file.exists()) == (0, False)


def test_stores_that_were_opened_are_closed(tmp_path: Path) -> None:
    log = tmp_path / "journal.db-wal"  # SQLite removes it with the last connection

    with WatchingParts(Settings(f"sqlite:///{tmp_path / 'journal.db'}")) as parts:
        source = parts.sources["process"]
        assert (list(parts.store.find()), list(parts.journal.find_runs().runs)) == ([], [])
        assert log.exists()

    assert not log.exists()
    assert parts.sources["process"] is not source  # the registry has released it


def test_stores_that_are_passed_in_stay_open() -> None:
    closed: list[str] = []

    class Store(MemoryExecutionStore):
        def close(self) -> None:
            closed.append("store")

    class Journal(MemoryJournal):
        def close(self) -> None:
            closed.append("journal")

    class Source(ScriptedSource):
        def close(self) -> None:
            closed.append("source")

    sources = {"drs": Source(FakeClock())}
    with WatchingParts(IN_MEMORY, store=Store(), journal=Journal(), sources=sources) as parts:
        parts.watcher().poll_due()

    assert closed == []


def test_the_poller_is_made_with_the_settings_and_what_the_process_brings() -> None:
    polls: list[PollReport] = []
    made = Parted(
        replace(IN_MEMORY, ttl_hours=2.0),
        holder="me",
        on_poll=polls.append,
        redact=lambda text: text.replace("hunter2", "***"),
    )

    made.parts.poller.poll("x-1")
    made.clock.advance(60)
    made.source.problem = SourceProblem("wrong password hunter2")
    polled = made.parts.poller.poll("x-1")

    assert made.parts.poller.holder == "me"
    assert [each.result for each in polls] == [Result.POLLED, Result.NO_RESPONSE]
    events = made.journal.read("p-1/x-1").events
    assert {event.ttl and event.ttl - event.occurred_at // 1000 for event in events} == {7200}
    assert polled.problem == SourceProblem("wrong password ***")


@pytest.mark.parametrize(
    ("setting", "learned", "expected"),
    [
        (False, None, False),
        (True, None, True),
        (True, False, False),
        (False, True, True),
    ],
)
def test_the_cadence_is_learned_by_the_setting_unless_the_process_decides(
    setting: bool, learned: bool | None, expected: bool
) -> None:
    parts = Parted(replace(IN_MEMORY, learned_cadence=setting), learned=learned).parts

    assert (parts.is_learned, parts.cadence is not None) == (expected, expected)


def test_the_history_is_read_by_the_first_poll_and_only_so_much_of_it() -> None:
    made = Parted(executions=12, learned=True, history_limit=5)
    poller, before = made.parts.poller, made.journal.reads

    polled, first = poller.poll("x-1"), made.journal.reads
    made.clock.advance(60)
    again = poller.poll("x-1")

    assert (polled.result, again.result) == (Result.POLLED, Result.POLLED)
    assert (before, first, made.journal.reads) == (0, 5, 5)


def test_the_history_is_not_read_by_a_poller_that_comes_too_late() -> None:
    made = Parted(executions=3, learned=True)
    made.lease()

    polled = made.parts.poller.poll("x-1")

    assert (polled.result, made.journal.reads) == (Result.BUSY, 0)


@pytest.mark.parametrize(("learned", "polled_at"), [(False, [0.0]), (True, [0.0, 2.5, 5.0, 7.5, 10.0])])
def test_a_finder_polls_again_sooner_where_pollers_learn(learned: bool, polled_at: list[float]) -> None:
    made, at = Parted(learned=learned), []

    def note(tick: Tick) -> None:
        at.append((made.clock.now_ms() - START) / 1000)

    made.parts.finder(lambda execution: None, on_tick=note).run(seconds=10)

    assert at == polled_at


def test_nothing_else_composes_them() -> None:
    composed = {"Poller", "Finder", "Watcher"}

    def composes(node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in composed

    found = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if any(map(composes, ast.walk(ast.parse(path.read_text(encoding="utf-8")))))
    }

    assert found == {"executions/compose.py"}
