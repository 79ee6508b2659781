"""Opening a journal on DynamoDB: its address, its layout, and what it needs."""

from __future__ import annotations

import importlib.util

import pytest

from longwatch.errors import InvalidJournalUrl, MissingExtra
from longwatch.journal.dynamodb.journal import open_dynamodb
from longwatch.journal.factory import open_journal
from longwatch.settings import Settings
from longwatch.storage.urls import TableAddress

SETTINGS = Settings(journal="memory://")


@pytest.mark.parametrize(
    "url",
    [
        "dynamodb://events?region=eu-west-1&layout=workflow",
        "dynamodb://events?region=eu-west-1&layout=session&endpoint=http%3A%2F%2F127.0.0.1%3A8000",
        "dynamodb://Events_of.mine-2?layout=workflow",
    ],
)
def test_a_url_survives_opening(url: str) -> None:
    with open_journal(url, settings=SETTINGS) as journal:
        assert journal.url == url


def test_events_expire_by_default_in_layout_workflow_only() -> None:
    workflow = open_dynamodb(TableAddress(table="t-1", region=None, layout="workflow", endpoint=None))
    session = open_dynamodb(TableAddress(table="t-1", region=None, layout="session", endpoint=None))

    assert (workflow.default_ttl_seconds, session.default_ttl_seconds) == (86_400, None)


def test_an_unknown_layout_is_refused() -> None:
    with pytest.raises(InvalidJournalUrl, match="layout=session"):
        open_journal("dynamodb://events?layout=sessions", settings=SETTINGS)


def test_without_boto3_the_error_names_the_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec

    def find_spec(name: str) -> object:
        return None if name == "boto3" else found(name)

    monkeypatch.setattr("longwatch.storage.dynamodb.client.find_spec", find_spec)

    with pytest.raises(MissingExtra, match=r"pip install .\.\[aws\]"):
        open_journal("dynamodb://events", settings=SETTINGS)
