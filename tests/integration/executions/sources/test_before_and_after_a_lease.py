"""Checks before a lease is acquired, what is left of a lease at the end, and how outages are reported."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from longwatch.errors import InvalidInput
from longwatch.executions.due import is_leased
from longwatch.executions.model import Execution, Job, JobState, Mode, Stage
from longwatch.executions.poller import Claim, Poller
from longwatch.executions.responses import SourceResponse
from longwatch.executions.stores.factory import open_executions
from longwatch.executions.stores.memory import MemoryExecutionStore
from longwatch.model.event import Event
from longwatch.testing import FakeClock, MemoryJournal
from longwatch.testing.services import AwsService
from tests.acceptance.test_watch import Started
from tests.integration.executions.sources.conftest import Endpoint, Reply
from tests.integration.executions.sources.shell import BUILD, Shell, build
from tests.patience import PATIENCE_SECONDS

JOURNAL = "sqlite:///watching.db"


@pytest.fixture
def without_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    return monkeypatch


def stored() -> list[Execution]:
    store = open_executions(JOURNAL)
    try:
        return list(store.open_executions())
    finally:
        store.close()


def add(shell: Shell, source: str, *jobs: str) -> None:
    for number, job in enumerate(jobs):
        arguments = ("--plan", "p", "--id", f"{source}-{number}", "--source", source)
        shell("executions", "add", *arguments, "--wave", f"w={job}")


def test_credentials_are_checked_before_a_lease_is_acquired(
    shell: Shell, without_credentials: pytest.MonkeyPatch
) -> None:
    add(shell, "codebuild", "demo:1")
    add(shell, "drs", "drsjob-11111111111111111")

    with pytest.raises(InvalidInput, match="No AWS credentials to poll codebuild with"):
        shell("executions", "watch", "--once")

    assert [(each.lease_holder, each.last_polled_at, each.failures) for each in stored()] == [
        (None, None, 0)
    ] * 2


def test_one_source_without_credentials_is_reported_and_the_others_are_polled(
    shell: Shell, endpoint: Endpoint, without_credentials: pytest.MonkeyPatch
) -> None:
    add(shell, "codebuild", "demo:1")
    add(shell, "http", f"{endpoint.url}/job")
    endpoint.returns({"status": "done"})

    watched = shell("executions", "watch")

    assert watched.return_value == 4
    assert watched.stderr.count("executions of codebuild are not polled: No AWS credentials") == 1
    (left,) = stored()
    assert (left.source, left.lease_holder, left.failures) == ("codebuild", None, 0)


def test_a_watch_that_is_resumed_without_credentials_leaves_the_record_as_it_was(
    shell: Shell, codebuild: AwsService, without_credentials: pytest.MonkeyPatch
) -> None:
    without_credentials.setenv("AWS_ACCESS_KEY_ID", "x")
    without_credentials.setenv("AWS_SECRET_ACCESS_KEY", "y")
    codebuild.answer("BatchGetBuilds", build("IN_PROGRESS"))
    shell.watch(BUILD, "--timeout", "0s")
    (before,) = stored()
    without_credentials.delenv("AWS_ACCESS_KEY_ID")
    without_credentials.delenv("AWS_SECRET_ACCESS_KEY")

    with pytest.raises(InvalidInput, match="No AWS credentials"):
        shell.watch(BUILD)

    assert stored() == [before]


def test_a_variable_that_a_declaration_needs_is_checked_too(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JENKINS_URL", raising=False)
    add(shell, "jenkins", "job/shop/9")

    with pytest.raises(InvalidInput, match="JENKINS_URL is not set"):
        shell("executions", "watch", "--once")

    (left,) = stored()
    assert left.lease_holder is None


def test_an_outage_is_reported_once_for_all_executions_and_retries(shell: Shell, endpoint: Endpoint) -> None:
    add(shell, "http", *(f"{endpoint.url}/{number}" for number in range(3)))
    endpoint.returns(*[Reply(503)] * 9, {"status": "done"})

    watched = shell("executions", "watch")

    assert watched.return_value == 0
    assert watched.stdout.count("no response:") == 1
    assert watched.stdout.count("responds again after") == 1


def test_a_second_outage_is_reported_again(shell: Shell, endpoint: Endpoint) -> None:
    endpoint.returns(
        {"status": "running"}, Reply(503), Reply(503), {"status": "running"}, Reply(503), {"status": "done"}
    )

    watched = shell.watch(f"{endpoint.url}/job")

    assert watched.return_value == 0
    assert watched.stderr.count("no response:") == 2
    assert watched.stderr.count("responds again after") == 2


@pytest.mark.parametrize("command", ["watch", "executions watch"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_while_a_response_is_awaited_leaves_no_lease(
    shell: Shell, endpoint: Endpoint, command: str, number: signal.Signals
) -> None:
    endpoint.returns({"status": "running"})
    shell.watch(f"{endpoint.url}/job", "--timeout", "0s")
    to_begin = [{"status": "running"}] if command == "watch" else []
    endpoint.returns(*to_begin, Reply(late=True))
    target = [f"{endpoint.url}/job"] if command == "watch" else []
    watch = Started(*command.split(), *target, "--journal", JOURNAL)
    assert endpoint.hangs.wait(PATIENCE_SECONDS)

    watch.interrupt(number)

    exit_code, _, _ = watch.ends()
    assert exit_code == 128 + number
    (left,) = stored()
    assert (left.lease_holder, left.lease_until) == (None, None)


@pytest.mark.parametrize("is_reported", [False, True])
def test_a_lease_only_expires_where_events_may_be_written_already(
    clock: FakeClock, is_reported: bool
) -> None:
    store, journal = MemoryExecutionStore(), Interrupted()
    store.add(
        Execution(
            execution_id="x-1",
            plan_id="p-1",
            source="http",
            mode=Mode.JOB,
            started_at=clock.now_ms(),
            stages=(Stage("only", (Job("j-1"),)),),
            total_stages=1,
        )
    )
    poller = Poller(store, journal, {}, clock=clock)
    claim = poller.claim("x-1", "p-1")
    assert isinstance(claim, Claim)
    if is_reported:
        with pytest.raises(KeyboardInterrupt):
            poller.settle(
                claim, SourceResponse("http:GET", clock.now_ms(), {"j-1": Job("j-1", JobState.STARTED)})
            )

    poller.release_leases()

    left = store.get("x-1")
    assert left is not None
    assert left.lease_holder == (poller.holder if is_reported else None)
    assert not is_leased(left, clock.now_ms())


class Interrupted(MemoryJournal):
    """A journal whose write is interrupted by Ctrl-C."""

    def append(self, events: Sequence[Event]) -> None:
        raise KeyboardInterrupt
