"""The state of notifications, as `longwatch notify status` and the API return it. Times are epoch ms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from longwatch.model.json_schema import STRICT, JsonSchema
from longwatch.notifications.queue import NotificationQueue
from longwatch.notifications.records import QueuedMessage, RuleState
from longwatch.notifications.rules import Rule

LISTED = 20  # dead letters and past deliveries


@dataclass(frozen=True, kw_only=True)
class RuleView:
    """A rule of the settings."""

    __pydantic_config__ = STRICT

    name: str
    trigger: list[str]
    runs: Annotated[str, JsonSchema("A query; empty: every run.")]
    channel: str
    since: Annotated[int | None, JsonSchema("It reports what happens from then on; null: it never ran.")]
    pending: Annotated[int, JsonSchema("Notices that wait for its next message.")]

    @classmethod
    def of(cls, rule: Rule, state: RuleState | None) -> RuleView:
        return cls(
            name=rule.name,
            trigger=[each.value for each in rule.triggers],
            runs=rule.runs,
            channel=rule.channel,
            since=None if state is None else state.since,
            pending=0 if state is None else sum(state.pending.states.values()),
        )


@dataclass(frozen=True, kw_only=True)
class DeliveryView:
    """A message in the queue, a dead letter or a past delivery."""

    __pydantic_config__ = STRICT

    delivery_id: str
    rule: str
    channel: str
    state: Literal["queued", "accepted", "delivered", "dead"]
    title: str
    count: int
    run_ids: Annotated[list[str], JsonSchema("At most 200.")]
    created_at: int
    attempts: int
    next_at: Annotated[int | None, JsonSchema("Of the next attempt.")]
    response: str | None
    problem: Annotated[str | None, JsonSchema("Of the last attempt.")]
    settled_at: Annotated[int | None, JsonSchema("When it was accepted or given up.")]

    @classmethod
    def of(cls, delivery: QueuedMessage) -> DeliveryView:
        message = delivery.message
        return cls(
            delivery_id=message.delivery_id,
            rule=message.rule,
            channel=delivery.channel,
            state=delivery.state.value,
            title=message.title,
            count=message.count,
            run_ids=list(delivery.run_ids),
            created_at=delivery.created_at,
            attempts=delivery.attempts,
            next_at=delivery.next_at if delivery.settled_at is None else None,
            response=delivery.response,
            problem=delivery.problem,
            settled_at=delivery.settled_at,
        )


@dataclass(frozen=True, kw_only=True)
class NotificationStatus:
    """Rules, queue, dead letters and the last deliveries."""

    __pydantic_config__ = STRICT

    rules: list[RuleView]
    queue: list[DeliveryView]
    dead_letters: Annotated[list[DeliveryView], JsonSchema("Given up, the latest first.")]
    deliveries: Annotated[list[DeliveryView], JsonSchema("Accepted, the latest first.")]

    @classmethod
    def of(
        cls, rules: Sequence[Rule], queue: NotificationQueue, *, limit: int = LISTED
    ) -> NotificationStatus:
        states = {each.name: each for each in queue.rule_states()}
        return cls(
            rules=[RuleView.of(each, states.get(each.name)) for each in rules],
            queue=[DeliveryView.of(each) for each in queue.queued()],
            dead_letters=[DeliveryView.of(each) for each in queue.dead_letters(limit)],
            deliveries=[DeliveryView.of(each) for each in queue.deliveries(limit)],
        )
