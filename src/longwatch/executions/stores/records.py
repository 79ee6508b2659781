"""Maps executions to records, and back. This module alone knows the attribute names of a record.

A record is a plain map. Times are epoch seconds; those of longwatch have milliseconds as decimals. Attributes
of other writers in a record, a wave or a server stay. A record without attributes of longwatch is valid: its
jobs have been started, and its waves are complete. A `TotalWaves` of null means that more may follow.

`Status` belongs to its last writer. longwatch replaces POLLING and its own statuses; any other value stays
verbatim. `PollState` states what pollers still have to do, independent of `Status`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from longwatch.clock import ms_from_iso
from longwatch.errors import InvalidInput
from longwatch.executions.model import (
    DEFAULT_DEADLINE_MS,
    OPERATOR_CLOSED,
    Evidence,
    Execution,
    ExecutionKey,
    Mode,
    Verdict,
)
from longwatch.executions.stores.stage_records import from_seconds, parse_wave, seconds, wave_record
from longwatch.model.summary import Status

POLLING = "POLLING"
STATUS_WORDS: Mapping[str, Status] = {
    POLLING: Status.RUNNING,
    "COMPLETED": Status.SUCCEEDED,
    "PARTIAL": Status.PARTIAL,
    "FAILED": Status.FAILED,
    "CANCELLED": Status.CANCELLED,
    "UNKNOWN": Status.UNKNOWN,
}
WORD_BY_STATUS = {status: word for word, status in STATUS_WORDS.items()}
POLL_STATE = "PollState"
OPEN = "OPEN"  # polled until the source reports an end
RECHECK = "RECHECK"  # closed, and its verdict is checked again at RecheckTime
ENDED = "ENDED"  # closed under a status of another writer, which no query by longwatch's statuses lists
WRITERS = ("StatusSetBy", "UpdatedBy", "LastModifiedBy", "ModifiedBy", "CancelledBy", "PausedBy")
KEY = ("ExecutionId", "PlanId")
OTHER_WRITER = "record:Status"  # the call that a verdict of another writer cites
NO_END_TIME = "the record has no end time: it ended after this time, at which it was last seen"
GUARDED = ("Version", "Status", "Waves")  # must be as they were read, or an update is rejected

# A program that replaces a record may drop Version and keep some of these.
_TRACES = ("LastPolledTime", "LastAnswerTime", "LastChangeTime", "NextPollTime", "Failures", "RunId")
_MOST_SECONDS = 100_000_000_000  # a number above this is one of milliseconds

Record = dict[str, Any]


def parse_record(record: Mapping[str, Any]) -> Execution:
    """Parse a record."""
    verdict = verdict_from(record)
    waves = tuple(parse_wave(wave, number) for number, wave in enumerate(record.get("Waves") or (), 1))
    deadline = record.get("Deadline", DEFAULT_DEADLINE_MS // 1000)
    key = ExecutionKey(str(record["PlanId"]), str(record["ExecutionId"]))
    return Execution(
        execution_id=key.execution_id,
        plan_id=key.plan_id,
        source=str(record.get("Source") or "drs"),
        mode=_mode(record.get("ExecutionType")),
        started_at=_start(record.get("StartTime")),
        stages=waves,
        total_stages=_whole(record["TotalWaves"]) if "TotalWaves" in record else len(waves) or None,
        deadline_ms=from_seconds(deadline),
        verdict=verdict,
        closed=_is_closed(record),
        other_status=_other_status(record),
        last_polled_at=from_seconds(record.get("LastPolledTime")),
        last_answer_at=from_seconds(record.get("LastAnswerTime")),
        last_change_at=from_seconds(record.get("LastChangeTime")),
        failures=_whole(record.get("Failures")) or 0,
        last_error=record.get("LastError"),
        next_poll_at=from_seconds(record.get("NextPollTime")),
        recheck_at=from_seconds(record.get("RecheckTime")),
        lease_holder=record.get("LeaseHolder"),
        lease_until=from_seconds(record.get("LeaseUntil")),
        version=_whole(record.get("Version")) or 0,
        name=record.get("Name"),
        own_run_id=_own_run_id(key, record),
        stored=record,
    )


def _own_run_id(key: ExecutionKey, record: Mapping[str, Any]) -> str | None:
    """The run id that is not the key's: the execution id, where longwatch wrote before it stored run ids."""
    run_id = str(record.get("RunId") or (key.execution_id if is_of_longwatch(record) else key.run_id))
    return None if run_id == key.run_id else run_id


def is_of_longwatch(record: Mapping[str, Any]) -> bool:
    """Whether longwatch has written this record. Other programs use `Version` too."""
    return bool(record.get("Version")) and "Failures" in record


