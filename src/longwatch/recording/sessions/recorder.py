"""Writes the journal of one session: each status is stored durably before the call returns.

Unlike the recorder of workflows it queues nothing. A Lambda or an agent's container can end at any moment,
and the statuses that the state machine waits for must be stored before that.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cache

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.errors import InvalidEvent, InvalidSettings, WorthAnotherTry
from longwatch.journal.base import Journal
from longwatch.journal.codec import to_line
from longwatch.journal.factory import open_journal
from longwatch.model.event import Event, new_event_id
from longwatch.recording.capture import FULL, capture_fields, error_text
from longwatch.recording.producers import clean_payload
from longwatch.recording.redaction import redact_text
from longwatch.recording.secret_names import SecretNames
from longwatch.settings import Settings, load_settings

_TASK = re.compile(r"TASK_[A-Za-z0-9_-]{1,50}_(?:STARTED|COMPLETED|FAILED)")


class SessionStatus(StrEnum):
    """The statuses of a session. A phase of the agent's own work has a `task_status`."""

    SESSION_INITIATED = "SESSION_INITIATED"
    AGENT_INVOCATION_STARTED = "AGENT_INVOCATION_STARTED"
    AGENT_INVOCATION_SUCCEEDED = "AGENT_INVOCATION_SUCCEEDED"
    AGENT_INVOCATION_FAILED = "AGENT_INVOCATION_FAILED"
    AGENT_ENTRYPOINT_STARTED = "AGENT_ENTRYPOINT_STARTED"
    AGENT_ENTRYPOINT_FAILED = "AGENT_ENTRYPOINT_FAILED"
    AGENT_BACKGROUND_TASK_STARTED = "AGENT_BACKGROUND_TASK_STARTED"
    AGENT_BACKGROUND_TASK_COMPLETED = "AGENT_BACKGROUND_TASK_COMPLETED"
    AGENT_BACKGROUND_TASK_FAILED = "AGENT_BACKGROUND_TASK_FAILED"
    SESSION_SUCCEEDED = "SESSION_SUCCEEDED"  # the state machine ends with one of these three
    SESSION_FAILED = "SESSION_FAILED"
    SESSION_UNCONFIRMED = "SESSION_UNCONFIRMED"


class TaskState(StrEnum):
    """The state of a phase of the agent's work."""

    STARTED = "STARTED"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


def task_status(phase: str, state: TaskState) -> str:
    """The status of one phase, such as `TASK_indexing_STARTED`."""
    return validate_status(f"TASK_{phase}_{TaskState(state)}")


def validate_status(status: str) -> str:
    """The status, or `InvalidEvent`."""
    if status in SessionStatus.__members__ or _TASK.fullmatch(status):
        return str(status)
    raise InvalidEvent(
        f"Invalid session status {status!r}. Use one of {', '.join(SessionStatus)}, or "
        "TASK_{phase}_STARTED, _COMPLETED or _FAILED with a phase of 1 to 50 letters, digits, '_' and '-'."
    )


def is_failure_status(status: str) -> bool:
    """Whether the record of this status has an ErrorMessage."""
    return status.endswith("_FAILED") or status == SessionStatus.SESSION_UNCONFIRMED


log = logging.getLogger("longwatch")

TABLE_VARIABLE = "LONGWATCH_TABLE_NAME"
REGION_VARIABLE = "LONGWATCH_REGION"
JOURNAL_VARIABLE = "LONGWATCH_JOURNAL"  # another journal than the table, such as a SQLite file
SESSION_VARIABLE = "LONGWATCH_SESSION_ID"
EXECUTION_VARIABLE = "LONGWATCH_EXECUTION"

QUICK_RETRIES = (0.2, 1.0, 3.0)  # seconds
PATIENT_RETRIES = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)  # for an ending: without it the session stays unconfirmed


