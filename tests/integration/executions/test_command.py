"""`longwatch executions`, from adding one to its end, beside a simulated DRS."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from longwatch.cli.main import cli
from longwatch.cli.options import Invocation
from longwatch.errors import AlreadyThere, AmbiguousExecution, ExecutionNotFound, InvalidInput
from longwatch.testing import FakeClock
from longwatch.testing.drs import DrsSimulator, drill

JOURNAL = "sqlite:///watching.db"
JOB, OTHER_JOB = "drsjob-0123456789abcdef0", "drsjob-0123456789abcdef1"
SERVER = "s-0123456789abcdef0"


@pytest.fixture(autouse=True)
def _ask_the_simulator(drs: DrsSimulator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_DRS", drs.url)


class Shell:
    """Runs the command in this process, in virtual time."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock

    def __call__(self, *arguments: str) -> Result:
        return CliRunner().invoke(
            cli,
            ["--journal", JOURNAL, *arguments],
            obj=Invocation(clock=self.clock),
            catch_exceptions=False,
            standalone_mode=False,
        )

    def executions(self, *arguments: str) -> Result:
        return self("executions", *arguments)


@pytest.fixture
def shell(clock: FakeClock) -> Shell:
    return Shell(clock)


def test_an_execution_is_added_watched_and_shown(shell: Shell, drs: DrsSimulator) -> None:
    first = drs.play(drill("s-1", "s-2", pending=60, active=60))
    second = drs.play(drill("s-3", pending=60, active=60))

    added = shell.executions(
        "add", "--plan", "p-1", "--id", "x-1", "--wave", f"db={first}", "--wave", f"app={second}"
    )
    before = shell.executions("list")
    watched = shell.executions("watch")
    shown = shell.executions("show", "x-1")
    explained = shell.executions("explain", "x-1")
    run = shell("show", "x-1", "-o", "json")

    assert added.stdout == "x-1\n"
    assert "running" in before.stdout
    assert watched.return_value == 0
    first = "x-1 waiting for db: the first response from drs about job"
    assert first in watched.stdout.splitlines()[0]
    assert "; next poll now" in watched.stdout.splitlines()[0]
    assert "x-1 started, 0 of 3 done, waiting for db: s-00000000000000001 (in progress)" in watched.stdout
    assert watched.stdout.splitlines()[-1].endswith("x-1 succeeded")
    assert shown.stdout.count("launched") == 3
    assert "drs:DescribeJobs" in explained.stdout
    assert '"execution"' in run.stdout


def test_two_plans_with_one_id_are_distinguished_by_every_command(shell: Shell, drs: DrsSimulator) -> None:
    good = drs.play(drill("s-1", pending=10, active=10))
    bad = drs.play(drill("s-2", pending=10, active=10).without("s-2"))
    shell.executions("add", "--plan", "shop", "--id", "x-1", "--wave", f"db={good}")
    shell.executions("add", "--plan", "web", "--id", "x-1", "--wave", f"db={bad}")

    watched = shell.executions("watch")
    listed = shell.executions("list").stdout
    shown = {plan: shell.executions("show", f"{plan}/x-1", "-o", "json").stdout for plan in ("shop", "web")}
    runs = {plan: shell("show", f"{plan}/x-1", "-o", "json").stdout for plan in ("shop", "web")}

    assert "shop/x-1 succeeded" in watched.stdout
    assert "web/x-1 failed" in watched.stdout
    assert "shop/x-1" in listed
    assert "web/x-1" in listed
    assert {plan: json.loads(text)["status"] for plan, text in shown.items()} == {
        "shop": "succeeded",
        "web": "failed",
    }
    assert '"succeeded"' in runs["shop"]
    assert '"failed"' in runs["web"]
    assert "shop/x-1" in shell.executions("explain", "shop/x-1").stdout
    with pytest.raises(AmbiguousExecution, match="shop/x-1 or web/x-1"):
        shell.executions("show", "x-1")
    with pytest.raises(InvalidInput, match="is ambiguous"):
        shell("show", "x-1")


