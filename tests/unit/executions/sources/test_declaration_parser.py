"""Watches that people declare in longwatch.toml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from longwatch.errors import InvalidSettings
from longwatch.executions.sources.declaration_parser import parse_declaration
from longwatch.executions.sources.declarations import AwsCall, HttpCall, Meaning
from longwatch.executions.sources.shipped import CODE_STATUSES, COMMON_STATUSES
from longwatch.settings import load_settings

HTTP = {"url": "https://deploys.example/api/{id}", "status": "deploy.state", "succeeded": ["live"]}
AWS = {
    "service": "codepipeline",
    "operation": "GetPipelineExecution",
    "parameters": {"pipelineName": "{1}", "pipelineExecutionId": "{2}"},
    "divider": "/",
    "results": "pipelineExecution",
    "status": "status",
    "running": "InProgress",
    "succeeded": ["Succeeded"],
    "failed": ["Failed"],
}


def mistakes(table: dict[str, Any], name: str = "deploys") -> list[str]:
    with pytest.raises(InvalidSettings) as caught:
        parse_declaration(name, table, where="longwatch.toml")
    return list(caught.value.mistakes)


def test_an_http_endpoint_is_declared_in_three_lines() -> None:
    declared = parse_declaration("deploys", HTTP, where="longwatch.toml")

    assert isinstance(declared.call, HttpCall)
    assert declared.prefix == "deploys:"
    assert declared.statuses == {"live": Meaning.SUCCEEDED}
    assert (declared.pending_seconds, declared.deadline_seconds) == (None, None)


def test_an_aws_operation_is_declared_as_its_api_names_things() -> None:
    declared = parse_declaration("pipelines", {**AWS, "every": "5s", "deadline": "1h"}, where="here")

    assert isinstance(declared.call, AwsCall)
    assert declared.call.name == "codepipeline:GetPipelineExecution"
    assert declared.statuses["inprogress"] is Meaning.RUNNING
    assert (declared.running_seconds, declared.deadline_seconds) == (5.0, 3600.0)


def test_an_endpoint_without_statuses_is_read_with_the_common_ones() -> None:
    declared = parse_declaration("jobs", {"url": "https://jobs.example/{id}"}, where="here")

    assert declared.statuses == COMMON_STATUSES


def test_a_code_is_a_status_only_where_that_is_declared() -> None:
    declared = parse_declaration("jobs", {**HTTP, "accept_status_code": True}, where="here")

    assert declared.statuses == {"live": Meaning.SUCCEEDED, **CODE_STATUSES}


@pytest.mark.parametrize(
    "url", ["${BASE}/{+1}/{2}", "${BASE:-https://x.example}/{id}", "https://${HOST|NAME}/{id}"]
)
def test_a_server_may_come_from_the_environment(url: str) -> None:
    declared = parse_declaration("jobs", {"url": url, "divider": "/"}, where="here")

    assert isinstance(declared.call, HttpCall)


def test_steps_and_reasons_are_paths() -> None:
    table = {**HTTP, "items": "deploy.steps", "item_name": "title", "reason": ["error", "detail"]}

    declared = parse_declaration("deploys", table, where="here")

    assert declared.items is not None
    assert (declared.items.at, declared.items.name, declared.items.status) == (
        "deploy.steps",
        "title",
        "status",
    )
    assert declared.reason == ("error", "detail")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"url": None}, "watches.deploys needs either `url`, or `service` and `operation`"),
        ({"service": "glue"}, "watches.deploys needs either `url`"),
        ({"url": "https://deploys.example/"}, "watches.deploys.url has no {id}"),
        (
            {"url": "ftp://deploys.example/{id}"},
            "watches.deploys.url: Invalid URL 'ftp://deploys.example/x'",
        ),
        (
            {"url": "https://me:secret@deploys.example/{id}"},
            "watches.deploys.url: The URL contains a password",
        ),
        ({"status": "deploy..state"}, "watches.deploys.status: Invalid path 'deploy..state'"),
        ({"status": 3}, "watches.deploys.status must be text, not 3"),
        ({"reason": "a["}, "watches.deploys.reason: Invalid path 'a['"),
        ({"sucess": ["live"]}, "watches.deploys.sucess is unknown"),
        ({"succeeded": 3}, "watches.deploys.succeeded must be text or a list of texts, not 3"),
        ({"failed": "live"}, "watches.deploys.failed has 'live', which succeeded has too"),
        (
            {"succeeded": None, "running": "busy"},
            "watches.deploys.succeeded is missing: no status means an end",
        ),
        ({"every": "soon"}, "watches.deploys.every must be a time such as 10s"),
        ({"every": "0.1s"}, "watches.deploys.every must be a time such as 10s"),
        ({"headers": "x"}, "watches.deploys.headers must be a table of texts"),
        ({"outcome": "a["}, "watches.deploys.outcome: Invalid path 'a['"),
        (
            {"accept_status_code": "yes"},
            "watches.deploys.accept_status_code must be true or false, not 'yes'",
        ),
    ],
)
def test_a_mistake_is_reported_with_the_key_it_is_in(changes: dict[str, Any], message: str) -> None:
    table = {key: value for key, value in {**HTTP, **changes}.items() if value is not None}

    assert any(f"longwatch.toml: {message}" in mistake for mistake in mistakes(table))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"operation": None}, "watches.deploys.operation is missing"),
        ({"status": None}, "watches.deploys.status is missing"),
        ({"parameters": {"pipelineName": "x"}}, "watches.deploys.parameters has no {id}"),
        ({"ids": "ids"}, "watches.deploys.key is missing"),
        ({"accept_status_code": True}, "watches.deploys.accept_status_code is for a `url` only"),
        ({"at_once": 0}, "watches.deploys.at_once must be a whole number from 1 to 1000, not 0"),
        ({"succeeded": None, "failed": None, "running": None}, "watches.deploys.succeeded is missing"),
    ],
)
def test_a_mistake_in_an_operation_is_reported_too(changes: dict[str, Any], message: str) -> None:
    table = {key: value for key, value in {**AWS, **changes}.items() if value is not None}

    assert any(message in mistake for mistake in mistakes(table))


def test_all_mistakes_are_reported_at_once() -> None:
    assert len(mistakes({"url": "https://x.example/{id}", "every": "soon", "colour": 1, "began": "."})) == 3


def test_a_name_is_a_word() -> None:
    assert "watches.my deploys is not a valid name" in mistakes(HTTP, name="my deploys")[0]


def test_a_watch_is_a_table(tmp_path: Path) -> None:
    (tmp_path / "longwatch.toml").write_text("watches = 3\n")

    with pytest.raises(InvalidSettings, match=r"Use tables such as \[watches.deploys\]"):
        load_settings(directory=tmp_path)


def test_settings_keep_the_tables_of_watches_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "longwatch.toml").write_text('[watches.deploys]\nurl = "https://x.example/{id}"\n')

    settings = load_settings(directory=tmp_path)

    assert settings.watches == {"deploys": {"url": "https://x.example/{id}"}}
