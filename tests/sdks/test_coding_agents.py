"""Claude Code and Codex from npm send OTLP to a real `longwatch serve`; the model is scripted."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from longwatch.journal.sqlite import SqliteJournal
from longwatch.model.run import Run, fold
from longwatch.testing import ModelReply, ModelServer, ScriptedToolCall
from longwatch.testing.model_server.script import ModelRequest
from tests.integration.server.processes import ServeProcess, journal_option, serving

COMMANDS = Path(__file__).resolve().parents[2] / ".venv-sdks" / "coding_agents" / "node_modules" / ".bin"
SECONDS = 100.0
PROMPT = "Say hi with echo"
CODEX_SETTINGS = """
model = "gpt-5-codex"
model_provider = "local"

[model_providers.local]
name = "local"
base_url = "{model}/v1"
wire_api = "responses"
env_key = "OPENAI_API_KEY"

[otel]
log_user_prompt = true
exporter = {{ otlp-http = {{ endpoint = "{server}/v1/logs", protocol = "json" }} }}
"""


def echo_once(request: ModelRequest) -> ModelReply:
    """Call the shell of the agent, then end the turn."""
    body = json.dumps(request.body)
    if "tool_result" in body or "function_call_output" in body:
        return ModelReply("Done: hi.", input_tokens=30, output_tokens=3)
    if "exec_command" in body:
        return ModelReply(tool_calls=[ScriptedToolCall("exec_command", {"cmd": "echo hi"})])
    if '"Bash"' in body:
        return ModelReply(tool_calls=[ScriptedToolCall("Bash", {"command": "echo hi", "description": "hi"})])
    return ModelReply("ok")


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer(respond=echo_once) as running:
        yield running


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServeProcess]:
    with serving(*journal_option(tmp_path / "runs.db")) as running:
        yield running


def run_agent(name: str, arguments: list[str], folder: Path, **variables: str) -> None:
    """Run the agent with a home of its own, without this machine's accounts and settings."""
    private = ("ANTHROPIC_", "CLAUDE", "OPENAI_", "CODEX_", "OTEL_", "TRACE")
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(private)}
    work = folder / "work"
    work.mkdir()
    done = subprocess.run(
        [str(COMMANDS / name), *arguments],
        cwd=work,
        env={**inherited, "HOME": str(folder), "NO_PROXY": "127.0.0.1", **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr
    assert "Done: hi." in done.stdout


def only_run(folder: Path, prefix: str) -> Run:
    with SqliteJournal(folder / "runs.db") as journal:
        (found,) = [run for run in journal.find_runs().runs if run.run_id.startswith(prefix)]
        run = fold(journal.read(found.run_id, limit=1_000).events)
    assert run is not None
    return run


def check(run: Run, name: str, tool: str) -> None:
    assert run.summary.name == name
    assert [(call.name, call.status) for call in run.tool_calls] == [(tool, "completed")]
    models = [call for call in run.ordered_calls() if call.kind == "model"]
    assert [call.status for call in models] == ["completed", "completed"]
    tokens = [call.end.model.usage for call in models if call.end and call.end.model]
    assert [(each.input_tokens, each.output_tokens) for each in tokens if each] == [(10, 5), (30, 3)]
    assert run.counts["user_prompt"] == 1


def test_a_session_of_claude_code_is_a_run(tmp_path: Path, model: ModelServer, server: ServeProcess) -> None:
    run_agent(
        "claude",
        ["-p", PROMPT, "--allowedTools", "Bash"],
        tmp_path,
        ANTHROPIC_BASE_URL=model.url,
        ANTHROPIC_API_KEY="sk-ant-test",
        CLAUDE_CODE_ENABLE_TELEMETRY="1",
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
        DISABLE_AUTOUPDATER="1",
        OTEL_LOGS_EXPORTER="otlp",
        OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf",
        OTEL_EXPORTER_OTLP_ENDPOINT=server.url,
        OTEL_LOG_USER_PROMPTS="1",
    )

    check(only_run(tmp_path, "claude-code-"), "Claude Code", "Bash")


def test_a_conversation_of_codex_is_a_run(tmp_path: Path, model: ModelServer, server: ServeProcess) -> None:
    settings = tmp_path / ".codex"
    settings.mkdir()
    (settings / "config.toml").write_text(CODEX_SETTINGS.format(model=model.url, server=server.url))

    run_agent(
        "codex",
        ["exec", "--skip-git-repo-check", "--sandbox", "danger-full-access", PROMPT],
        tmp_path,
        CODEX_HOME=str(settings),
        OPENAI_API_KEY="sk-test",
    )

    check(only_run(tmp_path, "codex-"), "Codex", "exec_command")
