"""Another server replaces DynamoDB for a while: every call fails as an outage, every reader resumes."""

from __future__ import annotations

import asyncio
import http.client
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from longwatch.errors import LongwatchError, TableProblem, Unreachable
from longwatch.following import Hub, PollingService
from longwatch.journal.dynamodb.journal import DynamoJournal, open_dynamodb
from longwatch.model.event import Event
from longwatch.storage.dynamodb.table_check import check_table
from longwatch.storage.urls import TableAddress
from tests.contract.events import new_run
from tests.contract.tables import REGION, new_table
from tests.contract.watches import Watch
from tests.integration.dynamodb.stand_in import Request, serving
from tests.patience import PATIENCE_SECONDS

NOW = 1_794_736_800_000

WRONG = {
    "a page": (200, b"<html><body>Please sign in</body></html>", {"Content-Type": "text/html"}),
    "truncated JSON": (200, b'{"Items":[{"workflow_id":{"S":"wf', {}),
    "an empty body": (200, b"", {}),
    "a redirect": (302, b"", {"Location": "http://portal.invalid/"}),
    "other JSON": (200, b'{"status":"ok"}', {}),
    "a list": (200, b"[]", {}),
    "not found by a web server": (404, b"<html>nothing here</html>", {}),
    "forbidden by a proxy": (403, b"blocked by policy", {}),
    "a bad gateway": (502, b"<html>bad gateway</html>", {}),
}
Response = tuple[int, object, dict[str, str]]


@dataclass
class Between:
    """A proxy in front of DynamoDB that can respond by itself."""

    to: str
    url: str = ""
    wrong: Response | None = None
    responded_wrongly: threading.Event = field(default_factory=threading.Event)

    def respond(self, request: Request) -> Response:
        if self.wrong is not None:
            self.responded_wrongly.set()
            return self.wrong
        target = urlsplit(self.to)
        connection = http.client.HTTPConnection(
            target.hostname or "", target.port or 80, timeout=PATIENCE_SECONDS
        )
        try:
            connection.request("POST", "/", request.body, {**request.headers, "host": target.netloc})
            response = connection.getresponse()
            return response.status, response.read(), {"Content-Type": "application/x-amz-json-1.0"}
        finally:
            connection.close()


@pytest.fixture
def between(dynamodb_local_url: str) -> Iterator[Between]:
    proxy = Between(dynamodb_local_url)
    with serving(proxy.respond) as server:
        proxy.url = server.url
        yield proxy


@pytest.fixture
def address(dynamodb_local_url: str) -> Iterator[TableAddress]:
    with new_table(dynamodb_local_url, "workflow") as at:
        yield at


@pytest.fixture(params=[True, False], ids=["fast path", "boto3"])
def journal(
    request: pytest.FixtureRequest, between: Between, address: TableAddress
) -> Iterator[DynamoJournal]:
    with open_dynamodb(
        TableAddress(
            table=address.table,
            region=REGION,
            layout="workflow",
            endpoint=between.url,
            fast_query=request.param,
        )
    ) as journal:
        assert isinstance(journal, DynamoJournal)
        yield journal


def note(run_id: str, n: int) -> Event:
    return Event(run_id=run_id, event_id=f"{run_id}-{n}", type="note", occurred_at=NOW + n)


@pytest.mark.needs_java
@pytest.mark.parametrize("name", WRONG)
def test_every_call_fails_as_an_outage_and_works_again(
    journal: DynamoJournal, between: Between, address: TableAddress, name: str
) -> None:
    run = new_run()
    calls: list[Callable[[], object]] = [
        lambda: journal.append([note(run, 1)]),
        lambda: journal.read(run),
        journal.find_runs,
        lambda: journal.find_run(run),
        lambda: list(journal.scan_runs()),
    ]
    between.wrong = WRONG[name]

    problems: list[LongwatchError] = []
    for call in calls:
        with pytest.raises(Unreachable) as caught:
            call()
        problems.append(caught.value)
    with pytest.raises(TableProblem) as described:
        check_table(TableAddress(table=address.table, region=REGION, endpoint=between.url))
    between.wrong = None

    journal.append([note(run, 1)])
    assert [event.event_id for event in journal.read(run).events] == [f"{run}-1"]
    assert described.value.kind == "unreachable"
    if WRONG[name][0] < 500:
        assert all(
            "Invalid response from DynamoDB in" in str(problem) and "(HTTP" in str(problem)
            for problem in problems
        )


