"""What an operation may cost: its depth, and how many fields its response may have.

The cost is known before anything is read: a field costs 1, one that reads a store 10, and a page of a list as
much as its fields times its size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from graphql import (
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLError,
    GraphQLInterfaceType,
    GraphQLObjectType,
    GraphQLSchema,
    InlineFragmentNode,
    IntValueNode,
    OperationDefinitionNode,
    SelectionSetNode,
    VariableNode,
    get_named_type,
)
from graphql.language import DocumentNode
from strawberry.extensions import MaxTokensLimiter, SchemaExtension
from strawberry.schema.schema import validate_document

from longwatch.server.graphql.fields import COST

MAX_DEPTH = 12  # of fields in fields
MAX_COST = 10_000  # some tenths of a second of CPU, during which the event loop does nothing else
MAX_TOKENS = 2_000  # of a document, which limits the time of its validation
PAGE_SIZE = "first"


def token_limit() -> MaxTokensLimiter:
    """Rejects a document with more tokens."""
    return MaxTokensLimiter(max_token_count=MAX_TOKENS)


@dataclass(frozen=True, slots=True)
class Measured:
    """The depth and the cost of an operation."""

    depth: int
    cost: int


def measure(
    schema: GraphQLSchema,
    document: DocumentNode,
    operation: OperationDefinitionNode,
    variables: Mapping[str, Any],
) -> Measured:
    """Measure a valid operation. Introspection counts nothing: a rule of GraphQL limits it."""
    root = schema.get_root_type(operation.operation)
    fragments = {
        each.name.value: each for each in document.definitions if isinstance(each, FragmentDefinitionNode)
    }
    if root is None:
        return Measured(0, 0)
    defaults = {
        each.variable.name.value: _number(each.default_value, {})
        for each in operation.variable_definitions or ()
        if each.default_value is not None
    }
    meter = _Meter(schema, fragments, {**defaults, **variables})
    return meter.measure(operation.selection_set, root)


class _Meter:
    def __init__(
        self,
        schema: GraphQLSchema,
        fragments: Mapping[str, FragmentDefinitionNode],
        variables: Mapping[str, Any],
    ) -> None:
        self._schema = schema
        self._fragments = fragments
        self._variables = variables
        self._of_fragments: dict[str, Measured] = {}

    def measure(self, selections: SelectionSetNode, parent: Any) -> Measured:
        depth = cost = 0
        for found in self._each(selections, parent):
            depth, cost = max(depth, found.depth), cost + found.cost
        return Measured(depth, cost)

    def _each(self, selections: SelectionSetNode, parent: Any) -> Iterator[Measured]:
        for node in selections.selections:
            if isinstance(node, FieldNode):
                yield self._of_field(node, parent)
            elif isinstance(node, InlineFragmentNode):
                condition = node.type_condition
                inner = self._schema.get_type(condition.name.value) if condition is not None else parent
                yield self.measure(node.selection_set, inner)
            elif isinstance(node, FragmentSpreadNode):
                yield self._of_fragment(node.name.value)

    def _of_fragment(self, name: str) -> Measured:
        """Measured once however often it is spread; a valid document has no cycles."""
        if name not in self._of_fragments:
            fragment = self._fragments[name]
            inner = self._schema.get_type(fragment.type_condition.name.value)
            self._of_fragments[name] = self.measure(fragment.selection_set, inner)
        return self._of_fragments[name]

    def _of_field(self, node: FieldNode, parent: Any) -> Measured:
        name = node.name.value
        if name.startswith("__") or not isinstance(parent, GraphQLObjectType | GraphQLInterfaceType):
            return Measured(0, 0)
        field = parent.fields[name]
        declared = field.extensions.get("strawberry-definition")
        own = declared.metadata.get(COST, 1) if declared is not None else 1
        if node.selection_set is None:
            return Measured(1, own)
        inner = self.measure(node.selection_set, get_named_type(field.type))
        times = 1
        if PAGE_SIZE in field.args:
            given = next((each.value for each in node.arguments or () if each.name.value == PAGE_SIZE), None)
            default = field.args[PAGE_SIZE].default_value
            times = _number(given, self._variables) or (default if isinstance(default, int) else 1)
        return Measured(1 + inner.depth, own + times * inner.cost)


def _number(node: object, variables: Mapping[str, Any]) -> int:
    """The value of an argument; 0 if it has none, or one that execution will reject."""
    value: object = None
    if isinstance(node, IntValueNode):
        value = int(node.value) if len(node.value) < 10 else 0
    elif isinstance(node, VariableNode):
        value = variables.get(node.name.value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


class CostLimit(SchemaExtension):
    """Rejects an operation that is too deep or too expensive, before anything is read."""

    def on_validate(self) -> Iterator[None]:
        context = self.execution_context
        document, schema = context.graphql_document, context.schema._schema
        if document is not None and context.pre_execution_errors is None:
            # Only a valid operation can be measured, and the library does not validate it again.
            errors = validate_document(schema, document, context.validation_rules)
            operation = find_operation(document, context.operation_name)
            if not errors and operation is not None:
                errors = too_much(measure(schema, document, operation, context.variables or {}))
            context.pre_execution_errors = errors
        yield


def find_operation(document: DocumentNode, name: str | None) -> OperationDefinitionNode | None:
    """The operation to execute; None if the name is wrong, or missing and there are several."""
    found = [each for each in document.definitions if isinstance(each, OperationDefinitionNode)]
    if name is not None:
        found = [each for each in found if each.name is not None and each.name.value == name]
    return found[0] if len(found) == 1 else None


def too_much(found: Measured) -> list[GraphQLError]:
    """The errors of an operation that exceeds a limit."""
    errors: list[GraphQLError] = []
    if found.depth > MAX_DEPTH:
        text = f"The operation is {found.depth} fields deep. The maximum is {MAX_DEPTH}."
        extensions = {"code": "too_deep", "status": 400, "depth": found.depth, "maximum": MAX_DEPTH}
        errors.append(GraphQLError(text, extensions=extensions))
    if found.cost > MAX_COST:
        text = (
            f"The operation costs {found.cost}. The maximum is {MAX_COST}. Select fewer fields, or smaller "
            "pages with `first`."
        )
        extensions = {"code": "too_expensive", "status": 400, "cost": found.cost, "maximum": MAX_COST}
        errors.append(GraphQLError(text, extensions=extensions))
    return errors
