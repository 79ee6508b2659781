"""The form of a dialect: which attribute states what a span is, and the names of its other attributes.

A dialect is data. Operations with a model are model calls. Work that is called with arguments and returns a
result, such as a retrieval or a change of memory, is a tool call; `system` tells it from other tools. A step
of the program's own flow, such as a plan, a guardrail or a task, is a node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from longwatch.telemetry.span import Attributes, SpanData


class SpanKind(StrEnum):
    """What a span represents."""

    WORKFLOW = "workflow"  # the run itself if it is the first span of its trace, else a node
    AGENT = "agent"
    TOOL = "tool"
    MODEL = "model"
    NODE = "node"
    OTHER = "other"


class SpanOperation(NamedTuple):
    """What one value of a dialect's kind attribute means."""

    kind: SpanKind
    detail: str | None = None  # the `system` of a tool, the `node_type` of a node, the `operation` of a model


OTHER = SpanOperation(SpanKind.OTHER)

Content = tuple[object, object]  # input and output; None: the span has none


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The attribute names of one convention."""

    name: str
    kind_attributes: tuple[str, ...]  # the first that is set states what the span is
    operations: Mapping[str, SpanOperation]  # by the value of that attribute
    names: Mapping[SpanKind, tuple[str, ...]]  # attributes that name the agent, tool, model or workflow
    fields: Mapping[str, tuple[str, ...]]  # field of an event -> its attributes; the first that is set counts
    parameters: Mapping[str, tuple[str, ...]]  # the same for the parameters of a model call
    read_content: Callable[[SpanKind, SpanData], Content]
    read_parameters: Callable[[Attributes], Mapping[str, object]] = lambda _: {}  # those in no table

    def operation_of(self, attributes: Attributes) -> SpanOperation | None:
        """What the span states about itself in this dialect; None if it does not speak it."""
        for name in self.kind_attributes:
            value = attributes.get(name)
            if isinstance(value, str):
                return self.operations.get(value, OTHER)
        return None


# The names of the conventions for providers that instrumentations name otherwise, in lower case.
PROVIDERS: Mapping[str, str] = {
    "aws": "aws.bedrock",
    "bedrock": "aws.bedrock",
    "azure": "azure.ai.openai",
    "az.ai.inference": "azure.ai.inference",
    "az.ai.openai": "azure.ai.openai",
    "gemini": "gcp.gemini",
    "google": "gcp.gen_ai",
    "google_genai": "gcp.gen_ai",
    "mistralai": "mistral_ai",
    "vertexai": "gcp.vertex_ai",
    "vertex_ai": "gcp.vertex_ai",
    "xai": "x_ai",
}


def first_set(attributes: Attributes, names: tuple[str, ...]) -> object:
    """The first of these attributes that is set, else None."""
    for name in names:
        value = attributes.get(name)
        if value is not None and value != "":
            return value
    return None
