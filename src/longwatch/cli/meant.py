"""Which execution a command means: `plan/execution`, an id, the beginning of either, or `latest`."""

from __future__ import annotations

from longwatch.cli.journals import MOST_CANDIDATES, NEWEST
from longwatch.errors import ExecutionNotFound, InvalidInput
from longwatch.executions.model import Execution
from longwatch.executions.stores.base import ExecutionStore, resolve

LOOKED_THROUGH = 1_000  # of the newest executions, for the beginning of an id


def meant(store: ExecutionStore, wanted: str) -> Execution:
    """The execution that was meant."""
    found = resolve(store, wanted) if wanted not in ("", "-") else None
    if found is not None:
        return found
    if wanted in NEWEST:
        newest = store.find(limit=1)
        if newest:
            return newest[0]
        raise ExecutionNotFound("There are no executions here yet. Add one: longwatch executions add --help")
    newest = store.find(limit=LOOKED_THROUGH) if wanted else []
    candidates = [
        each for each in newest if each.execution_id.startswith(wanted) or str(each.key).startswith(wanted)
    ]
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        names = ", ".join(str(each.key) for each in candidates[:MOST_CANDIDATES])
        more = ", …" if len(candidates) > MOST_CANDIDATES else ""
        raise InvalidInput(f"{wanted!r} could be any of {names}{more}. Write more of the id.")
    raise ExecutionNotFound(f"There is no execution {wanted!r} here. List them: longwatch executions list")
