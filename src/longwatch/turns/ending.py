"""The one ending of a turn: of all writers who end it, the first to claim its end decides.

Writers claim the end with an event of one id at one time, that of the turn's creation, where every journal
notices a second claim. The claim holds the terminal event, which has a fixed id too and bears the true time.
The loser of a race stores the winner's terminal event, so a writer that dies after its claim leaves no turn
undecided. An outcome that arrives after the ending is a correction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from hashlib import blake2b

from longwatch.events import Event, number_of, text_of
from longwatch.journal.codec import encode_payload
from longwatch.model.endings import PROCESS_DIED, Ending, Status
from longwatch.turns.state import TurnState
from longwatch.turns.storing import EventMaker
from longwatch.turns.verdict import Evidence, judge

END_CLAIMED = "turn_end_claimed"
CORRECTED = "turn_corrected"

TYPES: Mapping[Status, str] = {  # of terminal events; other statuses are turn_failed, with a `status`
    Status.SUCCEEDED: "turn_completed",
    Status.CANCELLED: "turn_cancelled",
}


def ending_id(turn_id: str) -> str:
    """The id of a turn's terminal event, the same for every writer. It sorts after the ids of its lines."""
    return f"{turn_id}-ended"


def ending_event(maker: EventMaker, turn_id: str, type_: str, at: int, said: Mapping[str, object]) -> Event:
    """The terminal event of a turn."""
    return maker.event(turn_id, ending_id(turn_id), type_, at, said)


def judged_event(maker: EventMaker, turn_id: str, at: int, evidence: Evidence) -> Event:
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


def end_claim(terminal: Event, created_at: int) -> Event:
    """The claim of the end of a turn that was created at this time."""
    payload = {
        "ends_as": terminal.type,
        "ended_at": terminal.occurred_at,
        "ending": dict(terminal.payload),
    }
    return replace(
        terminal,
        event_id=f"{terminal.run_id}-00-ending",
        type=END_CLAIMED,
        occurred_at=created_at,
        payload=payload,
        encoded=encode_payload(payload),
    )


def claimed_ending(claim: Event) -> Event:
    """The terminal event that a claim holds. The same for every reader of the claim."""
    payload = claim.payload["ending"]
    assert isinstance(payload, dict)
    return replace(
        claim,
        event_id=ending_id(claim.run_id),
        type=str(claim.payload["ends_as"]),
        occurred_at=int(number_of(claim.payload, "ended_at") or 0),
        payload=payload,
        encoded=encode_payload(payload),
    )


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
