"""Executions as the API and the feed tell them, and the tags by which a client knows what it has."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from longwatch.executions.cadence.cadence import LearnedCadence
from longwatch.executions.explain import explained
from longwatch.executions.model import Execution
from longwatch.executions.outcomes import wave_outcome
from longwatch.executions.views import NOT_YET, execution_line, execution_view
from longwatch.server.responses import weak_tag

LASTING = ("usual_low_ms", "usual_high_ms", "samples", "beyond_usual")  # of an ETA: these do not move on


def listed_execution(execution: Execution, *, now_ms: int, lessons: LearnedCadence | None) -> dict[str, Any]:
    """One line of the list, with how far each wave is."""
    return {
        **execution_line(execution, now_ms=now_ms, lessons=lessons),
        **_more(execution, now_ms),
    }


def shown_execution(execution: Execution, *, now_ms: int, lessons: LearnedCadence | None) -> dict[str, Any]:
    """Everything that is known of one execution, and why it stands as it does."""
    view = {
        **execution_view(execution, now_ms=now_ms, lessons=lessons),
        **_more(execution, now_ms),
        "explained": [
            {"about": fact.about, "text": fact.text, "at": fact.at}
            for fact in explained(execution, now_ms, lessons)
        ],
    }
    # Evidence may hold what another writer put into a table: values that JSON has no word for become text.
    plain: dict[str, Any] = json.loads(json.dumps(view, default=str), parse_constant=str)
    return plain


def execution_tag(view: Mapping[str, Any]) -> str:
    """The same as long as nothing has happened. That time passes is no change; that it is overdue is one."""
    eta = view["eta"]
    lasting = {
        **{name: value for name, value in view.items() if name not in ("explained", "eta", "conditions")},
        "eta": [eta[name] for name in LASTING] if eta else None,
        "conditions": [condition["name"] for condition in view["conditions"]],
    }
    return weak_tag(json.dumps(lasting, sort_keys=True, default=str))


def _more(execution: Execution, now_ms: int) -> dict[str, Any]:
    return {
        "closed": execution.closed,
        "message": execution.verdict.message if execution.verdict else None,
        "progress": _progress(execution, now_ms),
    }


def _progress(execution: Execution, now_ms: int) -> list[dict[str, Any]]:
    found = []
    for wave in execution.stages:
        outcome = wave_outcome(wave, execution.mode, execution.observed_at)
        states = Counter(server.state.value for server in wave.items())
        found.append(
            {
                "name": wave.name,
                "status": outcome.status.value if outcome else NOT_YET,
                "servers": states.total(),
                "states": dict(states),
            }
        )
    return found
