"""The engines can be stopped, killed and started again as the fault tests need it."""

from __future__ import annotations

from pathlib import Path

import boto3
import pytest

from tests.engines import start
from tests.engines.start import DynamoDbLocal, EngineMissing, MiniStack


@pytest.mark.needs_java
def test_a_durable_engine_comes_back_on_its_port_with_its_tables(durable_dynamodb: DynamoDbLocal) -> None:
    client = boto3.client("dynamodb", endpoint_url=durable_dynamodb.url)
    client.create_table(
        TableName="kept",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
    )

    durable_dynamodb.kill()
    durable_dynamodb.start()

    assert client.list_tables()["TableNames"] == ["kept"]


def test_the_error_of_a_missing_engine_names_the_install_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(start, "MINISTACK_PYTHON", tmp_path / "nothing")
    monkeypatch.setattr(start, "ENGINES", tmp_path)

    with pytest.raises(EngineMissing, match="make engines"):
        MiniStack().start()
    with pytest.raises(EngineMissing, match="make engines"):
        DynamoDbLocal().start()
