"""What the policies of a template allow, as IAM evaluates them: nothing that no statement names."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any


@dataclass(frozen=True)
class Statement:
    """One Allow of a role or policy."""

    actions: tuple[str, ...]
    resources: tuple[str, ...]

    def allows(self, action: str, resource: str) -> bool:
        return any(fnmatchcase(action, each) for each in self.actions) and any(
            fnmatchcase(resource, each) for each in self.resources
        )


def statements(template: dict[str, Any], name: str) -> list[Statement]:
    """Every statement of a role of this template, of the policies that name it, or of a policy."""
    documents = []
    for key, resource in template["Resources"].items():
        properties = resource.get("Properties", {})
        if key == name:
            documents += [policy["PolicyDocument"] for policy in properties.get("Policies", [])]
            documents += [properties["PolicyDocument"]] if "PolicyDocument" in properties else []
        elif {"Ref": name} in properties.get("Roles", []):
            documents.append(properties["PolicyDocument"])
    found = []
    for document in documents:
        for statement in document["Statement"]:
            assert statement["Effect"] == "Allow"
            assert "Condition" not in statement
            found.append(
                Statement(
                    tuple(_listed(statement["Action"])),
                    tuple(arn_of(each) for each in _listed(statement["Resource"])),
                )
            )
    return found


def arn_of(value: Any) -> str:
    """A resource of a statement as text: `JournalTable` for the ARN of that resource."""
    match value:
        case str():
            return value
        case {"Fn::GetAtt": [name, "Arn"]}:
            return str(name)
        case {"Ref": name}:
            return str(name)
        case {"Fn::If": [_, first, _]}:
            return arn_of(first)
        case {"Fn::Sub": text}:
            return str(text).replace("${", "").replace("}", "")
    raise AssertionError(f"a statement names {value!r}, which this check does not understand")


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
