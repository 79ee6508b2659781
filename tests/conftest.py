"""What every test can count on: no settings of this machine, no AWS account, and local engines on request."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.configuration
import pytest

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

# Between tests pytest-asyncio asks for the main thread's loop, and Python makes one that nobody closes,
# unless it was told that there is none.
asyncio.set_event_loop(None)

hypothesis.configuration.set_hypothesis_home_dir(ROOT / ".hypothesis")
hypothesis.settings.register_profile("here", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, database=None)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=2000)
hypothesis.settings.load_profile("ci" if IN_CI else "here")


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
def _a_place_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