def test_a_failure_is_an_exit_code_and_a_reason(shell: Shell, drs: DrsSimulator) -> None:
    job = drs.play(drill("s-1", pending=10, active=10).without("s-1"))
    shell.executions("add", "--plan", "p-1", "--id", "x-1", "--wave", f"db={job}")

    watched = shell.executions("watch")
    explained = shell.executions("explain", "x-1")

    assert watched.return_value == 1
    assert "failed: s-00000000000000001: the launch failed: launch failed" in watched.stdout
    assert "launch failed" in explained.stdout


def test_warnings_failed_items_and_their_reasons_are_on_every_surface(
    shell: Shell, drs: DrsSimulator
) -> None:
    gone = drs.play(drill("s-1", "s-2", pending=10, active=10).without("s-2", after=20, word="TERMINATED"))
    lost = drs.play(drill("s-3", "s-4", pending=10, active=10).without("s-4", error="no disk"))
    shell.executions("add", "--plan", "p-1", "--id", "x-gone", "--wave", f"db={gone}")
    shell.executions("add", "--plan", "p-1", "--id", "x-lost", "--wave", f"db={lost}")

    watched = {line.split()[1]: line for line in shell.executions("watch").stdout.splitlines()}
    listed = {each.split()[1]: each for each in shell.executions("list").stdout.splitlines()[1:]}
    (view,) = (json.loads(shell.executions("show", "x-gone", "-o", "json").stdout),)

    assert watched["p-1/x-gone"].endswith(
        "succeeded with 1 warning: s-00000000000000002 was terminated afterwards"
    )
    assert listed["x-gone"].endswith("1 warning")
    assert " 2/2 " in listed["x-gone"]
    assert " 1/2 " in listed["x-lost"]
    assert listed["x-lost"].endswith("1 failed")
    assert (view["warning_count"], view["progress_text"]) == (1, "2 of 2 done")
    assert "succeeded with 1 warning  2 of 2 done" in shell.executions("show", "x-gone").stdout
    assert "warning: s-00000000000000002 was terminated" in shell.executions("show", "x-gone").stdout
    assert "verdict       succeeded with 1 warning" in shell.executions("explain", "x-gone").stdout
    assert "1 of 2 done, 1 failed" in shell.executions("show", "x-lost").stdout
    assert "the launch failed: no disk" in shell.executions("show", "x-lost").stdout
    assert "succeeded; 1 warning: s-0000" in shell("tail", "x-gone").stdout


def test_a_single_poll_leaves_open_executions_and_reports_them(shell: Shell, drs: DrsSimulator) -> None:
    job = drs.play(drill("s-1"))
    shell.executions("add", "--plan", "p-1", "--wave", f"db={job}")

    assert shell.executions("watch", "--once").return_value == 4


def test_explaining_and_watching_print_json_too(shell: Shell, drs: DrsSimulator) -> None:
    job = drs.play(drill("s-1", pending=10, active=10))
    shell.executions("add", "--plan", "p-1", "--id", "x-1", "--wave", f"db={job}")

    before = json.loads(shell.executions("explain", "x-1", "-o", "json").stdout)
    once = json.loads(shell.executions("watch", "--once", "-o", "json").stdout)
    shell.clock.advance(60)
    lines = [json.loads(line) for line in shell.executions("watch", "-o", "jsonl").stdout.splitlines()]
    after = json.loads(shell.executions("explain", "x-1", "-o", "json").stdout)

    assert (before["execution_id"], before["plan_id"], before["status"]) == ("x-1", "p-1", "running")
    assert before["facts"][0]["about"] == "waiting for"
    assert [each["waiting_for"] for each in once] == ["s-00000000000000001 (pending)"]
    assert [each["status"] for each in lines] == ["running", "succeeded"]
    assert (after["facts"][0]["about"], after["facts"][0]["text"]) == ("verdict", "succeeded")


def test_watching_without_executions_is_reported(shell: Shell) -> None:
    watched = shell.executions("watch")

    assert (watched.return_value, watched.stdout, watched.stderr) == (0, "", "No open executions.\n")


def play_past(shell: Shell, drs: DrsSimulator, count: int) -> None:
    """So many drills of one plan, one after the other."""
    for number in range(count):
        job = drs.play(drill("s-1", pending=400 + 5 * number, active=100))
        shell.executions("add", "--plan", "p-1", "--id", f"past-{number}", "--wave", f"db={job}")
        assert shell.executions("watch").return_value == 0


