"""How a turn ended, from all the evidence: the agent's report, and what was observed of its process.

A turn succeeded only if the agent reported success and nothing contradicts the report. `VERDICTS` has the
status of every combination, and `judge` adds the reason. Of all writers that end a turn, the first to claim
its end decides (`journal.claims`); an outcome that arrives after the ending becomes a correction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import blake2b

from longwatch.journal.claims import ending_id
from longwatch.journal.codec import encode_payload
from longwatch.model.endings import PROCESS_DIED, Ending, Status
from longwatch.model.event import Event, error_of, number_of, text_of
from longwatch.turns.dialects.messages import AgentReport, Reported
from longwatch.turns.events import EventMaker
from longwatch.turns.turn import TurnState

CORRECTED = "turn_corrected"
TYPES: Mapping[Status, str] = {  # of terminal events; other statuses are turn_failed, with a `status`
    Status.SUCCEEDED: "turn_completed",
    Status.CANCELLED: "turn_cancelled",
}


class ProcessEnd(StrEnum):
    """The state of the agent's process when the turn ended."""

    CLEAN = "exit code 0"
    ERROR = "another exit code"
    SIGNAL = "ended by a signal"
    RUNNING = "still running"
    STOPPED = "stopped before a report"  # by a signal to the executor
    UNOBSERVED = "not observed"


_S, _P, _F, _C, _U = Status.SUCCEEDED, Status.PARTIAL, Status.FAILED, Status.CANCELLED, Status.UNKNOWN

# These decide the verdict whatever the agent reported.
_DECIDING = frozenset({ProcessEnd.ERROR, ProcessEnd.SIGNAL, ProcessEnd.STOPPED})

_COLUMNS = tuple(ProcessEnd)
_ROWS: Mapping[Reported | None, tuple[Status, ...]] = {  # the agent's report -> a status for each process end
    Reported.SUCCESS: (_S, _F, _F, _S, _C, _S),
    Reported.LIMITED: (_P, _F, _F, _P, _C, _P),
    Reported.DENIED: (_P, _F, _F, _P, _C, _P),
    Reported.UNCLEAR: (_U, _F, _F, _U, _C, _U),
    Reported.FAILURE: (_F, _F, _F, _F, _C, _F),
    None: (_U, _F, _F, _U, _C, _U),
}
VERDICTS: Mapping[tuple[Reported | None, ProcessEnd], Status] = {
    (reported, end): status
    for reported, statuses in _ROWS.items()
    for end, status in zip(_COLUMNS, statuses, strict=True)
}


@dataclass(frozen=True, slots=True)
class TurnEvidence:
    """The evidence for the verdict on a turn."""

    report: AgentReport | None = None  # of the agent
    process: ProcessEnd = ProcessEnd.UNOBSERVED
    process_description: str | None = None  # such as "exit code 3: no such file"
    details: Mapping[str, object] = field(default_factory=dict)  # stored with the ending


@dataclass(frozen=True, slots=True)
class TurnVerdict:
    """How a turn ended, and the reason unless it succeeded."""

    status: Status
    reason: str | None = None


def judge(evidence: TurnEvidence) -> TurnVerdict:
    """The status of a turn, and the reason unless it succeeded."""
    report = evidence.report
    status = VERDICTS[report.reported if report is not None else None, evidence.process]
    return TurnVerdict(status, None if status is Status.SUCCEEDED else _reason(evidence))


def _reason(evidence: TurnEvidence) -> str:
    report, description = evidence.report, evidence.process_description or evidence.process.value
    contradicts = evidence.process in _DECIDING
    if report is None:
        return description if contradicts else f"the agent reported no result ({description})"
    if not contradicts:
        return report.reason or report.reported.value
    if report.reported is Reported.FAILURE:
        return (
            f"{report.reason} ({description})"
            if evidence.process is ProcessEnd.STOPPED
            else str(report.reason)
        )
    return f"{report.reason or 'the agent reported success'}; then {description}"


def evidence_of(type_: str, fields: Mapping[str, object], report: AgentReport | None) -> TurnEvidence:
    """The evidence in an ending that an executor or a client states, with the agent's report.

    A stated failure and an error text always count against success. A stated success counts only without
    information about the process: with an exit code or a leftover process, the agent's report decides.
    """
    process, description = _process_end(type_, fields)
    if process not in _DECIDING:
        report = pick_worse(report, _stated_outcome(type_, fields, process, report))
    return TurnEvidence(report, process, description, fields)


def _stated_outcome(
    type_: str, fields: Mapping[str, object], process: ProcessEnd, report: AgentReport | None
) -> AgentReport | None:
    """The outcome that an ending states; None if it only describes the process."""
    message = error_of(fields)
    if type_ != "turn_completed" or message is not None:
        return AgentReport(Reported.FAILURE, message or "failed", report.fields if report is not None else {})
    return AgentReport(Reported.SUCCESS) if process is ProcessEnd.UNOBSERVED else None


def pick_worse(one: AgentReport | None, other: AgentReport | None) -> AgentReport | None:
    """The more severe of two reports; of equals, the first."""
    if one is None or other is None:
        return one or other
    return other if other.reported.severity > one.reported.severity else one


def _process_end(type_: str, fields: Mapping[str, object]) -> tuple[ProcessEnd, str | None]:
    message, code, signal = error_of(fields), number_of(fields, "exit_code"), text_of(fields, "signal")
    if type_ == "turn_cancelled":
        return ProcessEnd.STOPPED, message or "the executor stopped it"
    if signal is not None:
        return ProcessEnd.SIGNAL, message or f"ended by {signal}"
    if code:
        return ProcessEnd.ERROR, message or f"exit code {code:g}"
    if number_of(fields, "leftover_pid") is not None:
        return ProcessEnd.RUNNING, f"process {fields['leftover_pid']} is still running"
    if code is not None:
        return ProcessEnd.CLEAN, message or "exit code 0"
    return ProcessEnd.UNOBSERVED, message


def ending_event(maker: EventMaker, turn_id: str, type_: str, at: int, fields: Mapping[str, object]) -> Event:
    return maker.event(turn_id, ending_id(turn_id), type_, at, fields)


def verdict_event(maker: EventMaker, turn_id: str, at: int, evidence: TurnEvidence) -> Event:
    """The terminal event that follows from the evidence."""
    verdict, report = judge(evidence), evidence.report
    fields = {**(report.fields if report is not None else {}), **evidence.details}
    fields.pop("error_message", None)
    type_ = TYPES.get(verdict.status, "turn_failed")
    if type_ == "turn_failed" and verdict.status is not Status.FAILED:
        fields["status"] = verdict.status.value
    if verdict.reason is not None:
        fields["error_message"] = verdict.reason
    if report is None:
        fields["written_for"] = True
    return ending_event(maker, turn_id, type_, at, fields)


def died_event(maker: EventMaker, state: TurnState, at: int, message: str) -> Event:
    """The terminal event of a turn whose executor died, as reported by its watchdog."""
    fields = {
        "status": Status.DIED.value,
        "written_for": True,
        "error_code": PROCESS_DIED,
        "error_message": message,
        "not_before": state.last_updated or at,
        "not_after": at,
        "exit_observed": False,
    }
    return ending_event(maker, state.turn_id, "workflow_error", at, fields)


def correction_of(first: Ending, later: Event) -> Event | None:
    """The correction of the first ending by a later terminal event; None if it adds nothing.

    A cancelled agent fails because it was cancelled, so only its success is new. A later "cancelled" or
    "unknown" states nothing about the work.
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
