"""Commands run in this process, on a memory journal or a file; tests/acceptance runs them as people do."""

from __future__ import annotations

import json
import tomllib
from datetime import UTC
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from longwatch.cli.commands.doctor import finding_lines
from longwatch.cli.commands.init import settings_file
from longwatch.cli.commands.record import field_from, payload_from
from longwatch.cli.commands.runs import run_table
from longwatch.cli.commands.ship import exit_code, summary
from longwatch.cli.commands.verify import verification_lines
from longwatch.cli.doctor_checks import Finding, misspelt_variables, run_check, size_text
from longwatch.cli.main import COMMANDS, cli
from longwatch.cli.options import Invocation, complete_executions, complete_runs
from longwatch.cli.render.styles import line_columns, paint
from longwatch.errors import InvalidInput, JournalUnusable
from longwatch.executions.model import Execution
from longwatch.executions.transitions import start_event
from longwatch.following.observation import ObservedRun
from longwatch.journal.factory import open_journal
from longwatch.journal.sqlite import SqliteJournal
from longwatch.journal.verify import Verifier
from longwatch.model.event import Event
from longwatch.model.run import Condition, summarise
from longwatch.recording.outbox import Outbox, ShipReport
from longwatch.settings import SETTINGS, load_settings
from longwatch.testing.clock import FakeClock
from tests.unit.cli.samples import START_MS, failing, research, session


def invoke(*arguments: str, clock: FakeClock | None = None) -> Result:
    invocation = Invocation(clock=clock or FakeClock(START_MS + 600_000))
    return CliRunner().invoke(
        cli, list(arguments), obj=invocation, catch_exceptions=False, standalone_mode=False
    )


@pytest.fixture
def file(tmp_path: Path) -> str:
    with SqliteJournal(tmp_path / "runs.db") as journal:
        for events in (research(), failing(), session()):
            journal.append(events)
    return "sqlite:///runs.db"


def test_the_written_settings_file_changes_nothing(tmp_path: Path) -> None:
    before = load_settings(environment={})
    (tmp_path / "longwatch.toml").write_text(settings_file(), encoding="utf-8")

    after = load_settings(environment={})

    assert [getattr(after, each.attribute) for each in SETTINGS] == [
        getattr(before, each.attribute) for each in SETTINGS
    ]


def test_every_line_of_the_settings_file_can_be_uncommented() -> None:
    lines = settings_file().splitlines()
    uncommented = "\n".join(line.removeprefix("# ") if " = " in line else line for line in lines)

    written = tomllib.loads(uncommented)

    for setting in SETTINGS:
        value = written
        for name in setting.key.split("."):
            value = value[name]
        setting.read(value)


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


def test_a_shown_run_is_one_json_object(file: str) -> None:
    shown = json.loads(invoke("show", "wf-1a", "--journal", file, "-o", "json").stdout)

    assert (shown["status"], shown["duration_ms"], len(shown["calls"])) == ("succeeded", 10240, 6)
    assert shown["producers"] == {"p-3c4d": {"events": 16, "stated": 16, "missing": []}}


def test_a_tail_can_be_narrowed(file: str) -> None:
    def types(*arguments: str) -> list[str]:
        shown = invoke("tail", "wf-1a", "--journal", file, "-o", "jsonl", *arguments)
        return [json.loads(line)["type"] for line in shown.stdout.splitlines()]

    assert len(types()) == 16
    assert types("-n", "2") == ["workflow_complete", "producer_closed"]
    assert types("--agent", "planner", "--type", "agent_start", "--type", "agent_end") == [
        "agent_start",
        "agent_end",
    ]
    assert types("--errors") == ["tool_call"]
    assert types("--since", str(START_MS + 10_240)) == ["workflow_complete", "producer_closed"]
    assert types("-n", "0") == []


def test_an_export_can_be_imported_elsewhere_and_twice(file: str, tmp_path: Path) -> None:
    invoke("export", "wf-1a", "wf-1b", "--journal", file, "-o", "out.jsonl")

    for _ in range(2):
        done = invoke("import", "out.jsonl", "--journal", "sqlite:///copy.db")
        assert done.stderr == "Imported 21 events.\n"

    assert invoke("export", "wf-1a", "wf-1b", "--journal", "sqlite:///copy.db").stdout == (
        (tmp_path / "out.jsonl").read_text(encoding="utf-8")
    )


