"""CloudFormation templates as plain data, and their tables on an engine that knows no CloudFormation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cfnlint.decode import cfn_yaml

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

ROOT = Path(__file__).resolve().parents[2]
TABLE_TEMPLATE = ROOT / "infrastructure" / "dynamodb-table.yaml"


def load_template(path: Path) -> dict[str, Any]:
    """The template with `!Ref X` as `{"Ref": "X"}`, as CloudFormation itself reads it."""
    plain: dict[str, Any] = json.loads(json.dumps(cfn_yaml.load(str(path))))
    return plain


def create_tables(client: DynamoDBClient, template: dict[str, Any], **parameters: str) -> list[str]:
    """Create the template's tables with plain calls, and return their names."""
    values = {name: about.get("Default") for name, about in template["Parameters"].items()} | parameters
    created = []
    for resource in template["Resources"].values():
        if resource["Type"] != "AWS::DynamoDB::Table":
            continue
        arguments = resolved(resource["Properties"], values)
        expiry = arguments.pop("TimeToLiveSpecification", None)  # a call of its own outside CloudFormation
        client.create_table(**arguments)
        if expiry:
            client.update_time_to_live(TableName=arguments["TableName"], TimeToLiveSpecification=expiry)
        created.append(arguments["TableName"])
    return created


def resolved(value: Any, parameters: dict[str, Any]) -> Any:
    """The value with each reference to a parameter replaced. Other functions are not needed in a table."""
    if isinstance(value, dict):
        if set(value) == {"Ref"}:
            return parameters[value["Ref"]]
        return {name: resolved(each, parameters) for name, each in value.items()}
    if isinstance(value, list):
        return [resolved(each, parameters) for each in value]
    return value
