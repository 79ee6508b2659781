"""Shell completion of run ids, executions and options."""

from __future__ import annotations

import pytest

from longwatch.cli.main import cli
from longwatch.cli.options import Invocation, complete_executions, complete_runs
from longwatch.executions.model import Execution
from longwatch.executions.transitions import start_event
from longwatch.journal.factory import open_journal
from tests.unit.cli.invocation import invoke
from tests.unit.cli.samples import START_MS


def test_run_ids_are_completed_from_the_newest_runs(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    context = cli.make_context("longwatch", ["--journal", file, "show", "x"], obj=Invocation(journal=file))
    parameter = cli.params[0]

    items = complete_runs(context, parameter, "wf-")

    assert [item.value for item in items] == ["wf-1b00ffee", "wf-1a2b3c4d"]


@pytest.mark.parametrize(("typed", "completed"), [("sho", ["shop/x-1"]), ("x-", ["x-1"]), ("wf-", [])])
def test_executions_are_completed_by_their_plan_or_their_id(
    file: str, typed: str, completed: list[str]
) -> None:
    with open_journal(file) as journal:
        journal.append([start_event(Execution(execution_id="x-1", plan_id="shop", started_at=START_MS))])
    context = cli.make_context("longwatch", ["show", "x"], obj=Invocation(journal=file))

    items = complete_executions(context, cli.params[0], typed)

    assert [item.value for item in items] == completed


def test_a_completion_that_fails_completes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGWATCH_CAPTURE", "some")
    context = cli.make_context("longwatch", ["show", "x"], obj=Invocation(journal="sqlite:///none.db"))

    assert complete_runs(context, cli.params[0], "") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_is_printed_with_a_hint(shell: str) -> None:
    shown = invoke("completion", shell)

    assert "_LONGWATCH_COMPLETE" in shown.stdout
    assert "longwatch completion" in shown.stderr