class SessionRecorder:
    """The journal of one session, for one execution of the state machine."""

    def __init__(
        self,
        journal: Journal,
        session_id: str,
        *,
        execution: str | None = None,
        clock: Clock = SYSTEM_CLOCK,
        settings: Settings | None = None,
    ) -> None:
        if not session_id:
            raise InvalidEvent("The session has no id. Pass session_id in the payload of the invocation.")
        self.journal = journal
        self.session_id = session_id
        self.execution = execution  # only events of its own execution count for the state machine
        settings = settings or _settings_or_defaults()
        self._secrets = SecretNames(settings.redact_keys)
        self._max_payload_bytes = settings.max_payload_bytes
        self._clock = clock
        self._lock = threading.Lock()
        self._last_ms = 0

    def record(
        self,
        status: str,
        *,
        error: BaseException | str | None = None,
        retries: Sequence[float] = QUICK_RETRIES,
        **payload: object,
    ) -> Event:
        """Store one status. Raises `InvalidEvent` for an invalid one, and what the journal raises."""
        event = self._event(validate_status(status), error, payload)
        self._append(event, retries)
        return event

    def try_record(
        self,
        status: str,
        *,
        error: BaseException | str | None = None,
        retries: Sequence[float] = QUICK_RETRIES,
        **payload: object,
    ) -> bool:
        """Store one status without raising. If that fails, the log has the whole event."""
        try:
            event = self._event(validate_status(status), error, payload)
        except Exception as problem:  # noqa: BLE001 - recording never breaks the observed code
            log.warning("longwatch: %r of session %r is not journaled: %s", status, self.session_id, problem)
            return False
        try:
            self._append(event, retries)
        except Exception as problem:  # noqa: BLE001 - recording never breaks the observed code
            log.error("longwatch: cannot journal %s: %s. The event: %s", status, problem, to_line(event))
            return False
        return True

    def _append(self, event: Event, retries: Sequence[float]) -> None:
        for seconds in retries:
            try:
                self.journal.append([event])
            except WorthAnotherTry as problem:
                log.warning(
                    "longwatch: cannot journal %s, next try in %.1f s: %s", event.type, seconds, problem
                )
                self._clock.sleep(seconds)
            else:
                return
        self.journal.append([event])

    def _event(self, status: str, error: BaseException | str | None, payload: Mapping[str, object]) -> Event:
        """The event, redacted and truncated except for `execution`, which the state machine compares."""
        given = dict(payload)
        if error is not None:
            given["error_message"] = error if isinstance(error, str) else failure_text(error)
        elif is_failure_status(status) and not given.get("error_message"):
            given["error_message"] = "no message"
        copy, weight = capture_fields(given, FULL, self._secrets)
        fixed = {} if self.execution is None else {"execution": self.execution}
        fields, text = clean_payload(copy, self._max_payload_bytes, weight, fixed)
        at = self._next_ms()
        return Event(
            run_id=self.session_id,
            event_id=new_event_id(at),
            type=status,
            occurred_at=at,
            payload=fields,
            encoded=text,
        )

    def _next_ms(self) -> int:
        """The current millisecond, but never the same one twice, so that later events are read later."""
        with self._lock:
            self._last_ms = max(self._clock.now_ms(), self._last_ms + 1)
            return self._last_ms


def failure_text(error: BaseException) -> str:
    """The class and message of an exception; for an error of an AWS service, its code and message."""
    response = getattr(error, "response", None)
    details = response.get("Error") if isinstance(response, Mapping) else None
    if isinstance(details, Mapping) and details.get("Code"):
        return redact_text(
            f"{type(error).__name__}: {details['Code']}: {details.get('Message') or 'no message'}"
        )
    return redact_text(error_text(error))


def _settings_or_defaults() -> Settings:
    """The settings of this process. Invalid settings are reported where the journal is opened."""
    try:
        return load_settings()
    except InvalidSettings:
        return Settings(journal="")


def open_session_journal(environment: Mapping[str, str] = os.environ) -> Journal:
    """The journal that the environment names: a table in layout `session`, or another URL.

    Each one is opened once, so that a warm Lambda keeps its connection.
    """
    url = environment.get(JOURNAL_VARIABLE) or "dynamodb://?layout=session"
    return _open_once(url, environment.get(TABLE_VARIABLE), environment.get(REGION_VARIABLE))


@cache
def _open_once(url: str, table: str | None, region: str | None) -> Journal:
    given = {TABLE_VARIABLE: table, REGION_VARIABLE: region}
    named = {name: value for name, value in given.items() if value}
    return open_journal(url, settings=load_settings(environment={**os.environ, **named}))