def test_an_export_that_fails_leaves_no_partial_file(file: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be written"):
        invoke("export", "wf-1a", "--journal", file, "-o", "nowhere/out.jsonl")

    assert list(tmp_path.glob("**/*.part")) == []


def bad_file(tmp_path: Path, bad: int) -> Path:
    good = invoke("export", "wf-1a", "--journal", "sqlite:///runs.db").stdout
    file = tmp_path / "bad.jsonl"
    file.write_text(good + "{}\n" * bad + "\n", encoding="utf-8")
    return file


def test_all_invalid_lines_are_reported_and_nothing_is_imported(file: str, tmp_path: Path) -> None:
    bad_file(tmp_path, 25)

    with pytest.raises(InvalidInput) as caught:
        invoke("import", "bad.jsonl", "--journal", "sqlite:///copy.db")

    lines = str(caught.value).splitlines()
    assert lines[0] == "25 invalid lines, nothing imported:"
    assert lines[1] == "line 17: field run_id is missing"
    assert lines[21] == "… and 5 more"
    assert not (tmp_path / "copy.db").exists()


def test_the_valid_lines_are_imported_on_request(file: str, tmp_path: Path) -> None:
    bad_file(tmp_path, 2)

    done = invoke("import", "bad.jsonl", "--keep-going", "--journal", "sqlite:///copy.db")

    assert done.return_value == 1
    assert done.stderr.endswith("Imported 16 events. 2 invalid lines skipped.\n")


def test_an_event_that_contradicts_the_journal_is_reported_with_its_line(file: str, tmp_path: Path) -> None:
    lines = invoke("export", "wf-1a", "--journal", file).stdout.splitlines()
    (tmp_path / "other.jsonl").write_text(lines[0].replace("research report", "forged"), encoding="utf-8")

    done = invoke("import", "other.jsonl", "--journal", file)

    assert done.return_value == 1
    assert done.stderr.startswith("line 1: event id ")
    assert "Imported 0 events" in done.stderr


def test_verify_reports_damage_by_its_exit_code(file: str, tmp_path: Path) -> None:
    lines = invoke("export", "wf-1a", "--journal", file).stdout.splitlines()
    (tmp_path / "holes.jsonl").write_text("\n".join(lines[:3] + lines[5:]), encoding="utf-8")
    invoke("import", "holes.jsonl", "--journal", "sqlite:///holes.db")

    whole = invoke("verify", "wf-1a", "--journal", file)
    holes = invoke("verify", "latest", "--journal", "sqlite:///holes.db")

    assert (whole.return_value, whole.stdout.splitlines()[0]) == (0, "✓ complete  wf-1a2b3c4d")
    assert holes.return_value == 1
    assert holes.stdout == "✗ missing  wf-1a2b3c4d\n  missing 4–5 of producer p-3c4d\n"


def test_a_producers_name_cannot_steer_the_terminal() -> None:
    from tests.unit.cli.samples import Story

    story = Story(producer="\x1b[2J")
    story.add("note")
    verifier = Verifier()
    verifier.add(story.events[0])

    lines = [paint(line, colour=False) for line in verification_lines("wf-1", verifier.report(START_MS))]

    assert lines[1] == "  open: 1 event of producer \\x1b[2J"


def test_old_events_are_pruned_and_then_reported_as_expired(file: str) -> None:
    clock = FakeClock(START_MS + 600_000)

    dry = invoke("prune", "--older-than", "9m57s", "--dry-run", "--journal", file, clock=clock)
    done = invoke("prune", "--older-than", "9m57s", "--journal", file, clock=clock)
    verified = invoke("verify", "wf-1a", "--journal", file, clock=clock)

    assert dry.stdout.startswith("1 run with events from before ")
    assert dry.stdout.endswith(". Nothing was deleted.\n")
    assert done.stdout == "7 events deleted.\n"
    assert verified.return_value == 0
    assert "✗" not in verified.stdout
    assert verified.stdout.startswith("○ expired")


def test_fields_are_text_unless_marked_otherwise() -> None:
    assert field_from("version=1.10") == ("version", "1.10")
    assert field_from("count:=3") == ("count", 3)
    assert field_from("equation=a=b") == ("equation", "a=b")
    assert field_from("empty=") == ("empty", "")
    with pytest.raises(InvalidInput):
        field_from("=x")


def test_a_payload_can_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "payload.json").write_text('{"rows": 3}', encoding="utf-8")

    assert payload_from("@payload.json") == {"rows": 3}
    assert payload_from('{"rows": 3}') == {"rows": 3}
    assert payload_from(None) == {}


def test_ship_delivers_waiting_events(tmp_path: Path) -> None:
    outbox = Outbox(load_settings().outbox_path)
    outbox.put(f"sqlite:///{tmp_path}/late.db", research())
    outbox.close()

    done = invoke("ship")
    again = invoke("ship")

    assert (done.return_value, done.stdout) == (0, "16 shipped.\n")
    assert again.stdout == "The outbox is empty.\n"
    with SqliteJournal(tmp_path / "late.db") as journal:
        assert len(journal.read("wf-1a2b3c4d").events) == 17  # with the late_batch that announces them


