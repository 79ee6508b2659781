"""What every test can count on: no settings of this machine, no AWS account, and local engines on request."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.configuration
import pytest

from tests import processes
from tests.engines.start import DynamoDbLocal, Engine, EngineMissing, MiniStack

ROOT = Path(__file__).resolve().parents[1]
STRICT = os.environ.get("LONGWATCH_STRICT", "") not in ("", "0")  # a skip is a failure
IN_CI = STRICT or bool(os.environ.get("CI"))

AWS_FOR_TESTS = {
    "AWS_ACCESS_KEY_ID": "testing",  # DynamoDB Local refuses anything but letters and digits
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_REGION": "eu-west-1",
    "AWS_DEFAULT_REGION": "eu-west-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}

collect_ignore = ["sdks"]  # their SDKs have environments of their own: `make test-sdks`

# In every process of pytest: the main one and, with xdist, its workers.
processes.restore_signals()
processes.adopt_orphans()

# Between tests pytest-asyncio gets the main thread's loop, and Python creates one that is never closed,
# unless the loop was set to None.
asyncio.set_event_loop(None)

MEMORY = Path("/dev/shm")
MEMORY_BYTES = 4 * 1024**3  # that have to be free; containers often have 64 MB

# Tests write through to their files thousands of times, and on a disk they would mostly wait for it.
if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= MEMORY_BYTES:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

hypothesis.configuration.set_hypothesis_home_dir(ROOT / ".hypothesis")
hypothesis.settings.register_profile("here", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, database=None)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=2000)
hypothesis.settings.load_profile("ci" if IN_CI else "here")


class Shared:
    """The processes of fixtures with a wider scope than a test: engines, servers, browsers.

    A plugin of its own, because pytest does not call hooks of this file for fixtures of the session.
    """

    def __init__(self) -> None:
        self.pids: set[int] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
        if fixturedef.scope == "function":
            return (yield)
        before = processes.children()
        try:
            return (yield)
        finally:
            self.pids |= processes.children() - before


SHARED = Shared()


@pytest.fixture(scope="session", autouse=True)
def _no_shared_process_left() -> Iterator[None]:
    """What a fixture shares, it ends."""
    yield
    _report(processes.end_leftovers(grace_seconds=processes.GRACE_SECONDS))


@pytest.fixture(autouse=True)
def _no_process_left(_no_shared_process_left: None) -> Iterator[None]:
    """A process that a test starts ends with it, however the test ends. Set up before its own fixtures."""
    before = processes.children()
    yield
    _report(processes.end_leftovers(before | SHARED.pids, grace_seconds=processes.GRACE_SECONDS))


def _report(leftovers: list[str]) -> None:
    if leftovers:
        pytest.fail("left these processes running, which were ended:\n" + "\n".join(leftovers), pytrace=False)


class Workers:
    """The process ids of xdist's workers. What one that died leaves behind is adopted by the main process."""

    def __init__(self) -> None:
        self._pids: dict[str, frozenset[int]] = {}

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_newgateway(self, gateway: Any) -> None:
        self._pids[gateway.id] = processes.children().difference(*self._pids.values())

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        ended = self._pids.pop(node.gateway.id)
        if error:
            processes.kill(ended)  # its pipe may be closed before its children are handed over
            for leftover in processes.end_leftovers(frozenset().union(*self._pids.values()), grace_seconds=0):
                print(f"ended what a worker left running: {leftover}", file=sys.stderr)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(SHARED)
    config.pluginmanager.register(Workers())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Deployed stacks first: their tests wait for minutes, in which the other workers have the cores."""
    items.sort(key=lambda item: not item.path.is_relative_to(ROOT / "tests" / "stack"))


def pytest_collection_finish() -> None:
    """Ten thousand collected tests stay until the end; a garbage collection need not visit them each time."""
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _nothing_of_this_machine() -> Iterator[None]:
    """Hide the machine's AWS and longwatch variables from the tests and from the processes they start."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith(("AWS_", "LONGWATCH_")):
                patch.delenv(name)
        for name, value in AWS_FOR_TESTS.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(autouse=True)
def _own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test works in a directory of its own, away from any longwatch.toml."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LONGWATCH_DATA", str(tmp_path / "data"))


@pytest.fixture(scope="session")
def ministack_url() -> Iterator[str]:
    """The address of a MiniStack. It is shared: give tables and stacks names of their own."""
    yield from _while_running(MiniStack())


@pytest.fixture(scope="session")
def dynamodb_local_url() -> Iterator[str]:
    """The address of an in-memory DynamoDB Local. It is shared: give tables names of their own."""
    yield from _while_running(DynamoDbLocal())


@pytest.fixture
def durable_dynamodb(tmp_path: Path) -> Iterator[DynamoDbLocal]:
    """A DynamoDB Local of the test's own, in files, so that it can be stopped and started again."""
    files = tmp_path / "dynamodb"
    files.mkdir()
    engine = DynamoDbLocal(db_path=files)
    for _ in _while_running(engine):
        yield engine


def _while_running(engine: Engine) -> Iterator[str]:
    try:
        engine.start()
    except EngineMissing as error:
        pytest.skip(str(error))
    try:
        yield engine.url
    finally:
        engine.stop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In strict mode a test that was skipped has failed. One that fails as expected is neither."""
    report = yield
    if STRICT and report.skipped and not hasattr(report, "wasxfail"):
        _refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for whole modules."""
    report = yield
    if STRICT and report.skipped:
        _refuse_skip(report)
    return report


def _refuse_skip(report: Any) -> None:
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
    report.outcome = "failed"
    report.longrepr = f"LONGWATCH_STRICT is set, and a skip is a failure then. {reason}"
