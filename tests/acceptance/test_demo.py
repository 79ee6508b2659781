"""`longwatch demo`, as `make demo` runs it."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
from contextlib import closing
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from longwatch.documents.stores.factory import open_documents
from longwatch.executions.stores.factory import open_executions
from longwatch.journal.factory import open_journal
from longwatch.journal.verify import Verifier
from longwatch.model.run import RunSummary, Status, fold
from longwatch.model.run_query import RunQuery
from longwatch.turns import BlockKind, Conversations
from tests.acceptance.conftest import Longwatch, command, environment
from tests.patience import PATIENCE_SECONDS


def the_run(path: Path) -> RunSummary:
    with open_journal(f"sqlite:///{path}") as journal:
        [run] = journal.find_runs(RunQuery(kind="workflow")).runs
    return run


def test_the_demo_plays_once_and_leaves_a_whole_run_behind(longwatch: Longwatch, tmp_path: Path) -> None:
    path = tmp_path / "demo.db"

    done = longwatch("demo", "--once", "--journal", f"sqlite:///{path}")

    assert done.returncode == 0, done.stderr
    summary = the_run(path)
    with open_journal(f"sqlite:///{path}") as journal:
        events = journal.read(summary.run_id, limit=1000).events
    run = fold(events)
    assert run is not None
    assert summary.status is Status.SUCCEEDED
    assert summary.agents == {"coordinator", "analyst", "reader", "engineer", "writer"}
    prices = [call.status for call in run.tool_calls if call.name == "fetch_prices"]
    assert prices == ["failed", "completed"]
    usage = [(call.name, call.model.usage) for call in run.model_calls if call.model is not None]
    assert [name for name, used in usage if used is not None] == [
        *("demo-large", "demo-small", "demo-small", "demo-large")
    ]
    assert all(call.model and call.model.time_to_first_token_ms for call in run.model_calls)
    assert set(summary.totals.waited_ms) == {"approval"}
    assert "for 2 of 4 calls, 2 have no known price" in done.stdout
    late = next(event for event in events if event.type == "feed_item")
    earlier = [event for event in events if event.producer == late.producer and event.order < late.order]
    assert max(event.number or 0 for event in earlier) < (late.number or 0) - 1
    verifier = Verifier()
    for event in events:
        verifier.add(event)
    assert verifier.report(summary.last_event_at).answer == "complete"
    assert f"show {summary.run_id}" in done.stdout


@pytest.mark.parametrize("journal", ["dynamodb://runs?region=eu-west-1", "sqlite:///mine.db", None])
def test_the_demo_keeps_to_a_journal_of_its_own(
    longwatch: Longwatch, tmp_path: Path, journal: str | None
) -> None:
    variables = {"LONGWATCH_JOURNAL": journal} if journal else {}

    done = longwatch("demo", "--once", LONGWATCH_DATA=str(tmp_path), **variables)

    assert done.returncode == 0, done.stderr
    assert the_run(tmp_path / "demo.db").status is Status.SUCCEEDED
    assert sorted(path.name for path in tmp_path.rglob("*.db")) == ["demo.db"]
    assert f"--journal sqlite:///{tmp_path / 'demo.db'}" in done.stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_end_ends_the_demo_and_its_page(tmp_path: Path, number: int) -> None:
    process = subprocess.Popen(
        command("demo", "--journal", f"sqlite:///{tmp_path / 'demo.db'}"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        env=environment(PYTHONUNBUFFERED="1"),
    )
    assert process.stdout is not None
    page = None
    for line in process.stdout:
        page = page or re.search(r"Watch it on the page: (\S+)", line)
        if page is not None and "workflow_start" in line:
            break

    process.send_signal(number)
    process.communicate(timeout=PATIENCE_SECONDS)

    assert process.returncode == 128 + number
    assert page is not None
    with pytest.raises(URLError):
        urlopen(page[1], timeout=PATIENCE_SECONDS)


def test_the_page_ends_with_a_demo_that_is_killed(tmp_path: Path) -> None:
    process = subprocess.Popen(
        command("demo", "--journal", f"sqlite:///{tmp_path / 'demo.db'}"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        env=environment(PYTHONUNBUFFERED="1"),
    )
    assert process.stdout is not None
    assert any("on the page: " in line for line in process.stdout)
    [server] = servers_of(process.pid)
    with os.fdopen(os.pidfd_open(server)) as ended:
        process.kill()
        process.communicate(timeout=PATIENCE_SECONDS)

        assert select.select([ended], [], [], PATIENCE_SECONDS)[0], "the server outlives the demo"


def servers_of(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return [int(each) for each in children if b"\0serve\0" in Path(f"/proc/{each}/cmdline").read_bytes()]


def test_beside_the_workflow_a_turn_with_blocks_writes_files(longwatch: Longwatch, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'demo.db'}"

    done = longwatch("demo", "--once", "--journal", url)

    assert done.returncode == 0, done.stderr
    with open_journal(url) as journal, open_documents(url) as documents:
        conversations = Conversations(journal)
        [conversation] = conversations.conversations("demo")
        [turn] = conversations.turns("demo", conversation.id)
        files = [entry.path for entry in documents.files("demo").files]
    assert turn.wire_status == "completed"
    assert {block.kind for block in turn.blocks} == set(BlockKind)
    assert files == ["notes/outline.md", "pages/brief.md"]


def test_beside_the_workflow_a_drill_of_three_waves_is_watched_to_its_verdict(
    longwatch: Longwatch, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'demo.db'}"

    done = longwatch("demo", "--once", "--journal", url)
    again = longwatch("demo", "--once", "--journal", url)

    assert (done.returncode, again.returncode) == (0, 0), done.stderr + again.stderr
    store = open_executions(url)
    drills = [each for each in store.find() if each.execution_id.startswith("drill-")]
    past = [each for each in store.find() if each.execution_id.startswith("demo-drill-")]
    store.close()
    assert [each.status for each in drills] == [Status.PARTIAL, Status.PARTIAL]
    assert [len(list(wave.items())) for wave in drills[0].stages] == [3, 4, 2]
    assert {each.status for each in past} == {Status.SUCCEEDED}
    assert len(past) == 10, "drills of the weeks before are made once"
    drill = drills[-1]
    assert f"executions explain {drill.execution_id}" in done.stdout
    assert "3 launched, 1 failed" in done.stdout
    with open_journal(url) as journal:
        run = journal.find_run(drill.run_id)
        types = {event.type for event in journal.read(drill.run_id).events}
    assert run is not None
    assert run.status is Status.PARTIAL
    assert {"execution_started", "server_transition", "execution_ended"} <= types


def test_beside_the_workflow_a_job_is_killed_and_its_run_died(longwatch: Longwatch, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'demo.db'}"

    done = longwatch("demo", "--once", "--journal", url)
    [job] = json.loads(longwatch("runs", "--status", "died", "-o", "json", "--journal", url).stdout)
    shown = longwatch("show", job["run_id"], "--journal", url).stdout

    assert done.returncode == 0, done.stderr
    assert (job["kind"], job["name"]) == ("job", "nightly export")
    assert f"show {job['run_id']}" in done.stdout
    assert shown.startswith("† died  ")
    assert "abandoned" in shown


def test_only_the_terminal_is_played_without_the_page(longwatch: Longwatch, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'demo.db'}"

    done = longwatch("demo", "--no-page", "--pace", "0.05", "--journal", url)

    assert done.returncode == 0, done.stderr
    assert "http://" not in done.stdout
    with open_journal(url) as journal:
        assert [run.kind for run in journal.find_runs().runs] == ["workflow"]


def test_the_page_is_served_while_the_demo_plays_and_after_it_until_ctrl_c(tmp_path: Path) -> None:
    process = subprocess.Popen(
        command("demo", "--pace", "0.05", "--journal", f"sqlite:///{tmp_path / 'demo.db'}"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        env=environment(PYTHONUNBUFFERED="1"),
    )
    assert process.stdout is not None
    output = ""
    for line in process.stdout:
        output += line
        if "Press Ctrl-C" in line:
            break

    page = re.search(r"Watch it on the page: (\S+)", output)
    assert page is not None, output
    with urlopen(f"{page[1]}api/projects/demo/sessions", timeout=PATIENCE_SECONDS) as response:
        assert b"Publish the brief" in response.read()
    board = re.search(r"The drill's board: +(\S+)", output)
    assert board is not None, output
    with urlopen(board[1].replace("/executions", "/api/executions"), timeout=PATIENCE_SECONDS) as response:
        shown = json.load(response)
    assert (shown["status"], len(shown["waves"])) == ("partial", 3)
    assert shown["verdict"]["evidence"]
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE_SECONDS)

    assert process.returncode == 0
    with pytest.raises(URLError):
        urlopen(page[1], timeout=PATIENCE_SECONDS)


def test_on_a_terminal_the_demo_draws_and_ctrl_c_ends_the_run_as_cancelled(tmp_path: Path) -> None:
    path = tmp_path / "demo.db"
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command("demo", "--journal", f"sqlite:///{path}"),
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        env=environment(COLUMNS="100", LINES="40", TERM="xterm"),
    )
    os.close(theirs)
    drawn = ""
    while "fetch_prices" not in drawn and select.select([ours], [], [], PATIENCE_SECONDS)[0]:
        drawn += os.read(ours, 65_536).decode(errors="replace")

    process.send_signal(signal.SIGINT)
    while process.poll() is None and select.select([ours], [], [], PATIENCE_SECONDS)[0]:
        try:
            drawn += os.read(ours, 65_536).decode(errors="replace")
        except OSError:  # Linux reports this when the other side has gone
            break

    assert process.wait(PATIENCE_SECONDS) == 130
    os.close(ours)
    assert re.search(r"\d+/19", drawn)
    assert "Traceback" not in drawn
    assert the_run(path).status is Status.CANCELLED
    url = f"sqlite:///{path}"
    with closing(open_executions(url)) as store, open_journal(url) as journal:
        newest = store.find(limit=1)[0]
        assert list(store.open_executions()) == []
        assert (newest.status, newest.closed) == (Status.CANCELLED, True)
        found_run = journal.find_run(newest.run_id)
        assert found_run is not None
        assert found_run.status is Status.CANCELLED
