"""What a `model_call` event states: the model, the tokens, and which record of the call it is.

An adapter of a framework, a wrapper of a client and a span may record one call of a model. The outermost
record counts, and the response ID identifies the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

from longwatch.model.event import number_of, text_of
from longwatch.model.usage import ModelUsage, TokenCounts, TokenGroup, token_group, usage_of

CLIENT_LAYER, SPAN_LAYER = 1, 2  # precedence of a record; that of an adapter is 0
SPAN_LAYERS = frozenset({"otel", "otlp"})
CLIENT_LAYERS = frozenset({"openai", "anthropic", "bedrock"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """What an event states about a call of a model, except its time and its content."""

    provider: str | None = None
    operation: str | None = None
    model: str | None = None  # as requested
    response_model: str | None = None
    response_id: str | None = None
    same_as: str | None = None  # the call that is recorded already
    adds_usage: bool | None = None  # whether that one has no token counts, so that these count
    recorded_by: str | None = None
    finish_reasons: tuple[str, ...] | None = None
    time_to_first_token_ms: float | None = None
    chunk_count: int | None = None
    usage: ModelUsage | None = None

    @classmethod
    def of(cls, payload: Mapping[str, object]) -> ModelFacts:
        """The facts in the payload of a `model_call` event."""
        reasons, chunks = payload.get("finish_reasons"), number_of(payload, "chunk_count")
        return cls(
            provider=text_of(payload, "provider"),
            operation=text_of(payload, "operation"),
            model=text_of(payload, "model"),
            response_model=text_of(payload, "response_model"),
            response_id=text_of(payload, "response_id"),
            same_as=text_of(payload, "same_as"),
            adds_usage=payload.get("adds_usage") is True or None,
            recorded_by=text_of(payload, "recorded_by"),
            finish_reasons=_texts(reasons) if isinstance(reasons, list | tuple) else None,
            time_to_first_token_ms=number_of(payload, "time_to_first_token_ms"),
            chunk_count=None if chunks is None else int(chunks),
            usage=usage_of(payload),
        )

    @property
    def layer(self) -> int:
        """The precedence of the record: an adapter's before a client's before a span's."""
        if self.recorded_by in CLIENT_LAYERS:
            return CLIENT_LAYER
        return SPAN_LAYER if self.recorded_by in SPAN_LAYERS else 0

    def response_key(self, call_id: str) -> str:
        """Equal for the records of one response."""
        return f"response {self.response_id}" if self.response_id else f"call {self.same_as or call_id}"

    @property
    def is_counted(self) -> bool:
        """Whether the totals of the run have the tokens of this record."""
        return (self.same_as is None or self.adds_usage is True) and self.tokens() is not None

    def tokens(self) -> tuple[TokenGroup, TokenCounts] | None:
        """The tokens of the call, grouped by what decides their price; None if a count is missing."""
        return token_group(
            self.usage,
            provider=self.provider,
            operation=self.operation,
            model=self.model,
            response_model=self.response_model,
        )

    def completed(self, other: ModelFacts) -> ModelFacts:
        """These facts, and the other's where these are unknown."""
        missing = [each.name for each in fields(self) if getattr(self, each.name) is None]
        found = {name: value for name in missing if (value := getattr(other, name)) is not None}
        return replace(self, **found) if found else self


class Repeat(NamedTuple):
    """Which call a record repeats, if any, and whether that one lacks the token counts."""

    same_as: str | None = None
    adds_usage: bool = False

    def fields(self) -> dict[str, object]:
        """The fields of its event."""
        if self.same_as is None:
            return {}
        return {"same_as": self.same_as, **({"adds_usage": True} if self.adds_usage else {})}


@dataclass(slots=True)
class CountedCall:
    """The record of a model call that counts."""

    call_id: str
    recorded_by: str | None
    has_tokens: bool
    started_at: int = 0
    ended_at: int = 0

    @classmethod
    def of(cls, call_id: str, facts: ModelFacts, started_at: int = 0, ended_at: int = 0) -> CountedCall:
        """The record with these facts. The times matter for spans only."""
        return cls(call_id, facts.recorded_by, facts.tokens() is not None, started_at, ended_at)

    def shares_call(self, other: CountedCall) -> bool:
        """Whether both record one call, given that they have the same response ID.

        Some local servers reuse their few IDs: an adapter or client records each call once, and the spans of
        one call overlap.
        """
        if self.recorded_by in SPAN_LAYERS and other.recorded_by in SPAN_LAYERS:
            return self.started_at <= other.ended_at and other.started_at <= self.ended_at
        return self.recorded_by is None or self.recorded_by != other.recorded_by

    def repeated_by(self, other: CountedCall) -> Repeat:
        """How the other record of the same call refers to this one."""
        return Repeat(self.call_id, other.has_tokens and not self.has_tokens)


def _texts(values: Iterable[object]) -> tuple[str, ...]:
    return tuple(value for value in values if isinstance(value, str))


def name_of_model(payload: Mapping[str, object]) -> str:
    """The name of a model call: the requested model, else what is known of it."""
    return text_of(payload, "model", "response_model", "operation") or "model"
