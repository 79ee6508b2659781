"""The terminal events of a turn. Of all writers who end it, the first to claim its end decides (`claims`).

An outcome that arrives after the ending is a correction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from hashlib import blake2b

from longwatch.journal.claims import ending_id
from longwatch.journal.codec import encode_payload
from longwatch.model.endings import PROCESS_DIED, Ending, Status
from longwatch.model.event import Event, text_of
from longwatch.turns.events import EventMaker
from longwatch.turns.turn import TurnState
from longwatch.turns.verdict import TurnEvidence, judge

CORRECTED = "turn_corrected"

TYPES: Mapping[Status, str] = {  # of terminal events; other statuses are turn_failed, with a `status`
    Status.SUCCEEDED: "turn_completed",
    Status.CANCELLED: "turn_cancelled",
}


def ending_event(maker: EventMaker, turn_id: str, type_: str, at: int, said: Mapping[str, object]) -> Event:
    """The terminal event of a turn."""
    return maker.event(turn_id, ending_id(turn_id), type_, at, said)


def judged_event(maker: EventMaker, turn_id: str, at: int, evidence: TurnEvidence) -> Event:
    """The terminal event that the evidence makes."""
    verdict, report = judge(evidence), evidence.report
    said = {**(report.fields if report is not None else {}), **evidence.details}
    said.pop("error_message", None)
    type_ = TYPES.get(verdict.status, "turn_failed")
    if type_ == "turn_failed" and verdict.status is not Status.FAILED:
        said["status"] = verdict.status.value
    if verdict.reason is not None:
        said["error_message"] = verdict.reason
    if report is None:
        said["written_for"] = True
    return ending_event(maker, turn_id, type_, at, said)


def dead_event(maker: EventMaker, state: TurnState, at: int, message: str) -> Event:
    """The terminal event of a turn whose executor died, as a process beside the executor reports it."""
    said = {
        "status": Status.DIED.value,
        "written_for": True,
        "error_code": PROCESS_DIED,
        "error_message": message,
        "not_before": state.last_updated or at,
        "not_after": at,
        "exit_observed": False,
    }
    return ending_event(maker, state.turn_id, "workflow_error", at, said)


def correction_of(first: Ending, later: Event) -> Event | None:
    """The correction that a later terminal event makes of the first ending; None if it adds nothing.

    An agent that was cancelled fails because of that, so only its success is news. A later "cancelled" or
    "unknown" says nothing of the work.
    """
    stated = Ending.of(later)
    if stated is None or stated.status in (first.status, Status.CANCELLED, Status.UNKNOWN):
        return None
    if first.status is Status.CANCELLED and stated.status is not Status.SUCCEEDED:
        return None
    payload = {**later.payload, "status": stated.status.value, "corrects": first.order[3]}
    name = f"{stated.status}\0{text_of(later.payload, 'error_message')}"
    digest = blake2b(name.encode(errors="surrogatepass"), digest_size=8).hexdigest()
    return replace(
        later,
        event_id=f"{later.run_id}-outcome-{digest}",
        type=CORRECTED,
        payload=payload,
        encoded=encode_payload(payload),
    )