def to_record(execution: Execution) -> Record:
    """The record of this execution: the one it was read from, with its changes."""
    read = execution.stored or {}
    record: Record = {**read, **_always(execution)}
    # A record without a wave count has as many as are stored, until an operator sets one.
    if not read or "TotalWaves" in read or execution.total_stages != (len(execution.stages) or None):
        record["TotalWaves"] = execution.total_stages
    optional = {
        "EndTime": _end_to_write(execution),
        "LeaseHolder": execution.lease_holder,
        "LeaseUntil": seconds(execution.lease_until),
        "LastPolledTime": seconds(execution.last_polled_at),
        "LastAnswerTime": seconds(execution.last_answer_at),
        "LastChangeTime": seconds(execution.last_change_at),
        "NextPollTime": seconds(execution.next_poll_at),
        "RecheckTime": seconds(execution.recheck_at),
        "LastError": execution.last_error,
        "Name": execution.name,
        "Verdict": _verdict_record(execution.verdict) if execution.verdict else None,
        POLL_STATE: _poll_state(execution),
    }
    for name, value in optional.items():
        if value is None:
            record.pop(name, None)
        else:
            record[name] = value
    return record


def changed_attributes(read: Mapping[str, Any], record: Record) -> Record:
    """The attributes of the record that are not as they were read."""
    return {name: value for name, value in record.items() if name not in read or read[name] != value}