@pytest.mark.needs_java
async def test_followers_and_the_service_survive_and_resume(
    journal: DynamoJournal, between: Between, dynamodb_local_url: str, address: TableAddress
) -> None:
    run, came = new_run(), threading.Event()
    errors: list[Exception] = []
    journal.append([note(run, 1)])
    service = PollingService(journal)
    service.on_error(errors.append)
    service.on_event(lambda event: came.set() if event.event_id == f"{run}-2" else None)
    service.start_polling(run)
    async with Hub(journal) as hub:
        watch = Watch(hub.follow(run))
        await watch.caught_up()

        between.wrong = WRONG["a page"]
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not (watch.follower.state.failures and errors):  # noqa: ASYNC110 - in other threads
                await asyncio.sleep(0.02)
        late = Watch(hub.follow(run))
        with open_dynamodb(
            TableAddress(table=address.table, region=REGION, layout="workflow", endpoint=dynamodb_local_url)
        ) as direct:
            direct.append([note(run, 2)])
        trouble = hub.trouble()
        between.wrong = None
        await watch.has(2)
        await late.has(2)
        resumed = await asyncio.to_thread(came.wait, 20)
    await service.aclose()

    assert "Invalid response from DynamoDB" in (trouble or "")
    assert watch.ids == late.ids == [f"{run}-1", f"{run}-2"]
    assert resumed


@pytest.mark.needs_java
def test_tail_resumes_and_a_one_shot_command_fails_at_once(
    between: Between, address: TableAddress, dynamodb_local_url: str, tmp_path: Path
) -> None:
    run = new_run()
    url = f"dynamodb://{address.table}?region={REGION}&endpoint={between.url}"
    with open_dynamodb(
        TableAddress(table=address.table, region=REGION, layout="workflow", endpoint=dynamodb_local_url)
    ) as direct:
        direct.append([note(run, 1)])
        command = [sys.executable, "-m", "longwatch", "tail", "-f", run, "--journal", url]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as tail:
            assert tail.stdout is not None
            first = tail.stdout.readline()
            between.wrong = WRONG["an empty body"]
            assert between.responded_wrongly.wait(PATIENCE_SECONDS)
            listed = subprocess.run(
                [sys.executable, "-m", "longwatch", "runs", "--journal", url],
                capture_output=True,
                text=True,
                cwd=tmp_path,
                timeout=PATIENCE_SECONDS,
            )
            direct.append([note(run, 2)])
            between.wrong = None
            second = tail.stdout.readline()
            tail.terminate()

    assert "note" in first
    assert "note" in second
    assert listed.returncode == 3
    assert "Invalid response from DynamoDB" in listed.stderr
    assert "Traceback" not in listed.stderr


@pytest.mark.needs_java
def test_a_client_that_was_refused_uses_new_credentials(
    between: Between, address: TableAddress, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = tmp_path / "credentials"
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY", raising=False)
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(shared))
    shared.write_text("[default]\naws_access_key_id = OLDKEY\naws_secret_access_key = old\n")
    seen: list[str] = []

    def respond(request: Request) -> Response:
        seen.append(request.headers["authorization"])
        if "OLDKEY" in seen[-1]:
            return 400, {"__type": "x#ExpiredTokenException", "message": "expired"}, {}
        return 200, {"Items": [], "Count": 0}, {}

    with (
        serving(respond) as server,
        open_dynamodb(TableAddress(table="t", region=REGION, endpoint=server.url)) as journal,
    ):
        with pytest.raises(TableProblem) as caught:
            journal.read("wf-1")
        shared.write_text("[default]\naws_access_key_id = NEWKEY\naws_secret_access_key = new\n")
        page = journal.read("wf-1")

    assert caught.value.kind == "expired-token"
    assert not page.events
    assert "NEWKEY" in seen[-1]