def test_ship_gives_up_after_a_while_and_keeps_the_events(tmp_path: Path) -> None:
    (tmp_path / "broken.db").write_text("no database " * 100, encoding="utf-8")
    outbox = Outbox(load_settings().outbox_path)
    outbox.put(f"sqlite:///{tmp_path}/broken.db", research())
    outbox.close()
    clock = FakeClock()

    done = invoke("ship", clock=clock)

    assert done.return_value == 3
    assert clock.slept == [1, 2, 4, 8, 15]
    assert done.stdout == "0 shipped, 16 still waiting.\n"
    assert ". 16 waiting, next attempt in 1 s.\n" in done.stderr
    assert ".;" not in done.stderr
    assert ".." not in done.stderr


@pytest.mark.parametrize(
    ("report", "text", "code"),
    [
        (ShipReport(), "The outbox is empty.", 0),
        (ShipReport(shipped=1200), "1,200 shipped.", 0),
        (ShipReport(shipped=1, refused=2), "1 shipped, 2 refused.", 1),
        (ShipReport(left=3, errors=["x"]), "0 shipped, 3 still waiting.", 3),
    ],
)
def test_shipped_events_are_reported_in_one_line(report: ShipReport, text: str, code: int) -> None:
    assert (summary(report), exit_code(report)) == (text, code)


def test_doctor_finds_no_problem(file: str) -> None:
    shown = invoke("doctor", "--journal", file, "-o", "json")

    report = json.loads(shown.stdout)
    facts = {fact["name"]: fact for fact in report["parts"]["settings"]["facts"]}
    journal = {fact["name"]: fact["value"] for fact in report["parts"]["journal"]["facts"]}
    assert report["ok"]
    assert facts["journal"]["value"].endswith("/runs.db")
    assert facts["journal"]["about"] == "--journal"
    assert facts["recording.capture"]["about"] == "default"
    assert set(facts) >= {setting.key for setting in SETTINGS}
    assert (journal["kind"], journal["runs"]) == ("SQLite", "3")


def test_doctor_reports_every_mistake_in_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGWATCH_CAPTURE", "some")
    monkeypatch.setenv("LONGWATCH_LAYOUT", "flat")

    shown = invoke("doctor")

    assert shown.return_value == 1
    assert "LONGWATCH_CAPTURE: recording.capture must be one of off, summary, full" in shown.stdout
    assert "2 problems." in shown.stdout
    assert "Versions" in shown.stdout


@pytest.mark.parametrize(
    "url", ["mysql://x", "sqlite://host/x.db", "sqlite:///broken.db", "dynamodb://t?x=1"]
)
def test_doctor_survives_a_journal_that_cannot_be_opened(url: str, tmp_path: Path) -> None:
    (tmp_path / "broken.db").write_text("no database " * 100, encoding="utf-8")

    shown = invoke("doctor", "--journal", url)

    assert shown.return_value == 1
    assert "problem" in shown.stdout


def test_doctor_shows_what_waits_in_the_outbox(file: str) -> None:
    outbox = Outbox(load_settings().outbox_path)
    outbox.put("dynamodb://events", research())
    outbox.close()

    shown = invoke("doctor", "--journal", file)

    assert shown.return_value == 0
    assert "16 events" in shown.stdout
    assert "longwatch ship" in shown.stdout


def test_a_part_that_breaks_is_a_problem_and_not_a_crash() -> None:
    def broken(finding: Finding) -> None:
        raise RuntimeError("out of order")

    def locked(finding: Finding) -> None:
        raise JournalUnusable("It is locked. Wait.")

    assert run_check("Journal", broken).problems == ["RuntimeError: out of order"]
    assert run_check("Journal", locked).problems == ["It is locked. Wait."]


def test_a_misspelt_variable_is_noticed() -> None:
    environment = {"LONGWATCH_JURNAL": "x", "LONGWATCH_JOURNAL": "y", "LONGWATCH_RUN_ID": "z", "HOME": "/"}

    assert misspelt_variables(environment) == [
        "Unknown variable LONGWATCH_JURNAL. Did you mean LONGWATCH_JOURNAL?"
    ]


def test_findings_fit_a_phone() -> None:
    finding = Finding("Journal", problems=["p" * 90], warnings=["a warning of several words " * 4])
    finding.add("a name that is long", "value " * 20, "about")

    assert max(line_columns(line) for line in finding_lines([finding], width=40)) <= 40


def test_sizes_are_rounded() -> None:
    assert [size_text(size) for size in (12, 65_536, 1_300_000)] == ["12 bytes", "64.0 KB", "1.2 MB"]


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


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_takes_the_common_options(name: str) -> None:
    given = cli.get_command(click.Context(cli), name)
    assert given is not None
    commands = list(given.commands.values()) if isinstance(given, click.Group) else [given]

    for each in commands:
        assert {"--journal", "--debug"} <= {name for option in each.params for name in option.opts}, each.name


def test_an_interrupted_watch_reports_that_the_run_continues(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("longwatch.cli.commands.watch.follow_run", interrupted)

    done = invoke("watch", "wf-1a", "--journal", file)

    assert done.return_value == 130
    assert "watching stopped, run wf-1a" in done.stderr