def test_the_history_shows_the_usual_duration_and_what_is_slow(
    shell: Shell, drs: DrsSimulator, clock: FakeClock
) -> None:
    play_past(shell, drs, 12)
    stuck = drs.play(drill("s-1", pending=100_000))
    shell.executions("add", "--plan", "p-1", "--id", "x-1", "--wave", f"db={stuck}")
    shell.executions("watch", "--once")
    clock.advance(300)

    early = shell.executions("show", "x-1").stdout
    clock.advance(3000)
    late = shell.executions("explain", "x-1").stdout
    (line,) = json.loads(shell.executions("list", "--status", "running", "-o", "json").stdout)

    assert "usually 8–9 min, now 5, 4 min to go" in early
    assert "slow" in late
    assert "longer than any of the last 12" in late
    assert "slow" in [each["name"] for each in line["conditions"]]
    assert line["eta"]["samples"] == 12


def test_a_learned_cadence_is_chosen_by_an_option_or_by_the_settings(
    shell: Shell, drs: DrsSimulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    play_past(shell, drs, 22)
    shell.executions("add", "--plan", "p-1", "--id", "x-1", "--wave", f"db={drs.play(drill('s-1'))}")

    def poll_again(*options: str) -> str:
        shell.executions("watch", "--once", *options)
        return shell.executions("explain", "x-1").stdout

    plain = poll_again()
    shell.clock.advance(46)
    learned = poll_again("--learned")
    shell.clock.advance(91)
    monkeypatch.setenv("LONGWATCH_LEARNED_CADENCE", "true")
    by_setting = poll_again()
    shell.clock.advance(91)
    overruled = poll_again("--plain")

    assert "polled every 45 s" in plain
    assert "instead of 45 s" in learned
    assert "instead of 45 s" in by_setting
    assert "polled every 45 s" in overruled


def test_an_outage_is_reported_and_explained(shell: Shell, drs: DrsSimulator, clock: FakeClock) -> None:
    shell.executions("add", "--plan", "p-1", "--id", "x-1", "--wave", f"db={drs.play(drill('s-1'))}")
    drs.throttle(9)
    printed = ""
    for _ in range(3):
        printed += shell.executions("watch", "--once").stdout
        clock.advance(60)

    explained = shell.executions("explain", "x-1").stdout

    assert "no response: DRS in the default region returned ThrottlingException" in printed
    assert "unreachable" in explained
    assert "last error" in explained


def test_no_response_is_shown_and_nothing_is_journaled_of_an_execution_that_has_no_job_yet(
    shell: Shell, clock: FakeClock
) -> None:
    shell.executions("add", "--plan", "p-1", "--id", "x-1", "--total-waves", "2", "--deadline", "1m")
    clock.advance(120)
    shell.executions("watch", "--once")

    explained = shell.executions("explain", "x-1").stdout

    assert "the first wave: none is stored yet" in explained
    assert "last response none yet from drs" in explained
    assert "execution_asked" not in shell("show", "p-1/x-1").stdout


def test_lists_are_printed_as_json_too(shell: Shell, drs: DrsSimulator) -> None:
    shell.executions("add", "--plan", "p-1", "--id", "x-1", "--mode", "recovery", "--total-waves", "2")

    (line,) = json.loads(shell.executions("list", "-o", "json").stdout)
    lines = shell.executions("list", "-o", "jsonl").stdout.splitlines()
    view = json.loads(shell.executions("show", "x-1", "-o", "json").stdout)

    assert (line["status"], line["mode"], line["total_waves"]) == ("running", "RECOVERY", 2)
    assert json.loads(lines[0]) == line
    assert view["waves"] == []
    assert "No executions" in shell.executions("list", "--status", "failed").stderr


def test_an_added_execution_can_be_printed_whole(shell: Shell) -> None:
    added = shell.executions(
        "add",
        "--plan",
        "p-1",
        "--wave",
        f"db={JOB},{OTHER_JOB}",
        "--servers",
        f"db={SERVER}",
        "--deadline",
        "never",
        "--region",
        "eu-west-1",
        "-o",
        "json",
    )

    view = json.loads(added.stdout)
    assert [job["job_id"] for job in view["waves"][0]["jobs"]] == [JOB, OTHER_JOB]
    assert [server["server_id"] for server in view["waves"][0]["servers"]] == [SERVER]
    assert (view["deadline_at"], view["execution_id"][:2]) == (None, "x-")


def test_mistakes_are_named(shell: Shell) -> None:
    shell.executions("add", "--plan", "p-1", "--id", "x-1", "--wave", f"db={JOB}")

    with pytest.raises(AlreadyThere, match="'x-1'"):
        shell.executions("add", "--plan", "p-1", "--id", "x-1", "--wave", f"db={JOB}")
    with pytest.raises(InvalidInput, match="Write NAME=JOB"):
        shell.executions("add", "--plan", "p-1", "--wave", "db")
    with pytest.raises(ExecutionNotFound, match="executions list"):
        shell.executions("show", "x-2")
    with pytest.raises(ExecutionNotFound, match="executions list"):
        shell.executions("explain", "x-2")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--wave", "db=j-1"), "Invalid DRS job id 'j-1'. Use drsjob- and 17 letters or digits"),
        (("--wave", f"db={JOB}", "--servers", "db=i-1"), "Invalid DRS source server id 'i-1'. Use s- and 17"),
        (("--wave", f"db={JOB}", "--servers", "web=i-1"), "No wave 'web' for --servers"),
        (("--wave", f"db={JOB}", "--servers", "db"), "Invalid servers 'db'. Write WAVE=ID"),
        (("--wave", f"db={JOB}", "--region", "Ireland"), "Invalid region 'Ireland'. Use the code of an AWS"),
        (("--wave", f"db={JOB}", "--account", "12345"), "Invalid account '12345'. Use the 12 digits"),
        ((), "without a wave and without a wave count could never end. Add --wave NAME=JOB"),
        (("--more-waves",), "without a wave and without a wave count could never end"),
        (("--wave", "db="), r"Wave 'db' has no job and no server.*db=JOB,JOB"),
        (("--wave", f"db={JOB}", "--total-waves", "2", "--more-waves"), "exclude each other"),
        (("--wave", f"db={JOB}", "--id", ""), "Invalid execution id ''. Use at least one character"),
        (
            ("--source", "process", "--wave", "one=4711"),
            "Invalid process '4711'. Add one with `longwatch watch pid:123`",
        ),
        (("--source", "glue", "--wave", "one=nightly"), "Invalid id 'nightly'. Use FIRST/SECOND"),
        (("--source", "github", "--wave", "one=7"), "Invalid id '7' for github: .*OWNER/REPOSITORY/RUN"),
        (("--source", "gitlab", "--wave", "one=group/project"), "Invalid id 'group/project' for gitlab"),
        (("--source", "jenkins", "--wave", "one=7"), "Invalid id '7'"),
        (("--source", "codebuild", "--wave", "one=shop"), "Invalid id 'shop' for codebuild: .*PROJECT:UUID"),
        (("--source", "step-functions", "--wave", "one=run-1"), "Invalid id 'run-1' for step-functions"),
    ],
)
def test_an_execution_that_could_never_end_is_rejected(
    shell: Shell, words: tuple[str, ...], why: str
) -> None:
    with pytest.raises(InvalidInput, match=why):
        shell.executions("add", "--plan", "p-1", *words)

    assert "No executions" in shell.executions("list").output


def test_an_execution_without_a_wave_count_shows_what_it_waits_for(shell: Shell) -> None:
    added = shell.executions("add", "--plan", "p-1", "--id", "x-1", "--wave", f"db={JOB}", "--more-waves")

    assert "longwatch executions set-waves x-1 N" in added.stderr


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("https://ci.example/jobs/7?api_key=s3cret", "looks like a secret"),
        ("https://me:s3cret@ci.example/jobs/7", "contains a password"),
        ("ci.example/jobs/7", "Use http:// or https://"),
    ],
)
def test_a_url_that_may_not_be_stored_is_refused_before_it_is(shell: Shell, address: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why) as caught:
        shell.executions("add", "--source", "http", "--plan", "p-1", "--wave", f"one={address}")

    assert "s3cret" not in str(caught.value)
    assert "No executions" in shell.executions("list").output
