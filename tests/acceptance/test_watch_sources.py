"""`longwatch watch` with a process, an endpoint or a build, as people run it."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from longwatch.testing.services import AwsService
from tests.acceptance.conftest import Longwatch
from tests.acceptance.test_watch import Screen, Started
from tests.integration.executions.sources.conftest import Endpoint, Reply

JOURNAL = ("--journal", "sqlite:///watching.db")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes are not watched on Windows")


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    endpoint = Endpoint()
    yield endpoint
    endpoint.close()


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process that waits for a line and then exits with that code."""
    code = "import sys; sys.exit(int(sys.stdin.readline()))"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def end(child: subprocess.Popen[bytes], code: int) -> None:
    assert child.stdin is not None
    child.stdin.write(f"{code}\n".encode())
    child.stdin.flush()


@pytest.mark.parametrize("code", [0, 3])
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells others how a process ended")
def test_a_process_is_watched_to_its_own_end(child: subprocess.Popen[bytes], code: int) -> None:
    watch = Started("watch", f"pid:{child.pid}", *JOURNAL)
    watch.read_until("in_progress")

    end(child, code)

    exit_code, rest, stderr = watch.ends()
    assert exit_code == min(code, 1)
    assert f"exited with {code}" in rest
    assert f"longwatch: run pid:{child.pid}@" in stderr


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells others how a process ended")
def test_a_process_that_is_killed_has_failed(child: subprocess.Popen[bytes], longwatch: Longwatch) -> None:
    watch = Started("watch", f"pid:{child.pid}", *JOURNAL)
    watch.read_until("in_progress")

    child.kill()

    exit_code, _, stderr = watch.ends()
    assert exit_code == 1
    assert "killed by SIGKILL" in stderr
    listed = longwatch("executions", "list", *JOURNAL)
    assert "failed" in listed.stdout


def test_ctrl_c_leaves_the_process_alone_and_another_watch_resumes_at_once(
    child: subprocess.Popen[bytes], longwatch: Longwatch
) -> None:
    watch = Started("watch", f"pid:{child.pid}", *JOURNAL)
    watch.read_until("in_progress")

    watch.interrupt()

    exit_code, _, stderr = watch.ends()
    assert (exit_code, stderr) == (130, f"longwatch: watching stopped, pid:{child.pid} continues\n")
    assert child.poll() is None
    again = longwatch("watch", f"pid:{child.pid}", "--timeout", "1s", *JOURNAL)
    assert again.returncode == 4
    assert again.stdout.count("execution_started") == 1
    assert "is still running" in again.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells others how a process ended")
def test_two_watches_of_one_process_record_it_once_and_both_report_its_end(
    child: subprocess.Popen[bytes], longwatch: Longwatch
) -> None:
    watches = [Started("watch", f"pid:{child.pid}", *JOURNAL) for _ in range(2)]
    for watch in watches:
        watch.read_until("in_progress")

    end(child, 0)

    assert [watch.ends()[0] for watch in watches] == [0, 0]
    listed = longwatch("executions", "list", "-o", "jsonl", *JOURNAL)
    (execution,) = [json.loads(line) for line in listed.stdout.splitlines()]
    events = longwatch("tail", execution["execution_id"], "-o", "jsonl", *JOURNAL).stdout.splitlines()
    assert len(events) == 6


def test_an_endpoint_is_watched_until_it_is_done(endpoint: Endpoint) -> None:
    endpoint.returns({"status": "running"}, {"status": "running"}, {"status": "done"})

    watch = Started("watch", f"{endpoint.url}/job", "--every", "1s", *JOURNAL)

    exit_code, printed, stderr = watch.ends()
    assert exit_code == 0
    assert "in_progress (running)" in printed
    assert "server_transition   done http" in printed
    assert stderr.splitlines()[-1].endswith(" succeeded")


def test_on_a_terminal_the_steps_are_drawn(endpoint: Endpoint, tmp_path: Path) -> None:
    (tmp_path / "longwatch.toml").write_text(
        f'[watches.deploys]\nurl = "{endpoint.url}/{{id}}"\nstatus = "state"\nsucceeded = "live"\n'
        'items = "steps"\nevery = "1s"\n'
    )
    endpoint.returns({"state": "rolling", "steps": [{"name": "copy files", "status": "busy"}]})
    screen = Screen("watch", "deploys:42", *JOURNAL, columns=100, lines=30)
    assert screen.draws("copy files  in_progress", "next poll in")

    endpoint.returns({"state": "live", "steps": [{"name": "copy files", "status": "live"}]})

    assert screen.ends() == 0
    assert "copy files  succeeded" in screen.drawn
    assert screen.drawn.rstrip().endswith("longwatch: run deploys:42 succeeded")


