"""GraphQL types that derive from the views of the API, so that a response is defined once.

A value is the view itself, or the JSON of one: a message of the feed, a stored response.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from types import GenericAlias, NoneType, UnionType
from typing import Annotated, Any, Literal, NewType, Union, get_args, get_origin, get_type_hints

import strawberry
from strawberry.schema.config import StrawberryConfig
from strawberry.types.field import StrawberryField
from strawberry.types.scalar import ScalarDefinition

from longwatch.journal.views import StatusWord
from longwatch.model.json_schema import JsonSchema
from longwatch.turns.views import BlockType, TurnWord

Long = NewType("Long", int)
JSON = NewType("JSON", object)
Time = NewType("Time", str)

SCALARS: Mapping[object, ScalarDefinition] = {
    Long: strawberry.scalar(
        name="Long",
        description="A whole number of up to 53 bits, as a JSON number: epoch milliseconds, tokens.",
    ),
    JSON: strawberry.scalar(name="JSON", description="Any JSON value, without a selection of fields."),
    Time: strawberry.scalar(name="Time", description="ISO 8601 in UTC."),
}
ENUMS: Mapping[object, str] = {StatusWord: "Status", TurnWord: "TurnStatus", BlockType: "BlockType"}
RENAMED: Mapping[str, str] = {"RunLine": "Run", "TurnLine": "Turn", "ModelCallView": "Call"}

_types: dict[object, Any] = {}  # view, or the words of an enum → its GraphQL type


def read_field(source: object, name: str) -> Any:
    """A field of a view, or of its JSON. A field that the JSON leaves out is None."""
    return source.get(name) if isinstance(source, Mapping) else getattr(source, name, None)


CONFIG = StrawberryConfig(default_resolver=read_field, scalar_map=SCALARS)


def object_type(
    view: type, *, name: str | None = None, resolvers: type | None = None, without: Sequence[str] = ()
) -> Any:
    """The GraphQL type of a view. `resolvers` is a class with further fields.

    `without` names fields to omit.
    """
    if view in _types:
        return _types[view]
    hints = get_type_hints(view, include_extras=True)
    added = fields_of(resolvers) if resolvers is not None else {}
    omitted = {*without, *added}
    own = {each.name: _field(each, hints[each.name]) for each in fields(view) if each.name not in omitted}
    title = name or RENAMED.get(view.__name__) or view.__name__.removesuffix("View")
    _types[view] = new_type(title, {**own, **added}, description_of(view))
    return _types[view]


def fields_of(resolvers: type) -> dict[str, StrawberryField]:
    """The fields that a class declares."""
    return {name: each for name, each in vars(resolvers).items() if isinstance(each, StrawberryField)}


def new_type(name: str, declared: Mapping[str, StrawberryField], description: str) -> Any:
    """An object type with these fields."""
    annotations = {
        key: each.type_annotation.raw_annotation for key, each in declared.items() if each.type_annotation
    }
    made = type(name, (), {"__annotations__": annotations, "__module__": __name__, **declared})
    return strawberry.type(made, name=name, description=description)


def _field(declared: Field[Any], hint: Any) -> StrawberryField:
    """A field of a view. One that its JSON may leave out has the default of the view."""
    graphql_type, description = _type_of(hint)
    default = None if declared.default is MISSING else declared.default
    is_map = _is_map_of_views(hint)

    def resolve(root: Any) -> Any:
        found = read_field(root, declared.name)
        if is_map and found is not None:
            return [{"key": key, "value": value} for key, value in found.items()]
        return default if found is None else found

    made: StrawberryField = strawberry.field(
        resolver=resolve, graphql_type=graphql_type, description=description
    )
    return made


def _type_of(hint: Any) -> tuple[Any, str | None]:
    """The GraphQL type of a field's annotation, and its description."""
    if hint in ENUMS:
        return enum_type(ENUMS[hint], get_args(hint)), None
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        notes = [each for each in arguments[1:] if isinstance(each, JsonSchema)]
        description = next((each.description for each in notes if each.description), None)
        if any(each.is_time for each in notes):
            return Time, description
        inner, of_inner = _type_of(arguments[0])
        return inner, description or of_inner
    if origin in (Union, UnionType):
        kinds = [each for each in arguments if each is not NoneType]
        inner, description = _type_of(kinds[0])
        return (inner | None if NoneType in arguments else inner), description
    if origin is Literal:
        return str, "One of " + ", ".join(f"`{each}`" for each in arguments) + "."
    if origin in (list, Sequence, tuple):
        inner, description = _type_of(arguments[0])
        return list_of(inner), description
    if origin in (dict, Mapping):
        return (entries_of(arguments[1]) if is_dataclass(arguments[1]) else JSON), None
    if is_dataclass(hint) and isinstance(hint, type):
        return object_type(hint), None
    plain: Mapping[Any, Any] = {str: str, bool: bool, float: float, int: Long}
    return plain.get(hint, JSON), None


def _is_map_of_views(hint: Any) -> bool:
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    return get_origin(hint) in (dict, Mapping) and is_dataclass(get_args(hint)[1])


def list_of(of: Any) -> Any:
    """A list whose items have this type."""
    return GenericAlias(list, (of,))


def enum_type(name: str, words: Sequence[str]) -> Any:
    """The enum with these words."""
    if name not in _types:
        members: Any = Enum(name, {word: word for word in words})  # type: ignore[misc]
        _types[name] = strawberry.enum(members, name=name)
    return _types[name]


def entries_of(view: Any) -> Any:
    """The type of a map from names to views."""
    return list_of(_entry_type(view))


def _entry_type(view: Any) -> Any:
    """An entry of a map whose values are views: GraphQL has no maps."""
    of = object_type(view)
    name = f"{of.__name__}Entry"
    if name not in _types:
        declared = {"key": plain_field(str), "value": plain_field(of)}
        _types[name] = new_type(name, declared, "An entry of a map.")
    return _types[name]


def plain_field(graphql_type: Any, description: str | None = None) -> StrawberryField:
    """A field that is read from its source."""
    made: StrawberryField = strawberry.field(graphql_type=graphql_type, description=description)
    return made


def description_of(view: object) -> str:
    first, _, _ = (view.__doc__ or "").strip().partition("\n\n")
    return " ".join(first.split())


ENUM_OF_STATUS = enum_type(ENUMS[StatusWord], get_args(StatusWord))
