"""One call of a run with its content, as `longwatch show RUN CALL` returns it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from longwatch.journal.codec import to_line
from longwatch.journal.views import call_fields
from longwatch.model.call_lookup import attempts_of
from longwatch.model.call_tree import TOP, CallTree
from longwatch.model.calls import Call
from longwatch.model.event import Event
from longwatch.model.preview import INPUTS, MODEL_INPUTS, OUTPUTS
from longwatch.model.prices import NO_PRICES, Prices
from longwatch.model.run import Run


@dataclass(frozen=True, kw_only=True)
class CallDetails:
    """A call, its arguments and result, its caller, the calls in it, and the attempts of the same call."""

    run_id: str
    call: Mapping[str, Any]  # as in the list of calls
    parameters: Any  # of a call of a model
    input: Any
    output: Any
    traceback: str | None
    parent: Mapping[str, Any] | None
    children: Sequence[Mapping[str, Any]]
    attempts: Sequence[Mapping[str, Any]]  # the first one first; this call alone if it was tried once
    events: Sequence[Mapping[str, Any]]  # as `longwatch export` writes them

    @classmethod
    def of(cls, run: Run, call: Call, events: Iterable[Event], *, prices: Prices = NO_PRICES) -> CallDetails:
        """The details of a call, from its own events."""
        tree = CallTree.of(run.calls.values())
        index = next(at for at, each in enumerate(tree.calls) if each.call_id == call.call_id)
        has_ended = run.summary.ending is not None
        caller = tree.callers[index]

        def view(at: int) -> Mapping[str, Any]:
            return call_fields(tree.calls[at], run_has_ended=has_ended, prices=prices)

        wire = [json.loads(to_line(event)) for event in sorted(events, key=lambda event: event.order)]
        payloads = [_payload(event) for event in wire]
        is_model = call.kind == "model"
        return cls(
            run_id=run.run_id,
            call=view(index),
            parameters=_first(payloads, ("parameters",)) if is_model else None,
            input=_first(payloads, MODEL_INPUTS if is_model else INPUTS),
            output=_first(payloads[::-1], OUTPUTS) if call.end is not None else None,
            traceback=_first(payloads[::-1], ("traceback",)),
            parent=view(caller) if caller != TOP else None,
            children=[view(at) for at in tree.children.get(index, ())],
            attempts=[view(at) for at in attempts_of(tree, index)],
            events=wire,
        )


def event_ids_of(call: Call) -> set[str]:
    """The IDs of the events that start and end the call."""
    return {mark.order[3] for mark in (call.start, call.end) if mark is not None}


def _payload(event: Mapping[str, Any]) -> Mapping[str, Any]:
    payload = event["payload"]
    return payload["$map"] if set(payload) == {"$map"} else payload  # type: ignore[no-any-return]


def _first(payloads: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Any:
    values = (payload.get(name) for payload in payloads for name in names)
    return next((value for value in values if value is not None), None)