def test_ctrl_c_on_a_terminal_leaves_the_last_picture(child: subprocess.Popen[bytes]) -> None:
    screen = Screen("watch", f"pid:{child.pid}", *JOURNAL, columns=100, lines=30)
    assert screen.draws("in_progress")

    screen.process.send_signal(signal.SIGINT)

    assert screen.ends() == 130
    assert "Traceback" not in screen.drawn
    assert "in_progress" in screen.drawn.rpartition("\x1b[2K")[2]


def test_a_reader_that_closes_the_pipe_ends_an_idle_watch_quietly(
    child: subprocess.Popen[bytes],
) -> None:
    watch = Started("watch", f"pid:{child.pid}", *JOURNAL)
    watch.read_until("in_progress")

    watch.stdout.close()

    exit_code, _, stderr = watch.ends()
    assert (exit_code, stderr) == (141, "")


def test_a_target_that_cannot_be_watched_is_reported_in_one_line(
    longwatch: Longwatch, endpoint: Endpoint
) -> None:
    endpoint.returns(Reply(401))
    results = {
        target: longwatch("watch", target, *JOURNAL)
        for target in ("aws:nothing:1", "pid:0", "pid:999999999", f"{endpoint.url}/x")
    }

    codes = [done.returncode for done in results.values()]
    assert codes == [2, 2, 2, 2]
    assert all(done.stderr.count("\n") == 1 for done in results.values())
    assert "Use one of aws:drs:ID, aws:step-functions:ID" in results["aws:nothing:1"].stderr
    assert "returned 401. Pass the credentials with --header" in results[f"{endpoint.url}/x"].stderr


def test_an_unreachable_server_is_retried_until_the_watch_times_out(longwatch: Longwatch) -> None:
    done = longwatch("watch", "http://127.0.0.1:9/x", "--timeout", "1s", *JOURNAL)

    assert done.returncode == 3
    first, last = done.stderr.splitlines()
    assert first.startswith("longwatch: waiting for http://127.0.0.1:9/x: 127.0.0.1:9 is unreachable")
    assert last.startswith("longwatch: timeout, and the status of run http://127.0.0.1:9/x is not known")


def test_without_the_extra_the_error_names_the_install_command(longwatch: Longwatch, tmp_path: Path) -> None:
    for name in ("boto3", "botocore"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('not installed')\n")

    done = longwatch("watch", "aws:batch:j-1", *JOURNAL, PYTHONPATH=str(tmp_path))

    assert done.returncode == 2
    assert "Polling batch needs the 'aws' extra. Install it" in done.stderr
    assert "in a checkout of longwatch: pip install '.[aws]'" in done.stderr


def test_a_build_is_watched_through_the_real_client(longwatch: Longwatch) -> None:
    build = {"id": "demo:1", "projectName": "demo", "buildStatus": "IN_PROGRESS"}
    with AwsService("codebuild") as service:
        service.answer(
            "BatchGetBuilds",
            {"builds": [build]},
            {"builds": [build]},
            {"builds": [{**build, "buildStatus": "TIMED_OUT"}]},
        )
        began = time.monotonic()

        done = longwatch(
            "watch", "aws:codebuild:demo:1", "--every", "1s", *JOURNAL, AWS_ENDPOINT_URL_CODEBUILD=service.url
        )

    assert done.returncode == 1
    assert "run aws:codebuild:demo:1 failed: demo:1: its status is TIMED_OUT" in done.stderr
    assert time.monotonic() - began < 30


def test_sources_are_listed(longwatch: Longwatch) -> None:
    done = longwatch("watch", "--sources")

    assert done.returncode == 0
    assert "aws:cloudformation:ID" in done.stdout
    assert "pid:ID" in done.stdout


def test_sources_are_listed_for_programs(longwatch: Longwatch) -> None:
    listed = json.loads(longwatch("watch", "--sources", "-o", "json").stdout)
    lines = longwatch("watch", "--sources", "-o", "jsonl").stdout.splitlines()

    assert [json.loads(line) for line in lines] == listed
    assert "pid:ID" in [each["usage"] for each in listed]
    assert "use -o jsonl" in longwatch("watch", "wf-1", "-o", "json").stderr


def test_watching_executions_draws_them_before_the_first_response(longwatch: Longwatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts connections, and never responds
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/job"
        added = longwatch(
            *("executions", "add", "--plan", "p-1", "--id", "x-1", "--source", "http"),
            *("--wave", f"one={url}", *JOURNAL),
        )
        screen = Screen("executions", "watch", *JOURNAL, columns=120, lines=30)

        drew = screen.draws("x-1  p-1  0 of 0 done", "waiting for the first response from http")

        screen.process.kill()
        screen.ends()
    assert (added.returncode, drew) == (0, True)