def _always(execution: Execution) -> Record:
    read: Any = (execution.stored or {}).get("Waves") or ()
    return {
        "ExecutionId": execution.execution_id,
        "PlanId": execution.plan_id,
        "RunId": execution.run_id,
        "Status": _status_to_write(execution),
        "StartTime": (execution.stored or {}).get("StartTime", execution.started_at // 1000),
        "ExecutionType": _type_to_write(execution),
        "Source": execution.source,
        "Deadline": seconds(execution.deadline_ms),
        "Failures": execution.failures,
        "Version": execution.version,
        "Waves": [
            wave_record(
                wave, read[number] if number < len(read) else {}, execution.mode, execution.observed_at
            )
            for number, wave in enumerate(execution.stages)
        ],
    }


def _status_to_write(execution: Execution) -> Any:
    """The status that longwatch reports, or the one that another writer set.

    longwatch does not change the latter, unless an operator closes the execution.
    """
    record = execution.stored or {}
    if _has_status(record) and not _is_our_status(record) and not _is_being_closed(execution):
        return record["Status"]
    return WORD_BY_STATUS[execution.status] if execution.closed else POLLING


def _end_to_write(execution: Execution) -> Any:
    """When it ended, in epoch seconds. The end time of another writer belongs to the status beside it."""
    record = execution.stored or {}
    is_theirs = _has_status(record) and not _is_our_status(record) and not _is_being_closed(execution)
    if is_theirs and record.get("EndTime"):
        return record["EndTime"]
    return execution.verdict.at // 1000 if execution.verdict and execution.closed else None


def _type_to_write(execution: Execution) -> str:
    """The type as it was read, unless the mode has changed: a value of another writer stays."""
    read = (execution.stored or {}).get("ExecutionType")
    return str(read) if read and _mode(read) is execution.mode else execution.mode.value


def _is_being_closed(execution: Execution) -> bool:
    """Whether an operator closes it with this write. A status that is set later is not the operator's."""
    verdict = execution.verdict
    if verdict is None or verdict.evidence[0].call != OPERATOR_CLOSED:
        return False
    return verdict != own_verdict(execution)


def _has_status(record: Mapping[str, Any]) -> bool:
    """Whether a status is set. Another writer may have set one that is not text."""
    return record.get("Status") not in (None, "")


def _is_our_status(record: Mapping[str, Any]) -> bool:
    """Whether longwatch wrote the status: it equals that of its verdict."""
    if _word(record) == POLLING:
        return True
    stored = record.get("Verdict")
    ours = _parse_verdict(stored) if isinstance(stored, Mapping) else None
    if ours is None or WORD_BY_STATUS.get(ours.status) != record.get("Status"):
        return False
    return all(each.call != OTHER_WRITER for each in ours.evidence)


def _poll_state(execution: Execution) -> str | None:
    if not execution.closed:
        return OPEN
    if execution.recheck_at is not None:
        return RECHECK
    return ENDED if execution.verdict and str(_status_to_write(execution)) not in STATUS_WORDS else None


def _is_closed(record: Mapping[str, Any]) -> bool:
    """Whether nothing is left to poll. An unknown status closes no execution that longwatch has polled."""
    word = _word(record)
    if word in STATUS_WORDS:
        return word != POLLING
    if record.get(POLL_STATE) == OPEN:
        return False
    return "Verdict" in record or not _is_polled(record)


def _is_polled(record: Mapping[str, Any]) -> bool:
    """Whether longwatch has written to the record, though another program may have replaced it since."""
    return bool(_whole(record.get("Version"))) or any(name in record for name in _TRACES)


def _other_status(record: Mapping[str, Any]) -> str | None:
    return None if _word(record) in STATUS_WORDS or not _has_status(record) else str(record["Status"])


def status_writer(execution: Execution) -> str:
    """Who set the status, as far as the record says: other programs name themselves in various attributes."""
    record = execution.stored or {}
    named = [f"{record[name]} ({name})" for name in WRITERS if record.get(name)]
    return f"another writer: {', '.join(named)}" if named else "another writer"


def verdict_from(record: Mapping[str, Any]) -> Verdict | None:
    """The verdict in the record. A `Status` of another writer overrides a verdict of longwatch."""
    stored = record.get("Verdict")
    ours = _parse_verdict(stored) if isinstance(stored, Mapping) else None
    word = _word(record)
    status = STATUS_WORDS.get(word)
    if word == POLLING or status is None or (ours is not None and ours.status is status):
        return ours
    ended = _end(record)
    at = _last_seen(record) if ended is None else ended
    theirs = Verdict(
        status,
        at,
        (Evidence(OTHER_WRITER, at, {"Status": word}),),
        f"another writer: {word}",
        warnings=(NO_END_TIME,) if ended is None else (),
    )
    # A correction counts by its time, and `EndTime` is in whole seconds: it comes after what it corrects.
    return replace(theirs, corrects=ours.status, at=max(at, ours.at + 1)) if ours else theirs


def _end(record: Mapping[str, Any]) -> int | None:
    """The end time of another writer; None if it is absent or invalid."""
    try:
        return _start(record["EndTime"]) if record.get("EndTime") else None
    except (InvalidInput, ArithmeticError):
        return None


def _last_seen(record: Mapping[str, Any]) -> int:
    """The last time at which it was seen open, by the clock of its source if possible; else its start."""
    seen = from_seconds(record.get("LastAnswerTime")) or from_seconds(record.get("LastPolledTime"))
    return _start(record.get("StartTime")) if seen is None else seen


def is_set_by_others(execution: Execution) -> bool:
    """Whether another writer or an operator gave the verdict: no response of a source corrects it."""
    verdict = execution.verdict
    if verdict is None:
        return False
    return verdict.is_by_operator or any(each.call == OTHER_WRITER for each in verdict.evidence)


def own_verdict(execution: Execution) -> Verdict | None:
    """The verdict that longwatch wrote into the record, whatever another writer has written since."""
    stored = (execution.stored or {}).get("Verdict")
    return _parse_verdict(stored) if isinstance(stored, Mapping) else None


def is_unreported(execution: Execution) -> bool:
    """Whether another writer ended a polled execution, and the end is not in the journal yet."""
    if not execution.closed or execution.verdict is None or not _is_polled(execution.stored or {}):
        return False
    stored = (execution.stored or {}).get("Verdict")
    if (execution.stored or {}).get(POLL_STATE) == OPEN or execution.lease_holder is not None:
        return True  # a poller was about to append the end, and releases the lease after that
    return not (isinstance(stored, Mapping) and stored.get("Status") == execution.verdict.status.value)


def _parse_verdict(stored: Mapping[str, Any]) -> Verdict | None:
    """The verdict in a record; None for a status that this version does not have."""
    try:
        status = Status(stored["Status"])
        corrects = Status(stored["Corrects"]) if stored.get("Corrects") else None
    except (KeyError, ValueError):
        return None
    return Verdict(
        status=status,
        at=from_seconds(stored["Time"]) or 0,
        evidence=tuple(
            Evidence(each["Call"], from_seconds(each["Time"]) or 0, each.get("Fields") or {})
            for each in stored.get("Evidence") or ()
        ),
        message=stored.get("Message"),
        late=bool(stored.get("Late")),
        warnings=tuple(stored.get("Warnings") or ()),
        corrects=corrects,
        assumed=tuple(stored.get("Assumed") or ()),
    )


def _verdict_record(verdict: Verdict) -> Record:
    return {
        "Status": verdict.status.value,
        "Time": seconds(verdict.at),
        "Late": verdict.late,
        "Warnings": list(verdict.warnings),
        "Evidence": [
            {"Call": each.call, "Time": seconds(each.at), "Fields": dict(each.fields)}
            for each in verdict.evidence
        ],
        **({"Message": verdict.message} if verdict.message else {}),
        **({"Corrects": verdict.corrects.value} if verdict.corrects else {}),
        **({"Assumed": list(verdict.assumed)} if verdict.assumed else {}),
    }


def _word(record: Mapping[str, Any]) -> str:
    return str(record["Status"]).upper() if _has_status(record) else ""


def _mode(word: object) -> Mode:
    try:
        return Mode(str(word or Mode.DRILL).upper())
    except ValueError:
        return Mode.RECOVERY  # the stricter rule for an unknown type


def _start(value: object) -> int:
    """Whole milliseconds from seconds, from milliseconds or from ISO 8601: earlier phases wrote all three."""
    if isinstance(value, str) and not value.replace(".", "", 1).isdigit():
        try:
            return ms_from_iso(value)
        except ValueError as error:
            raise InvalidInput(f"Invalid StartTime {value!r}. Use epoch seconds.") from error
    number = Decimal(str(value or 0))
    return int(number) if number > _MOST_SECONDS else int(number * 1000)


def _whole(value: object) -> int | None:
    return None if value is None else int(str(value))
