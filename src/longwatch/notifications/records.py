"""The records of a notification store as values, and their JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import Any

from longwatch.notifications.decisions import OpenCondition
from longwatch.notifications.message import Message, Notice, notice_fields, parse_fields, parse_notice
from longwatch.notifications.rules import Trigger

RULE, OPEN, SEEN, QUEUE, DEAD, SENT = "rule#", "open#", "seen#", "queue#", "dead#", "sent#"
MAX_RUN_IDS = 200  # of one message, whose journals get the event `notified`


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """The notices of a rule that wait for its next message."""

    notices: tuple[Notice, ...] = ()  # the first ones, free of secrets
    states: Mapping[str, int] = field(default_factory=dict, hash=False)  # of all of them
    run_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleState:
    """How far a rule is, for all notifiers of a store."""

    name: str
    fingerprint: str
    since: int  # epoch ms: it reports what happens from then on
    position: int | None = None  # in the arrivals of the journal; None: it has none
    next_message_at: int = 0  # epoch ms; at most one message a minute
    sequence: int = 0  # of the last message
    pending: Pending = Pending()
    version: int = 0  # of the record; 0: not stored yet

    @property
    def key(self) -> str:
        return RULE + self.name

    def to_value(self) -> dict[str, Any]:
        pending = self.pending
        return {
            "name": self.name,
            "fingerprint": self.fingerprint,
            "since": self.since,
            "position": self.position,
            "next_message_at": self.next_message_at,
            "sequence": self.sequence,
            "notices": [notice_fields(each) for each in pending.notices],
            "states": dict(pending.states),
            "run_ids": list(pending.run_ids),
        }

    @classmethod
    def parse(cls, value: Mapping[str, Any], version: int) -> RuleState:
        return cls(
            name=value["name"],
            fingerprint=value["fingerprint"],
            since=value["since"],
            position=value["position"],
            next_message_at=value["next_message_at"],
            sequence=value["sequence"],
            pending=Pending(
                notices=tuple(map(parse_notice, value["notices"])),
                states=value["states"],
                run_ids=tuple(value["run_ids"]),
            ),
            version=version,
        )


class DeliveryState(StrEnum):
    """How far a delivery is."""

    QUEUED = "queued"  # to be sent, or sent again
    ACCEPTED = "accepted"  # by its receiver; the journal does not state it yet
    DELIVERED = "delivered"
    DEAD = "dead"  # given up


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedMessage:
    """One message on its way."""

    message: Message
    channel: str
    run_ids: tuple[str, ...]
    created_at: int  # epoch ms
    state: DeliveryState = DeliveryState.QUEUED
    attempts: int = 0
    next_at: int = 0  # epoch ms of the next attempt
    lease_holder: str | None = None
    lease_until: int = 0  # epoch ms
    problem: str | None = None  # of the last attempt
    response: str | None = None  # of the receiver
    settled_at: int | None = None  # when it was accepted or given up
    version: int = 0
    key: str = ""  # of its record

    @property
    def delivery_id(self) -> str:
        return self.message.delivery_id

    def to_value(self) -> dict[str, Any]:
        return {
            "message": self.message.fields(),
            "channel": self.channel,
            "run_ids": list(self.run_ids),
            "created_at": self.created_at,
            "state": self.state.value,
            "attempts": self.attempts,
            "next_at": self.next_at,
            "lease_holder": self.lease_holder,
            "lease_until": self.lease_until,
            "problem": self.problem,
            "response": self.response,
            "settled_at": self.settled_at,
        }

    @classmethod
    def parse(cls, value: Mapping[str, Any], version: int, key: str) -> QueuedMessage:
        return cls(
            message=parse_fields(value["message"]),
            channel=value["channel"],
            run_ids=tuple(value["run_ids"]),
            created_at=value["created_at"],
            state=DeliveryState(value["state"]),
            attempts=value["attempts"],
            next_at=value["next_at"],
            lease_holder=value["lease_holder"],
            lease_until=value["lease_until"],
            problem=value["problem"],
            response=value["response"],
            settled_at=value["settled_at"],
            version=version,
            key=key,
        )


def condition_value(condition: OpenCondition) -> dict[str, Any]:
    """A reported condition as JSON."""
    return {
        "rule": condition.rule,
        "run_id": condition.run_id,
        "run_name": condition.run_name,
        "trigger": condition.trigger.value,
        "key": condition.key,
        "began_at": condition.began_at,
    }


def parse_condition(value: Mapping[str, Any]) -> OpenCondition:
    return OpenCondition(
        rule=value["rule"],
        run_id=value["run_id"],
        run_name=value["run_name"],
        trigger=Trigger(value["trigger"]),
        key=value["key"],
        began_at=value["began_at"],
    )


def occurrence_id(rule: str, fingerprint: str, run_id: str, key: str) -> str:
    """The end of the keys under which an occurrence is remembered."""
    digest = sha256(f"{fingerprint}\0{run_id}\0{key}".encode(errors="surrogatepass")).hexdigest()[:32]
    return f"{rule}#{digest}"


def delivery_key(kind: str, delivery: QueuedMessage) -> str:
    """The key in the queue, or, ordered by time, among dead letters and past deliveries."""
    if kind == QUEUE:
        return f"{QUEUE}{delivery.delivery_id}"
    return f"{kind}{delivery.settled_at or 0:013d}#{delivery.delivery_id}"
