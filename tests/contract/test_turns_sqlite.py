"""Turns keep their promises in a SQLite file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from longwatch.journal.sqlite import SqliteJournal
from longwatch.testing.clock import FakeClock
from longwatch.turns import Conversations
from tests.contract.events import OpenAgain
from tests.contract.turn_lines import Session, assistant, text
from tests.contract.turns import TurnsContract


class TestTurnsInSqlite(TurnsContract):
    @pytest.fixture
    def open_again(self, clock: FakeClock, tmp_path: Path) -> Iterator[OpenAgain]:
        with ExitStack() as opened:
            yield lambda: opened.enter_context(SqliteJournal(tmp_path / "turns.db", clock=clock))

    def test_pruning_takes_old_turns_and_leaves_the_session(
        self, session: Session, open_again: OpenAgain, clock: FakeClock
    ) -> None:
        old = session.turn()
        session.all.feed("p", "s", old, [assistant(text("long ago"))])
        session.all.interrupt("p", "s", old)
        clock.advance(7 * 24 * 3600)
        new = session.turn()
        journal = open_again()
        assert isinstance(journal, SqliteJournal)

        journal.prune(clock.now_ms() - 24 * 3600 * 1000)

        again = Conversations(journal, clock)
        assert [state.turn_id for state in again.turns("p", "s")] == [new]
        assert [project.id for project in again.projects()] == ["p"]
        assert again.create_turn("p", "s").creation is not None
        assert journal.find_run(old) is None
