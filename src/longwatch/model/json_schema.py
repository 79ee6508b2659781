"""JSON Schema for the dataclasses that commands and the API return, without a dependency on pydantic."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

V = TypeVar("V")

# `__pydantic_config__` of a class. One without it inherits that of the class whose field it is.
STRICT = {"extra": "forbid"}  # `additionalProperties: false`
OPEN = {"extra": "ignore"}


class JsonSchema:
    """Keywords for the schema of a field: `Annotated[int | None, JsonSchema("Null while it is open.")]`.

    Attribute docstrings would do for a description, but pydantic does not find those of a base class.
    """

    def __init__(self, description: str | None = None, **keywords: object) -> None:
        self._keywords = keywords if description is None else {**keywords, "description": description}

    @property
    def description(self) -> str | None:
        found = self._keywords.get("description")
        return found if isinstance(found, str) else None

    @property
    def is_time(self) -> bool:
        return self._keywords.get("format") == "date-time"

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> dict[str, Any]:
        """Add the keywords to what pydantic derives from the type."""
        return {**handler(core_schema), **self._keywords}


Time = Annotated[str, JsonSchema(format="date-time")]  # ISO 8601 in UTC


def leave_out_empty(view: V, field: str) -> V:
    """Leave a field out of the JSON of a view if it is empty. The view keeps the default of its class."""
    if not getattr(view, field):
        del vars(view)[field]
    return view
