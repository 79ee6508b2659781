"""The doctor's findings about the stores beside the journal, on files."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from longwatch.cli.doctor_checks import (
    Finding,
    check_documents,
    check_executions,
    check_notifications,
    check_space,
    run_check,
)
from longwatch.documents.stores.sqlite import SqliteDocumentStore
from longwatch.executions.stores.sqlite import SqliteExecutionStore
from longwatch.journal.sqlite import SqliteJournal
from longwatch.notifications.stores.sqlite import SqliteNotificationStore
from longwatch.settings import Settings, load_settings
from longwatch.testing import FakeClock
from tests.contract.executions import new_execution
from tests.unit.cli.samples import research


def settings_of(file: Path) -> Settings:
    return replace(load_settings(), journal=f"sqlite:///{file}")


def facts(finding: Finding) -> dict[str, str]:
    return {name: value for name, value, _ in finding.facts}


def examined(settings: Settings) -> tuple[Finding, Finding]:
    return (
        run_check("Documents", lambda finding: check_documents(settings, finding)),
        run_check("Executions", lambda finding: check_executions(settings, finding)),
    )


def test_the_contents_of_the_journal_s_file_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    with SqliteDocumentStore(file) as documents, closing(SqliteExecutionStore(file)) as executions:
        documents.write_text("p", "a.md", "one")
        documents.write_text("p", "b.md", "two")
        executions.add(new_execution())

    documents_found, executions_found = examined(settings_of(file))

    assert (facts(documents_found)["kept"], facts(executions_found)["kept"]) == ("2", "1")
    assert ("file", str(file), "the journal's") in documents_found.facts
    assert not documents_found.problems + executions_found.problems


def test_a_check_creates_neither_a_file_nor_tables(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    absent = examined(settings_of(file))
    assert not file.exists()
    with SqliteJournal(file) as journal:
        journal.append(research())
    size = file.stat().st_size

    empty = examined(settings_of(file))

    assert [facts(each).get("kept") for each in (*absent, *empty)] == [None, None, "none yet", "none yet"]
    assert file.stat().st_size == size


def test_documents_may_have_a_file_of_their_own(tmp_path: Path) -> None:
    other = tmp_path / "documents.db"
    with SqliteDocumentStore(other) as documents:
        documents.write_text("p", "a.md", "one")
    settings = replace(settings_of(tmp_path / "runs.db"), documents=f"sqlite:///{other}")

    found, _ = examined(settings)

    assert facts(found)["kept"] == "1"
    assert "permissions" in facts(found)


def test_a_file_that_is_not_a_database_is_a_problem_with_the_next_step(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    file.write_text("no database " * 100, encoding="utf-8")

    found, _ = examined(settings_of(file))

    assert "move the file away" in found.problems[0]


@pytest.mark.parametrize(
    ("free_bytes", "problems", "warnings"),
    [
        (0, ["No space left for runs.db. Free some disk space."], 0),
        (12 << 20, [], 1),
        (5 << 30, [], 0),
    ],
)
def test_little_free_disk_space_is_reported(free_bytes: int, problems: list[str], warnings: int) -> None:
    finding = Finding("Journal")

    check_space(Path("runs.db"), free_bytes, finding)

    assert "free space" in facts(finding)
    assert (finding.problems, len(finding.warnings)) == (problems, warnings)


RULE = {"name": "failures", "trigger": "failed", "channel": "command", "command": ["true"]}


def notifications_found(settings: Settings) -> Finding:
    return run_check("Notifications", lambda finding: check_notifications(settings, FakeClock(), finding))


def test_rules_are_named_and_the_queue_is_counted_without_a_table_of_it(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    settings = replace(settings_of(file), notify=(RULE,))
    absent = notifications_found(settings)
    assert not file.exists()
    with SqliteJournal(file) as journal:
        journal.append(research())
    size = file.stat().st_size

    unused = notifications_found(settings)

    assert facts(absent) == facts(unused) == {"rules": "failures"}
    assert file.stat().st_size == size
    with closing(SqliteNotificationStore(file)) as store:
        assert store.get("rule#failures") is None
    used = notifications_found(settings)
    assert facts(used) == {"rules": "failures", "waiting": "0 messages", "dead letters": "0"}
    assert not used.problems + used.warnings


def test_a_mistake_in_a_rule_is_a_problem(tmp_path: Path) -> None:
    settings = replace(settings_of(tmp_path / "runs.db"), notify=({**RULE, "trigger": "faild"},))

    found = notifications_found(settings)

    assert facts(found) == {"rules": "none"}
    assert "did you mean 'failed'?" in found.problems[0]
