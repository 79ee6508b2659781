"""Stores the spans and log records of OTLP requests as events of runs."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from longwatch.errors import EventConflict, InvalidInput, MissingExtra, RunDeleted
from longwatch.journal.base import Journal
from longwatch.model.event import Event
from longwatch.recording.capture import CAPTURES
from longwatch.recording.secret_names import SecretNames
from longwatch.server.errors import ApiError
from longwatch.server.event_intake import EventIntake
from longwatch.settings import Settings
from longwatch.telemetry import otlp_json
from longwatch.telemetry.agent_logs import log_events
from longwatch.telemetry.event_builder import EventBuilder
from longwatch.telemetry.otlp import ExportBatch, LogRecord
from longwatch.telemetry.otlp_responses import JSON_TYPE, PROTOBUF_TYPE
from longwatch.telemetry.repeated_responses import RepeatedResponses
from longwatch.telemetry.span import SpanData
from longwatch.telemetry.span_runs import SpanRuns

APPENDED_AT_ONCE = 2_000  # events
NO_METRICS = "Metrics are not recorded. To send none, set OTEL_METRICS_EXPORTER=none."


@dataclass(frozen=True, slots=True)
class ExportOutcome:
    """What became of one request."""

    run_ids: frozenset[str]
    rejected: int = 0
    message: str = ""


class TelemetryIntake:
    """Stores each request durably before it is acknowledged. Threads may share it."""

    def __init__(self, journal: Journal, events: EventIntake, settings: Settings | None) -> None:
        self._journal = journal
        self._events = events
        self._builder = builder = EventBuilder(
            limits=CAPTURES[settings.capture if settings is not None else "summary"],
            secrets=SecretNames(settings.redact_keys if settings is not None else ()),
            ttl_seconds=lambda: journal.default_ttl_seconds,
        )
        self._repeated = RepeatedResponses(journal)
        self._spans = SpanRuns(builder, lambda run_id: journal.find_run(run_id) is not None)

    def store_traces(self, body: bytes, media_type: str, *, now_ms: int) -> ExportOutcome:
        """Store the spans of an `ExportTraceServiceRequest`."""
        batch: ExportBatch[SpanData] = _decode(media_type, "decode_traces", body)
        translated = self._spans.translate(batch.items)
        for reason in translated.invalid:
            batch.reject(reason)
        try:
            return self._store(translated.events, batch, now_ms)
        except BaseException:
            self._spans.restore(translated.events)
            raise

    def store_logs(self, body: bytes, media_type: str, *, now_ms: int) -> ExportOutcome:
        """Store the events in an `ExportLogsServiceRequest`."""
        batch: ExportBatch[LogRecord] = _decode(media_type, "decode_logs", body)
        events = log_events(batch, self._builder)
        due = self._spans.note_runs({event.run_id for event in events})
        try:
            return self._store([*events, *due], batch, now_ms)
        except BaseException:
            self._spans.restore(due)
            raise

    def reject_metrics(self, body: bytes, media_type: str) -> ExportOutcome:
        """Count the data points of an `ExportMetricsServiceRequest`. None is stored.

        Exporters with one endpoint for everything send metrics too. They would report a status of 4xx as an
        error every minute, and must not retry a partial success.
        """
        count: int = _decode(media_type, "count_data_points", body)
        return ExportOutcome(frozenset(), count, NO_METRICS if count else "")

    def _store(self, events: Sequence[Event], batch: ExportBatch[Any], now_ms: int) -> ExportOutcome:
        events = self._repeated.marked(events)
        try:
            conflicts, dropped = self._append(events, now_ms)
        except BaseException:
            self._repeated.forget(events)
            raise
        reasons = list(batch.reasons)
        if conflicts:
            reasons.append(f"{conflicts} events are stored already with other content, which stays")
        if dropped:
            reasons.append(f"{dropped} events belong to runs that were deleted")
        message = f"Not recorded: {'; '.join(reasons)}." if reasons else ""
        return ExportOutcome(frozenset(event.run_id for event in events), batch.rejected, message)

    def _append(self, events: Sequence[Event], now_ms: int) -> tuple[int, int]:
        """Store the events; returns how many are stored with other content, and how many of deleted runs."""
        conflicts = dropped = 0
        for first in range(0, len(events), APPENDED_AT_ONCE):
            batch = events[first : first + APPENDED_AT_ONCE]
            try:
                try:
                    self._events.store(batch, now_ms)
                except RunDeleted as error:  # again without them: another one may be in conflict
                    others = [event for event in batch if event.run_id not in error.run_ids]
                    dropped += len(batch) - len(others)
                    self._events.store(others, now_ms)
            except EventConflict as error:  # sent before with other content; the first one stays
                conflicts += len(error.event_ids)
        return conflicts, dropped


def _decode(media_type: str, function: str, body: bytes) -> Any:
    try:
        decode: Callable[[bytes], Any] = getattr(_decoder(media_type), function)
        return decode(body)
    except InvalidInput as error:
        raise ApiError(400, "invalid_otlp", str(error)) from error


def _decoder(media_type: str) -> Any:
    if media_type == JSON_TYPE:
        return otlp_json
    try:
        from longwatch.telemetry import otlp_protobuf  # it loads protobuf
    except MissingExtra as error:
        message = f"{error}, or send {JSON_TYPE}: OTEL_EXPORTER_OTLP_PROTOCOL=http/json."
        raise ApiError(415, "missing_extra", message) from error
    return otlp_protobuf


def media_type_of(content_type: str) -> str:
    """The form of a request: protobuf or JSON."""
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type not in (PROTOBUF_TYPE, JSON_TYPE):
        raise ApiError(
            415,
            "unsupported_media_type",
            f"Unsupported content type {content_type[:80]!r}. Send {PROTOBUF_TYPE} or {JSON_TYPE}.",
        )
    return media_type


def decompress(body: bytes, encoding: str, *, most: int) -> bytes:
    """The body without its gzip compression, up to a limit."""
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        return body
    if encoding != "gzip":
        raise ApiError(
            415,
            "unsupported_encoding",
            f"Unsupported content encoding {encoding[:80]!r}. Send gzip, or no compression.",
        )
    parts: list[bytes] = []
    size = 0
    try:
        while body:
            stream = zlib.decompressobj(wbits=31)
            parts.append(stream.decompress(body, most - size + 1))
            size += len(parts[-1])
            if size > most:
                raise ApiError(413, "content_too_large", f"The body is larger than {most} bytes. Split it.")
            if not stream.eof:
                raise ApiError(400, "invalid_gzip", "The gzip body is incomplete. Send it again.")
            body = stream.unused_data.lstrip(b"\0")  # a further member, or padding
    except zlib.error as error:
        raise ApiError(400, "invalid_gzip", f"The body is not valid gzip: {error}.") from error
    return b"".join(parts)
