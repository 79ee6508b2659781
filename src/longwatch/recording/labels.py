"""The fields of an event that state the labels of its run: tags, user and session."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from longwatch.recording.calls import report_fault


def label_fields(
    tags: Iterable[str] = (), *, user: str | None = None, session: str | None = None
) -> dict[str, Any]:
    """These labels as fields of a payload, without those that are empty. Never raises."""
    fields: dict[str, Any] = {}
    try:
        given = [tags] if isinstance(tags, str) else list(tags)
        if found := [text for each in given if (text := str(each).strip())]:
            fields["tags"] = found
        stated = {"user": user, "session": session}
        fields |= {name: text for name, value in stated.items() if value is not None and (text := str(value))}
    except Exception as error:  # noqa: BLE001 - recording never breaks the observed code
        report_fault(error)
    return fields
