"""Sessions and clients of boto3, and which of their settings come from where."""

from __future__ import annotations

import sys

import pytest

from longwatch.errors import MissingExtra
from longwatch.storage.aws import ClientOptions, core_session, isolated_session, make_client, new_session

pytest.importorskip("boto3")

OPTIONS = ClientOptions(connect_seconds=2, read_seconds=7, attempts=3, connections=24)


def test_a_client_has_the_timeouts_and_attempts_of_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "9")
    monkeypatch.setenv("AWS_RETRY_MODE", "legacy")

    client = make_client(new_session(core_session("x")), "sts", region="eu-west-1", options=OPTIONS)

    config = client.meta.config
    assert (config.connect_timeout, config.read_timeout, config.max_pool_connections) == (2, 7, 24)
    assert config.retries == {"mode": "standard", "total_max_attempts": 3}
    client.close()


def test_a_client_without_options_is_as_the_environment_configures_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "9")
    monkeypatch.setenv("AWS_RETRY_MODE", "standard")

    session = new_session(core_session("x"))
    client = make_client(session, "s3", region="eu-west-1", endpoint="http://127.0.0.1:9")

    assert client.meta.endpoint_url == "http://127.0.0.1:9"
    assert client.meta.config.connect_timeout == 60
    assert client.meta.config.retries == {"mode": "standard", "total_max_attempts": 9}
    client.close()


def test_a_session_finds_credentials_that_are_newer_than_the_last_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = []
    for key in ("yesterday", "today"):
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", key)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        found.append(new_session(core_session("x")).get_credentials().access_key)

    assert found == ["yesterday", "today"]


def test_an_isolated_session_ignores_the_profile_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "no-such-profile")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody")
    options = ClientOptions(connect_seconds=1, read_seconds=1, attempts=1, use_proxies=False)

    session = isolated_session(access_key="demo", secret_key="secret")
    client = make_client(session, "sts", region="eu-west-1", endpoint="http://127.0.0.1:9", options=options)

    assert session.get_credentials().access_key == "demo"
    assert client.meta.config.proxies == {}
    client.close()


@pytest.mark.parametrize("missing", ["boto3", "botocore.session"])
def test_a_missing_sdk_is_named_with_what_needs_it(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, missing, None)

    with pytest.raises(MissingExtra, match="Uploading to S3 needs the 'aws' extra"):
        core_session("Uploading to S3")
