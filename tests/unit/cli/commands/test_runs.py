"""`longwatch runs` lists runs with filters, conditions and columns that fit the width."""

from __future__ import annotations

import json
from datetime import UTC

import pytest

from longwatch.cli.commands.runs import run_table
from longwatch.cli.render.styles import line_columns, paint
from longwatch.errors import InvalidInput, InvalidQuery
from longwatch.following.observation import ObservedRun
from longwatch.model.event import Event
from longwatch.model.run import Condition, summarise
from tests.unit.cli.invocation import invoke
from tests.unit.cli.samples import START_MS, failing, research, session


def test_a_list_of_runs_can_be_narrowed(file: str) -> None:
    def ids(*arguments: str) -> list[str]:
        shown = invoke("runs", "--journal", file, "-o", "json", *arguments)
        return [run["run_id"] for run in json.loads(shown.stdout)]

    assert [name[:5] for name in ids()] == ["sessi", "wf-1b", "wf-1a"]
    assert ids("--status", "failed") == ["wf-1b00ffee"]
    assert [name[:5] for name in ids("--kind", "session")] == ["sessi"]
    assert ids("-q", "RESEARCH") == ["wf-1a2b3c4d"]
    assert [name[:5] for name in ids("--since", "9m30s")] == ["sessi", "wf-1b"][:2]
    assert ids("--until", str(START_MS + 1000)) == ["wf-1a2b3c4d"]
    assert len(ids("--limit", "2")) == 2


def test_a_query_narrows_a_list(file: str) -> None:
    def ids(*arguments: str) -> list[str]:
        shown = invoke("runs", "--journal", file, "-o", "json", *arguments)
        return [run["run_id"] for run in json.loads(shown.stdout)]

    assert ids("status:failed") == ["wf-1b00ffee"]
    assert ids("research", "kind:workflow") == ["wf-1a2b3c4d"]
    assert ids("research", "--status", "failed") == []
    assert ids("-status:succeeded,running", "--limit", "2") == ["wf-1b00ffee"]
    assert ids("--limit", "2", "--", "-research", "status:failed") == ["wf-1b00ffee"]
    assert ids("-kind:session", "--", "-research") == ["wf-1b00ffee"]


def test_an_invalid_query_names_the_position(file: str) -> None:
    with pytest.raises(
        InvalidQuery, match=r"at position 1: Unknown status 'faild'\. Did you mean 'failed'\?"
    ):
        invoke("runs", "--journal", file, "status:faild")


def test_a_list_that_was_cut_states_that_there_is_more(file: str) -> None:
    shown = invoke("runs", "--journal", file, "--limit", "1")

    assert "For more, use --limit or --all" in shown.stderr
    assert "--all" not in invoke("runs", "--journal", file, "--all").stderr


def test_a_scan_is_refused_where_it_has_no_meaning(file: str) -> None:
    with pytest.raises(InvalidInput, match="--scan needs a DynamoDB"):
        invoke("runs", "--journal", file, "--scan")


UNATTENDED = Condition("unattended", "process 1 (wrapper) is gone; process 2 on vm still runs")


UNDELIVERED = Condition("undelivered", "process 1 on vm is gone and left events")


SILENT_PROCESS = Condition("no heartbeat", "no heartbeat since …", since=START_MS)


def observed_runs(*conditions: Condition) -> list[ObservedRun]:
    first, *others = [summarise(events).popitem()[1] for events in (research(), failing(), session())]
    return [ObservedRun(first), *(ObservedRun(run, conditions) for run in others)]


@pytest.mark.parametrize(
    ("conditions", "shown"),
    [
        ([UNATTENDED], "unattended"),
        ([SILENT_PROCESS, UNATTENDED, UNDELIVERED], "undelivered"),
        ([SILENT_PROCESS], "no heartbeat since 10:02:11"),
    ],
)
def test_the_gravest_condition_of_a_run_is_in_the_table(conditions: list[Condition], shown: str) -> None:
    now, runs = START_MS + 600_000, observed_runs(*conditions)

    heading, *rows = [paint(line, colour=False) for line in run_table(runs, now_ms=now, width=None, zone=UTC)]

    at = heading.index("CONDITION")
    assert [row[at:].startswith(shown) for row in rows] == [False, True, True]


def test_an_open_run_without_events_for_a_minute_is_silent_in_the_table() -> None:
    open_run = summarise(research()[:3]).popitem()[1]

    heading, row = [
        paint(line, colour=False)
        for line in run_table([ObservedRun(open_run)], now_ms=START_MS + 600_000, width=None)
    ]

    assert row[heading.index("CONDITION") :].startswith("silent ")


def test_the_table_counts_the_warnings_of_a_run_that_succeeded() -> None:
    ended = Event(
        run_id="p-1/x-1",
        event_id="e",
        type="execution_ended",
        occurred_at=START_MS,
        payload={"status": "succeeded", "warnings": ["s-1: install failed"]},
    )
    runs = [ObservedRun(summarise([ended]).popitem()[1])]

    heading, row = [paint(line, colour=False) for line in run_table(runs, now_ms=START_MS, width=None)]

    assert row[heading.index("CONDITION") :].startswith("1 warning ")


def test_the_table_has_no_column_for_conditions_that_no_run_has() -> None:
    heading, *_ = run_table(observed_runs(), now_ms=START_MS, width=None)

    assert "CONDITION" not in paint(heading, colour=False)


def test_the_table_of_runs_fits_every_width() -> None:
    runs = observed_runs(SILENT_PROCESS)

    for width in (30, 40, 60, 80, 100, 140):
        lines = run_table(runs, now_ms=START_MS + 600_000, width=width)

        assert max(line_columns(line) for line in lines) <= width
        assert paint(lines[1], colour=False).startswith("✓  wf-1a2b3c4d")


def test_the_columns_do_not_change_while_a_run_gets_a_few_seconds_older() -> None:
    runs = observed_runs()[:1]

    for width in range(60, 140):
        new, older = (
            paint(run_table(runs, now_ms=START_MS + ms, width=width, zone=UTC)[0], colour=False)
            for ms in (0, 3_000)
        )

        assert new == older
